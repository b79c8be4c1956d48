import assert from 'node:assert/strict';
import test from 'node:test';
import { readBy, typedViews, type Path } from '../../src/read-store/tenant-views.js';

const path = (owner: string, name: string, types: readonly string[], table: Path['table'] = 'events'): Path => ({
  table,
  owner,
  path: name,
  types,
});
const only = (...paths: Path[]): string => {
  const [view, ...others] = typedViews(paths);
  assert.equal(others.length, 0);
  return view?.select ?? '';
};

test('a view for the events and one for the states of each type, named in snake case', () => {
  const names = typedViews([
    path('BankAccount', '', []),
    path('bank-account', '', []),
    path('BankAccount', '', [], 'aggregate_states'),
    path('Shop.Totals.OrderTotals', '', [], 'projection_states'),
    path('aggregate', '', [], 'aggregate_states'),
  ]).map(({ name }) => name);
  assert.deepEqual(names.sort(), [
    // The name of a table is taken.
    'aggregate_states_2',
    'bank_account_events',
    'bank_account_events_2',
    'bank_account_states',
    'order_totals_states',
  ]);
});

test('a path has the type that its values have in common', () => {
  const select = only(
    path('trip', 'a', ['Int64']),
    path('trip', 'b', ['Int64', 'Float64']),
    path('trip', 'c', ['Int64', 'String']),
    path('trip', 'd', ['Array(Nullable(String))']),
    path('trip', 'e', ['Array(JSON(max_dynamic_types=16, max_dynamic_paths=256))']),
    path('trip', 'f.g', ['Bool']),
    path('trip', '', []),
  );
  assert.match(select, /data\.`a`\.:`Int64` AS `a`/);
  assert.match(select, /accurateCastOrNull\(data\.`b`, 'Float64'\) AS `b`/);
  assert.match(select, /data\.`c`::Nullable\(String\) AS `c`/);
  assert.match(select, /data\.`d`\.:`Array\(Nullable\(String\)\)` AS `d`/);
  assert.match(select, /toJSONString\(data\.`e`\) AS `e`/);
  assert.match(select, /data\.`f`\.`g`\.:`Bool` AS `f\.g`/);
  assert.match(select, / FROM events WHERE aggregate_type = 'trip'$/);
});

test('a path with the name of another column is told apart, and no name leaves its quotes', () => {
  const select = only(path("it's", 'version', ['Int64']), path("it's", 'x` FROM system.one --', ['Int64']));
  assert.match(select, /AS `data\.version`/);
  assert.match(select, /AS `x\\` FROM system\.one --`/);
  assert.match(select, /aggregate_type = 'it\\'s'$/);
});

test('states are read as they are now', () => {
  assert.match(only(path('t', '', [], 'aggregate_states')), /FROM aggregate_states FINAL WHERE aggregate_type = 't'$/);
  assert.match(only(path('T', '', [], 'projection_states')), /FROM projection_states FINAL WHERE class_name = 'T'$/);
});

test('views that a statement does not read are there by their names alone', () => {
  const paths = [path('trip', 'a', ['Int64']), path('bus', 'a', ['Int64'])];
  const read = (statement: string, parameters: Record<string, string> = {}): string[] =>
    typedViews(paths, readBy(statement, new Map(Object.entries(parameters))))
      .filter(({ select }) => select.includes('FROM events'))
      .map(({ name }) => name);
  assert.equal(typedViews(paths, () => false).length, 2);
  assert.deepEqual(read('SELECT a FROM trip_events'), ['trip_events']);
  assert.deepEqual(read('SELECT a FROM `trip_events` JOIN bus_events USING a'), ['bus_events', 'trip_events']);
  assert.deepEqual(read('SELECT a FROM {t:Identifier}', { t: 'bus_events' }), ['bus_events']);
  assert.deepEqual(read('SHOW TABLES'), []);
  for (const all of [
    "SELECT name FROM system.columns WHERE table LIKE '%_events'",
    'SELECT * FROM information_schema.columns',
    "SELECT * FROM MERGE('_events$')",
    'SELECT * FROM `trip\\x5fevents`',
  ])
    assert.deepEqual(read(all), ['bus_events', 'trip_events']);
});
