import assert from 'node:assert/strict';
import test from 'node:test';
import { declaredColumns, type DeclaredStates, type Schema } from '../../src/read-store/declared-columns.js';
import { readBy, typedViews, type Path } from '../../src/read-store/tenant-views.js';

const path = (owner: string, name: string, types: readonly string[], table: Path['table'] = 'events'): Path => ({
  table,
  owner,
  path: name,
  types,
});
const only = async (...paths: Path[]): Promise<string> => {
  const [view, ...others] = await typedViews(paths);
  assert.equal(others.length, 0);
  return view?.select ?? '';
};

test('a view for the events and one for the states of each type, named in snake case', async () => {
  const names = (
    await typedViews([
      path('BankAccount', '', []),
      path('bank-account', '', []),
      path('BankAccount', '', [], 'aggregate_states'),
      path('Shop.Totals.OrderTotals', '', [], 'projection_states'),
      path('aggregate', '', [], 'aggregate_states'),
    ])
  ).map(({ name }) => name);
  assert.deepEqual(names.sort(), [
    // The name of a table is taken.
    'aggregate_states_2',
    'bank_account_events',
    'bank_account_events_2',
    'bank_account_states',
    'order_totals_states',
  ]);
});

test('a path has the type that its values have in common', async () => {
  const select = await only(
    path('trip', 'a', ['Int64']),
    path('trip', 'b', ['Int64', 'Float64']),
    path('trip', 'c', ['Int64', 'String']),
    path('trip', 'd', ['Array(Nullable(String))']),
    path('trip', 'e', ['Array(JSON(max_dynamic_types=16, max_dynamic_paths=256))']),
    path('trip', 'f.g', ['Bool']),
    path('trip', '', []),
  );
  assert.match(select, /source\.data\.`a`\.:`Int64` AS `a`/);
  assert.match(select, /toFloat64OrNull\(source\.data\.`b`::Nullable\(String\)\) AS `b`/);
  assert.match(select, /source\.data\.`c`::Nullable\(String\) AS `c`/);
  assert.match(select, /source\.data\.`d`\.:`Array\(Nullable\(String\)\)` AS `d`/);
  assert.match(select, /toJSONString\(source\.data\.`e`\) AS `e`/);
  assert.match(select, /source\.data\.`f`\.`g`\.:`Bool` AS `f\.g`/);
  assert.match(select, / FROM events AS source WHERE source\.aggregate_type = 'trip'$/);
});

