import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test from 'node:test';
import { Api, problem, success, TIMESTAMP, UUIDV7, type Appended } from '../support/api.js';
import { tally, totals } from '../support/csharp.js';
import { zipOf } from '../support/zip.js';
import { sample, startService, temporaryDirectory, until } from '../support/service.js';

interface Reducer {
  readonly id: string;
  readonly status: string;
  readonly kind: string;
  readonly discovered?: readonly {
    readonly className: string;
    readonly stateTypeName: string;
    readonly kind: string;
    readonly aggregateType: string;
  }[];
  readonly compilationError?: string;
  readonly diagnostics?: readonly {
    readonly severity: string;
    readonly code: string;
    readonly message: string;
    readonly file: string | null;
    readonly line: number | null;
    readonly column: number | null;
  }[];
  readonly createdAt: string;
  readonly compiledAt?: string;
}
interface State<T> {
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly version: number;
  readonly state: T | null;
  readonly lastModified: string;
  readonly fault?: {
    readonly eventId: string;
    readonly aggregateId: string;
    readonly version: number;
    readonly className: string;
    readonly message: string;
    readonly file: string | null;
    readonly line: number | null;
    readonly at: string;
  };
}
interface Tally {
  readonly count: number;
  readonly version: number;
  readonly last: string;
}

