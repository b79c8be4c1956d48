import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test from 'node:test';
import { Api, form, problem, success, type Appended, type Listed } from '../support/api.js';
import { tally, totals } from '../support/csharp.js';
import { childrenOf, commandLineOf } from '../support/load-world.js';
import { startService, until, type Answer } from '../support/service.js';

interface Reached {
  readonly status: string;
  readonly reducerId?: string;
  readonly projectionId?: string;
  readonly success?: boolean;
  readonly message?: string;
  readonly compilationError?: string;
  readonly diagnostics?: readonly { readonly code: string; readonly file: string; readonly line: number }[];
  readonly live?: { readonly revision: number; readonly artefactId: string };
}

test('an upload that is waited for', async (t) => {
  // No wait of an upload is bounded by what bounds other answers and requests.
  const service = await startService(t, {
    env: {
      // Seconds, so that a busy machine answers in time what is not waited for.
      ANSWER_DEADLINE_MS: '1500',
      HEADERS_TIMEOUT_MS: '2000',
      REQUEST_TIMEOUT_MS: '2500',
      COMPILERS: '1',
      // One that stands still is not replaced meanwhile.
      COMPILE_DEADLINE_MS: '120000',
      COMPILATIONS_DIR: '',
      SHUTDOWN_DEADLINE_MS: '20000',
    },
  });
  const api = new Api(service);
  /** On a busy machine an answer may come after its deadline: then the request is sent again, as it says. */
  const append = async (aggregateId: string, eventType: string): Promise<Appended> => {
    const headers = { 'idempotency-key': randomUUID() };
    for (let tries = 0; ; tries++) {
      const answer = await api.post('/events', { aggregateId, eventType, data: {} }, { headers });
      if (answer.status !== 503 || tries === 50) return success(answer, 201).json<Appended>();
    }
  };
  const send = (
    kind: 'reducers' | 'projections',
    wait: string,
    sources: Readonly<Record<string, string>>,
    fields: Readonly<Record<string, string>> = {},
  ): Promise<Answer> => api.request('POST', `/${kind}/upload?waitSeconds=${wait}`, { raw: form(sources, fields) });
  const reached = async (...asked: Parameters<typeof send>): Promise<Reached> =>
    success(await send(...asked), 202).json<Reached>();

  await t.test('a reducer is bound when it is answered: the next append has its state', async () => {
    await append('count-1', 'A');
    const { reducerId, ...rest } = await reached('reducers', '30', { 'Tally.cs': tally('count') });
    assert.deepEqual(rest, { status: 'compiled' });
    assert.deepEqual((await append('count-1', 'B')).state, { count: 2, version: 2, last: 'B' });
    assert.equal((await api.read<{ reducerId: string }>('/aggregate-types/count')).reducerId, reducerId);
    const again = await reached('reducers', '30', { 'Tally.cs': tally('count', 10) });
    assert.equal(again.status, 'compiled');
    assert.deepEqual((await api.read<{ state: unknown }>('/aggregate-types/count/count-1/state')).state, {
      count: 20,
      version: 2,
      last: 'B',
    });
  });

  await t.test('code that does not compile is answered with what is wrong', async () => {
    const reducer = await reached('reducers', '30', {
      'Broken.cs': 'public class Broken\n{\n    int X() => "no";\n}\n',
    });
    assert.deepEqual(
      [reducer.status, reducer.diagnostics?.[0]?.code, reducer.diagnostics?.[0]?.file, reducer.diagnostics?.[0]?.line],
      ['failed', 'CS0029', 'Broken.cs', 3],
    );
    assert.match(reducer.compilationError ?? '', /CS0029/);
    const projection = await reached('projections', '30', {
      'Broken.cs': 'public class Broken\n{\n    int X() => "no";\n}\n',
    });
    assert.deepEqual(
      [projection.status, projection.success, projection.live, projection.diagnostics?.[0]?.code],
      ['failed', false, undefined, 'CS0029'],
    );
    assert.match(projection.compilationError ?? '', /Broken\.cs/);
  });

  await t.test('a projection is live when it is answered: its states are those of the history', async () => {
    const events = Array.from({ length: 500 }, (_, n) => ({ eventType: 'A', data: { key: `k${n % 5}`, n } }));
    for (let i = 0; i < 8; i++) success(await api.post('/events/batch', { aggregateId: `sum-${i}`, events }), 201);
    const totalOf = async (id: string): Promise<unknown> =>
      (await api.read<{ states: { state: unknown }[] }>(`/projections/${id}/states/k1`)).states[0]?.state;
    const first = await reached('projections', '30', { 'Totals.cs': totals() });
    const id = first.projectionId ?? '';
    const sum = events.reduce((all, { data }) => (data.key === 'k1' ? all + 8 * data.n : all), 0);
    assert.deepEqual(
      [first.success, first.status, first.live, first.message],
      [true, 'compiled', { revision: 1, artefactId: id }, 'The projection is compiled, and live.'],
    );
    assert.deepEqual(await totalOf(id), { total: sum });

    const second = await reached('projections', '30', { 'Totals.cs': totals('Totals', 3) }, { projectionId: id });
    assert.deepEqual([second.status, second.live?.revision], ['compiled', 2]);
    assert.deepEqual(await totalOf(id), { total: 3 * sum });
    const broken = await reached('projections', '30', { 'Totals.cs': `${totals()} }` }, { projectionId: id });
    assert.deepEqual([broken.status, broken.live], ['failed', undefined]);
    assert.deepEqual(await totalOf(id), { total: 3 * sum });
  });

  await t.test('a time that is no whole number of seconds up to 30 is refused before anything is kept', async () => {
    const before = (await api.read<{ reducers: object[] }>('/reducers')).reducers.length;
    for (const wait of ['31', '-1', '0.5', 'x', '', '1&waitSeconds=2']) {
      assert.match(
        problem(await send('reducers', wait, { 'A.cs': tally('never') }), 400, 'INVALID_REQUEST').detail,
        /waitSeconds/,
      );
      problem(await send('projections', wait, { 'A.cs': totals() }), 400, 'INVALID_REQUEST');
    }
    assert.equal((await api.read<{ reducers: object[] }>('/reducers')).reducers.length, before);
  });

  await t.test(
    'while the compiler stands still: the status reached, at the deadline or when the service ends',
    async () => {
      const compiler =
        childrenOf(service.pid).find((pid) => commandLineOf(pid).includes('Statefold.Compiler.dll')) ??
        assert.fail('no compiler runs');
      process.kill(compiler, 'SIGSTOP');
      try {
        const zero = await reached('reducers', '0', { 'A.cs': tally('slow') });
        assert.equal(zero.status, 'pending_compilation');
        const late = await reached('projections', '4', { 'A.cs': totals('Late') });
        assert.deepEqual(
          [late.success, late.status, late.live, late.compilationError],
          [true, 'compiling', undefined, undefined],
        );
        // Others are answered meanwhile, and an upload that nobody waits for any more goes on.
        const gone = new AbortController();
        const upload = async (): Promise<void> => {
          for (let status = 503; status === 503;)
            ({ status } = await fetch(`${service.url}/reducers/upload?waitSeconds=30`, {
              method: 'POST',
              headers: { 'x-api-key': api.key ?? '' },
              body: form({ 'A.cs': tally('left') }),
              signal: gone.signal,
            }));
        };
        const left = upload().catch(() => undefined);
        await until(
          async () =>
            (await api.read<{ reducers: { status: string }[] }>('/reducers')).reducers.filter(
              ({ status }) => status === 'pending_compilation',
            ).length === 2,
        );
        gone.abort();
        await left;
        assert.equal((await api.read<Listed>('/events/count-1')).events.length, 2);
        const waiting = reached('reducers', '30', { 'A.cs': tally('ended') });
        await until(
          async () =>
            (await api.read<{ reducers: { status: string }[] }>('/reducers')).reducers.filter(
              ({ status }) => status === 'pending_compilation',
            ).length === 3,
        );
        const stopping = service.stop();
        assert.equal((await waiting).status, 'pending_compilation');
        process.kill(compiler, 'SIGCONT');
        await stopping;
      } finally {
        try {
          process.kill(compiler, 'SIGCONT');
        } catch {
          // It has ended.
        }
      }
    },
  );
});