test('a path with the name of another column is told apart, and no name leaves its quotes', async () => {
  const select = await only(path("it's", 'version', ['Int64']), path("it's", 'x` FROM system.one --', ['Int64']));
  assert.match(select, /AS `data\.version`/);
  assert.match(select, /AS `x\\` FROM system\.one --`/);
  assert.match(select, /aggregate_type = 'it\\'s'$/);
});

test('states are read as they are now', async () => {
  assert.match(
    await only(path('t', '', [], 'aggregate_states')),
    /FROM aggregate_states AS source FINAL WHERE source\.aggregate_type = 't' AND source\.state_raw IS NOT NULL$/,
  );
  assert.match(
    await only(path('T', '', [], 'projection_states')),
    /FROM projection_states AS source FINAL WHERE source\.class_name = 'T' AND source\.state_raw IS NOT NULL$/,
  );
});

test('views that a statement does not read are there by their names alone', async () => {
  const paths = [path('trip', 'a', ['Int64']), path('bus', 'a', ['Int64'])];
  const read = async (statement: string, parameters: Record<string, string> = {}): Promise<string[]> =>
    (await typedViews(paths, [], await readBy(statement, new Map(Object.entries(parameters)))))
      .filter(({ select }) => select.includes('FROM events'))
      .map(({ name }) => name);
  assert.equal((await typedViews(paths, [], () => false)).length, 2);
  assert.deepEqual(await read('SELECT a FROM trip_events'), ['trip_events']);
  assert.deepEqual(await read('SELECT a FROM `trip_events` JOIN bus_events USING a'), ['bus_events', 'trip_events']);
  assert.deepEqual(await read('SELECT a FROM {t:Identifier}', { t: 'bus_events' }), ['bus_events']);
  assert.deepEqual(await read('SHOW TABLES'), []);
  for (const all of [
    "SELECT name FROM system.columns WHERE table LIKE '%_events'",
    'SELECT * FROM information_schema.columns',
    "SELECT * FROM MERGE('_events$')",
    'SELECT * FROM `trip\\x5fevents`',
  ])
    assert.deepEqual(await read(all), ['bus_events', 'trip_events']);
});

const declares = (
  owner: string,
  schema: Schema,
  table: DeclaredStates['table'] = 'aggregate_states',
): DeclaredStates => ({
  table,
  owner,
  schema: () => Promise.resolve(schema),
});
const selectOf = async (paths: readonly Path[], ...declared: DeclaredStates[]): Promise<string> => {
  const [view, ...others] = await typedViews(paths, declared);
  assert.equal(others.length, 0);
  return view?.select ?? '';
};
const ofState = (name: string, types: readonly string[]): Path => path('t', name, types, 'aggregate_states');
const object = (properties: Schema): Schema => ({ type: 'object', properties });

test('a declared column is read from the JSON where rows have nothing else in it, and from the text of the state elsewhere', async () => {
  const schema = object({ n: { type: 'integer', 'x-dotnet': 'long' }, s: { type: 'string' }, d: { type: 'number' } });
  const found = await selectOf(
    [ofState('n', ['Int64']), ofState('s', ['String']), ofState('d', ['Float64', 'Int64'])],
    declares('t', schema),
  );
  assert.match(
    found,
    /source\.state\.`n`\.:`Int64` AS `n`, source\.state\.`s`::Nullable\(String\) AS `s`, toFloat64OrNull\(source\.state\.`d`::Nullable\(String\)\) AS `d`/,
  );
  const other = await selectOf([ofState('n', ['Int64', 'String']), ofState('s', ['Date'])], declares('t', schema));
  assert.match(
    other,
    /JSONExtract\(source\.state_raw, 'n', 'Nullable\(Int64\)'\) AS `n`, JSONExtract\(source\.state_raw, 's', 'Nullable\(String\)'\) AS `s`, JSONExtract/,
  );
});

test('what rows have besides follows; what lies in a dictionary does not', async () => {
  const schema = object({
    by: { type: 'object', additionalProperties: { anyOf: [{ type: 'integer' }, { type: 'null' }] } },
  });
  const select = await selectOf([ofState('by.x', ['Int64']), ofState('bygone', ['Int64'])], declares('t', schema));
  assert.match(
    select,
    /JSONExtract\(ifNull\(source\.state_raw, ''\), 'by', 'Map\(String, Nullable\(Int64\)\)'\) AS `by`, source\.state\.`bygone`/,
  );
  assert.doesNotMatch(select, /by\.x/);
});

test('a state that is no object is one column; one without end, and one of several kinds, have those that rows have', async () => {
  assert.match(
    await selectOf([], declares('t', { type: 'integer' })),
    /JSONExtract\(source\.state_raw, 'Nullable\(Int64\)'\) AS `value`/,
  );
  const chain = {
    $ref: '#/$defs/C~1',
    $defs: { 'C/': object({ v: { type: 'integer' }, next: { anyOf: [{ $ref: '#/$defs/C~1' }, { type: 'null' }] } }) },
  };
  assert.deepEqual(
    declaredColumns(chain).map((column) => column.path),
    [['v']],
  );
  assert.deepEqual(
    declaredColumns({ $ref: '#/$defs/S', $defs: { S: { anyOf: [object({ a: { type: 'integer' } })] } } }),
    [],
  );
  assert.deepEqual(declaredColumns({ $ref: '#/$defs/absent' }), []);
  assert.deepEqual(declaredColumns({}), []);
});

test('two classes of one name that differ in a member leave it as rows have it', async () => {
  const of = (type: string): DeclaredStates =>
    declares('A.T', object({ n: { type }, same: { type: 'boolean' } }), 'projection_states');
  const select = await selectOf([path('A.T', 'n', ['String'], 'projection_states')], of('integer'), of('string'));
  assert.match(
    select,
    /JSONExtract\(source\.state_raw, 'same', 'Nullable\(Bool\)'\) AS `same`, source\.state\.`n`\.?:?:?.* AS `n`/,
  );
});

/** The longest time that the event loop was held while the work was done, milliseconds. */
async function longestHold(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let last = performance.now();
  let ended = false;
  const look = (): void => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
    if (!ended) setImmediate(look);
  };
  setImmediate(look);
  await work();
  ended = true;
  return longest;
}

test('views of very many types that have one name hold up nobody', async () => {
  const owners = Array.from({ length: 8_000 }, (_, i) =>
    i.toString(2).padStart(13, '0').replaceAll('0', '.').replaceAll('1', '-'),
  );
  const paths = owners.map((owner) => path(`a${owner}b`, '', []));
  let names = new Set<string>();
  const held = await longestHold(async () => {
    names = new Set((await typedViews(paths, [], await readBy('SELECT 1', new Map()))).map(({ name }) => name));
  });
  assert.equal(names.size, owners.length);
  assert.ok(names.has('a_b_events') && names.has('a_b_events_8000'));
  assert.ok(held < 500, `${held} ms`);
});

test('all views of a statement have a bounded text: those past it have their JSON as one column', async () => {
  const paths = Array.from({ length: 100 }, (_, owner) =>
    Array.from({ length: 1_000 }, (_, i) => path(`type-${owner}`, `${'p'.repeat(150)}${i}`, ['String'])),
  ).flat();
  const views = await typedViews(paths, [], await readBy("SELECT * FROM merge('events')", new Map()));
  const text = views.reduce((sum, { select }) => sum + select.length, 0);
  assert.equal(views.length, 100);
  assert.ok(text < 6 * 1024 * 1024, `${text} characters`);
  assert.equal(views.at(-1)?.select, views.at(-1)?.untyped);
});