test('reducers', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  const env = { RUNNER_EVENT_DEADLINE_MS: '500', RUNNER_BATCH_DEADLINE_MS: '1000', FOLD_DEADLINE_MS: '30000' };
  let service = await startService(t, { dataDirectory, env });
  let api = new Api(service);
  const state = <T = Tally>(type: string, id: string): Promise<State<T>> =>
    api.read<State<T>>(`/aggregate-types/${type}/${encodeURIComponent(id)}/state`);
  const failed = async (sources: Readonly<Record<string, string>>): Promise<Reducer> => {
    const { reducerId } = success(await api.upload('reducers', sources), 202).json<{ reducerId: string }>();
    return api.compiled<Reducer>('reducers', reducerId);
  };

  await t.test('no reducer, no state; the type decides before the aggregate', async () => {
    problem(await api.get('/aggregate-types/account'), 404, 'NO_REDUCER_BOUND');
    problem(await api.get('/aggregate-types/account/account-1/state'), 404, 'NO_REDUCER_BOUND');
    assert.equal((await api.append('account-1', 'Opened', { owner: 'Ada' })).state, undefined);
    problem(await api.get('/aggregate-types/account/account-1/state'), 404, 'NO_REDUCER_BOUND');
    problem(await api.get('/aggregate-types/a%20b/x/state'), 400, 'INVALID_REQUEST');
    problem(await api.get('/reducers/nothing/status'), 404, 'NOT_FOUND');
  });

  await t.test('a zip is compiled, bound by itself, and folds what was there', async () => {
    const { 'README.md': _, ...files } = { ...sample('bank'), 'README.md': '' };
    const upload = success(
      await api.upload('reducers', {
        'sources.zip': await zipOf({
          ...Object.fromEntries(Object.entries(files).map(([name, text]) => [`src/${name}`, text])),
          'notes.txt': 'not read',
        }),
      }),
      202,
    );
    const uploaded = upload.json<{ reducerId: string; status: string }>();
    assert.deepEqual(Object.keys(uploaded), ['reducerId', 'status']);
    assert.match(uploaded.reducerId, UUIDV7);
    assert.equal(uploaded.status, 'pending_compilation');
    const pending = await api.read<Reducer>(`/reducers/${uploaded.reducerId}/status`);
    if (pending.status !== 'compiled')
      assert.deepEqual(
        [pending.status, pending.discovered, pending.compiledAt],
        ['pending_compilation', undefined, undefined],
      );
    const record = await api.compiled<Reducer>('reducers', uploaded.reducerId);
    assert.deepEqual([record.id, record.status, record.kind], [uploaded.reducerId, 'compiled', 'reducer']);
    assert.deepEqual(record.discovered, [
      { className: 'Bank.AccountReducer', stateTypeName: 'Bank.Account', kind: 'reducer', aggregateType: 'account' },
    ]);
    assert.match(record.createdAt, TIMESTAMP);
    assert.match(record.compiledAt ?? '', TIMESTAMP);
    assert.equal('compilationError' in record, false);

    const binding = await api.read<{ aggregateType: string; reducerId: string; className: string; boundAt: string }>(
      '/aggregate-types/account',
    );
    assert.deepEqual(
      [binding.aggregateType, binding.reducerId, binding.className],
      ['account', uploaded.reducerId, 'Bank.AccountReducer'],
    );
    assert.match(binding.boundAt, TIMESTAMP);
    assert.deepEqual((await state('account', 'account-1')).state, { owner: 'Ada', balance: 0, entries: 0 });
    problem(await api.get('/aggregate-types/account/account-2/state'), 404, 'NOT_FOUND');
    const { aggregateTypes } = await api.read<{
      aggregateTypes: {
        aggregateType: string;
        aggregates: number;
        reducerId?: string;
        boundAt?: string;
        catchUp?: { status: string; processed: number; total: number };
      }[];
    }>('/aggregate-types');
    const listed = aggregateTypes.find(({ aggregateType }) => aggregateType === 'account');
    assert.deepEqual(
      [listed?.aggregates, listed?.reducerId, listed?.boundAt],
      [1, uploaded.reducerId, binding.boundAt],
    );
    const { reducers } = await api.read<{ reducers: Reducer[] }>('/reducers');
    assert.deepEqual(reducers, [record]);
  });

  await t.test('the state of a 201 is that at its version, in batches and beside them', async () => {
    const deposits = await Promise.all(
      Array.from({ length: 20 }, (_, i) => api.append('account-1', 'Deposited', { cents: i + 1 })),
    );
    const balances = new Map(
      deposits.map(({ version, state: after }) => [version, after as { balance: number; entries: number }]),
    );
    let balance = 0;
    const { events } = await api.read<{ events: { version: number; data: { cents: number } }[] }>(
      '/events/account-1?fromVersion=2',
    );
    for (const { version, data } of events) {
      balance += data.cents;
      assert.deepEqual(balances.get(version), { owner: 'Ada', balance, entries: version - 1 }, `version ${version}`);
    }
    const both = success(
      await api.post('/events/batch', {
        aggregateId: 'account-1',
        events: [
          { eventType: 'Withdrawn', data: { cents: 10 } },
          { eventType: 'Withdrawn', data: { cents: 100 } },
        ],
      }),
      201,
    ).json<{ endVersion: number; timestamp: string; state: unknown }>();
    assert.deepEqual([both.endVersion, both.state], [23, { owner: 'Ada', balance: 100, entries: 22 }]);
    assert.deepEqual(await state('account', 'account-1'), {
      aggregateId: 'account-1',
      aggregateType: 'account',
      version: 23,
      state: both.state,
      lastModified: both.timestamp,
    });
    // Another type has another reducer, or none.
    problem(await api.get('/aggregate-types/account/other-1/state'), 404, 'NOT_FOUND');
    await api.append('other-1', 'Opened');
    problem(await api.get('/aggregate-types/account/other-1/state'), 404, 'NOT_FOUND');
  });

  await t.test('code sees all that the event carries; null is a state', async () => {
    await api.deployReducer({ 'Tally.cs': tally('tally') });
    const echo = await api.append(
      'tally-1',
      'Echo',
      {},
      { correlationId: 'co', causationId: 'ca', metadata: { by: 1.0 } },
    );
    assert.deepEqual(echo.state, { count: 1, version: 1, last: `tally-1|tally|co|ca|{"by":1}|${echo.timestamp}` });
    const reset = await api.append('tally-1', 'Reset');
    assert.deepEqual(reset.state, null);
    assert.deepEqual([(await state('tally', 'tally-1')).state, (await state('tally', 'tally-1')).version], [null, 2]);
    assert.deepEqual((await api.append('tally-1', 'A')).state, { count: 1, version: 3, last: 'A' });
    const long = `tally-${'l'.repeat(200)}`;
    assert.deepEqual((await api.append(long, 'A')).state, { count: 1, version: 1, last: 'A' });
  });

  await t.test(
    'several reducers in one DLL, each bound to its own type; two of one type are refused at both places',
    async () => {
      const reducerId = await api.deployReducer({
        'a/OrderLineReducer.cs': tally('x', 1, 'OrderLineReducer').replace('[AggregateType("x")]', ''),
        'b/Invoice.cs': tally('bill', 10, 'Invoice'),
        'Two.cs': tally('shared', 2, 'Two'),
      });
      const both = await failed({ 'One.cs': tally('twice', 1, 'One'), 'deep/Two.cs': `\n${tally('twice', 2, 'Two')}` });
      assert.equal(both.status, 'failed');
      assert.deepEqual(
        both.diagnostics?.map(({ severity, code, file, line, column }) => [severity, code, file, line, column]),
        [
          ['error', 'SF0010', 'One.cs', 4, 21],
          ['error', 'SF0010', 'deep/Two.cs', 5, 21],
        ],
      );
      assert.match(
        both.diagnostics?.[0]?.message ?? '',
        /^Tests\.One folds aggregates of the type 'twice', and so does Tests\.Two: .*AggregateType/,
      );
      problem(await api.get('/aggregate-types/twice'), 404, 'NO_REDUCER_BOUND');
      const record = await api.read<Reducer>(`/reducers/${reducerId}/status`);
      assert.deepEqual(
        record.discovered?.map(({ className, aggregateType }) => [className, aggregateType]),
        [
          ['Tests.Invoice', 'bill'],
          ['Tests.OrderLineReducer', 'orderLine'],
          ['Tests.Two', 'shared'],
        ],
      );
      assert.equal((await api.read<{ reducerId: string }>('/aggregate-types/orderLine')).reducerId, reducerId);
      assert.deepEqual((await api.append('bill-1', 'A')).state, { count: 10, version: 1, last: 'A' });
      assert.deepEqual((await api.append('shared-1', 'A')).state, { count: 2, version: 1, last: 'A' });
      problem(await api.put('/aggregate-types/free', { reducerId }), 422, 'REDUCER_CLASS_NOT_FOUND');
      problem(
        await api.put('/aggregate-types/shared', { reducerId, className: 'Tests.Nobody' }),
        422,
        'REDUCER_CLASS_NOT_FOUND',
      );
      problem(await api.put('/aggregate-types/shared', { reducerId: 'nothing' }), 404, 'NOT_FOUND');
      for (const body of [{}, { reducerId: 1 }, { reducerId, className: '' }, [], 'x', null])
        problem(await api.put('/aggregate-types/shared', body), 400, 'INVALID_REQUEST');
      const answer = success(await api.put('/aggregate-types/shared', { reducerId, className: 'Tests.Two' }), 200).json<
        Record<string, string>
      >();
      assert.deepEqual([answer['aggregateType'], answer['reducerId']], ['shared', reducerId]);
      assert.match(answer['boundAt'] ?? '', TIMESTAMP);
      assert.match(answer['message'] ?? '', /bound.*catch-up.*in progress/);
      assert.deepEqual((await state('shared', 'shared-1')).state, { count: 2, version: 1, last: 'A' });
      // A class may be bound to a type that it was not written for, when it is named; without a name the type finds its own class.
      success(await api.put('/aggregate-types/free', { reducerId, className: 'Tests.Two' }), 200);
      assert.deepEqual((await api.append('free-1', 'A')).state, { count: 2, version: 1, last: 'A' });
      const again = success(await api.put('/aggregate-types/bill', { reducerId }), 200).json<{ boundAt: string }>();
      assert.equal((await api.read<{ boundAt: string }>('/aggregate-types/bill')).boundAt, again.boundAt);
    },
  );

  await t.test('a new binding folds again: on demand at once, the rest in a catch-up', async () => {
    for (let i = 0; i < 30; i++)
      success(
        await api.post('/events/batch', {
          aggregateId: `redo-${i}`,
          events: Array.from({ length: 10 }, () => ({ eventType: 'A', data: {} })),
        }),
        201,
      );
    await api.deployReducer({ 'Redo.cs': tally('redo') });
    assert.deepEqual((await state('redo', 'redo-7')).state, { count: 10, version: 10, last: 'A' });
    await until(
      async () => (await api.read<{ catchUp: { status: string } }>('/aggregate-types/redo')).catchUp.status === 'done',
    );
    const second = await api.deployReducer({ 'Redo.cs': tally('redo', 5) });
    assert.equal((await api.read<{ reducerId: string }>('/aggregate-types/redo')).reducerId, second);
    assert.deepEqual((await api.append('redo-3', 'B')).state, { count: 55, version: 11, last: 'B' });
    assert.deepEqual((await state('redo', 'redo-4')).state, { count: 50, version: 10, last: 'A' });
    await until(
      async () => (await api.read<{ catchUp: { status: string } }>('/aggregate-types/redo')).catchUp.status === 'done',
    );
    const { catchUp } = await api.read<{ catchUp: { processed: number; total: number } }>('/aggregate-types/redo');
    assert.equal(catchUp.processed, catchUp.total);
    for (let i = 0; i < 30; i++) assert.equal((await state('redo', `redo-${i}`)).state?.count, i === 3 ? 55 : 50);
  });

  await t.test('code that does not compile says where', async () => {
    const broken = await failed({
      'Good.cs': tally('broken'),
      'deep/Broken.cs': 'namespace Tests;\n\npublic class Broken\n{\n    int X() => "no";\n}\n',
    });
    assert.deepEqual([broken.status, broken.discovered, broken.kind], ['failed', undefined, 'reducer']);
    assert.match(broken.compilationError ?? '', /deep\/Broken\.cs.*5.*16.*CS0029/s);
    const [diagnostic] = broken.diagnostics ?? [];
    assert.deepEqual(
      { ...diagnostic, message: '' },
      { severity: 'error', code: 'CS0029', message: '', file: 'deep/Broken.cs', line: 5, column: 16 },
    );
    assert.match(diagnostic?.message ?? '', /string.*int/);
    problem(await api.put('/aggregate-types/broken', { reducerId: broken.id }), 422, 'REDUCER_NOT_COMPILED');
    problem(await api.get('/aggregate-types/broken'), 404, 'NO_REDUCER_BOUND');
    const none = await failed({ 'None.cs': 'public class None {}' });
    assert.equal(none.status, 'failed');
    assert.match(none.compilationError ?? '', /IReducer<T>/);
    const elsewhere = await failed({ 'Totals.cs': totals() });
    assert.match(
      elsewhere.compilationError ?? '',
      /SF0001: No class in the upload implements IReducer<T>\. Tests\.Totals implements IProjection<T>: send it to POST \/projections\/upload\./,
    );
    assert.equal((await failed({ 'Bad.cs': tally('b a d') })).status, 'failed');
    // The reducer that is bound stays so when its successor doesn't compile.
    const bound = await api.read<{ reducerId: string }>('/aggregate-types/tally');
    await failed({ 'Tally.cs': `${tally('tally')} }` });
    assert.equal((await api.read<{ reducerId: string }>('/aggregate-types/tally')).reducerId, bound.reducerId);
  });

  await t.test('what throws or hangs stops its own aggregate, and is told with file and line', async () => {
    const thrown = await api.append('tally-2', 'Boom');
    assert.deepEqual([thrown.version, thrown.state, thrown.stateStatus], [1, undefined, 'faulted']);
    await api.append('tally-3', 'A');
    const boom = await api.append('tally-3', 'Boom');
    const parked = success(
      await api.post('/events/batch', {
        aggregateId: 'tally-3',
        events: [
          { eventType: 'A', data: {} },
          { eventType: 'B', data: {} },
        ],
      }),
      201,
    ).json<Appended>();
    assert.deepEqual([parked.state, parked.stateStatus], [undefined, 'faulted']);
    const { fault, ...rest } = await state('tally', 'tally-3');
    assert.deepEqual([rest.version, rest.state], [1, { count: 1, version: 1, last: 'A' }]);
    assert.match(fault?.at ?? '', TIMESTAMP);
    assert.deepEqual(
      { ...fault, at: '' },
      {
        eventId: boom.eventId,
        aggregateId: 'tally-3',
        version: 2,
        eventType: 'Boom',
        className: 'Tests.Tally',
        message: 'InvalidOperationException: boom at 2',
        file: 'Tally.cs',
        line: 9,
        at: '',
      },
    );
    assert.deepEqual([(await state('tally', 'tally-2')).version, (await state('tally', 'tally-2')).state], [0, null]);
    assert.deepEqual((await api.append('tally-1', 'B')).state, { count: 2, version: 4, last: 'B' });

    const hung = await api.append('tally-4', 'Hang');
    assert.equal(hung.stateStatus, 'faulted');
    assert.equal((await state('tally', 'tally-4')).fault?.version, 1);
    assert.deepEqual((await api.append('tally-5', 'A')).state, { count: 1, version: 1, last: 'A' });
    // A new deployment is a new fold: what the old one stopped at is gone.
    await api.deployReducer({
      'Tally.cs': tally('tally').replace(
        '"Boom" => throw new InvalidOperationException($"boom at {e.Version}")',
        '"Boom" => state',
      ),
    });
    const healed = await state('tally', 'tally-3');
    assert.deepEqual([healed.fault, healed.version, healed.state], [undefined, 4, { count: 3, version: 4, last: 'B' }]);
  });

  await t.test('all of it is there after a kill, and an upload that was cut off is compiled', async () => {
    const before = await Promise.all(
      [
        '/aggregate-types/account/account-1/state',
        '/aggregate-types/shared/shared-1/state',
        '/reducers',
        '/aggregate-types/bill',
      ].map((path) => api.get(path)),
    );
    // Longer than the deadline of the fold and the tick by which it is kept, on any machine.
    const slow = tally('late')
      .replace('_ => new', '_ => Slowly() == 0 ? null : new')
      .replace(
        'private static',
        'private static long Slowly() { var sum = 1L; for (var i = 0; i < 400_000_000; i++) sum += i % 7; return sum; }\n\n    private static',
      );
    const { reducerId } = success(await api.upload('reducers', { 'Late.cs': `${slow}// ${randomUUID()}` }), 202).json<{
      reducerId: string;
    }>();
    await service.kill();
    const patient = { RUNNER_EVENT_DEADLINE_MS: '20000', RUNNER_BATCH_DEADLINE_MS: '20000' };
    service = await startService(t, { dataDirectory, env: { ...env, ...patient, FOLD_DEADLINE_MS: '1' } });
    api = new Api(service);
    assert.equal((await api.compiled<Reducer>('reducers', reducerId)).status, 'compiled');
    // The answer doesn't wait for the state past its deadline, and a read does.
    const early = await api.append('late-1', 'A');
    assert.deepEqual([early.state, early.stateStatus], [undefined, 'deadline']);
    assert.deepEqual((await state('late', 'late-1')).state, { count: 1, version: 1, last: 'A' });
    assert.equal((await api.get('/aggregate-types/account/account-1/state')).text, before[0]?.text);
    assert.equal((await api.get('/aggregate-types/shared/shared-1/state')).text, before[1]?.text);
    const { reducers } = before[2]?.json<{ reducers: Reducer[] }>() ?? { reducers: [] };
    assert.deepEqual((await api.read<{ reducers: Reducer[] }>('/reducers')).reducers.slice(0, -1), reducers);
    const pages: Reducer[] = [];
    for (let cursor = ''; ;) {
      const page = await api.read<{ reducers: Reducer[]; nextCursor?: string }>(`/reducers?limit=3${cursor}`);
      pages.push(...page.reducers);
      if (page.nextCursor === undefined) break;
      cursor = `&cursor=${page.nextCursor}`;
    }
    assert.deepEqual(pages.slice(0, -1), reducers);
    problem(await api.get('/reducers?cursor=%21'), 400, 'INVALID_REQUEST');
    await api.append('account-1', 'Closed');
    assert.deepEqual(
      [(await state('account', 'account-1')).version, (await state('account', 'account-1')).state],
      [24, null],
    );
  });
});
