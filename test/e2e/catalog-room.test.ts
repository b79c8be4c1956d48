import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, problem, success } from '../support/api.js';
import { startService, temporaryDirectory } from '../support/service.js';

interface Reducer {
  readonly id: string;
  readonly status: string;
  readonly compilationError?: string;
}
interface ReducersPage {
  readonly reducers: readonly Reducer[];
  readonly nextCursor?: string;
}

const CLASSES = 200;
const MOST = 3_000_000;
/** A page ends past 1 MiB, with the item that passes it. */
const LONGEST_PAGE = 1_200_000;

/** What is found in it has some 60 KB of names. */
const WIDE = `namespace ${'n'.repeat(140)};
public sealed record S(int N);
${Array.from({ length: CLASSES }, (_, i) => `public sealed class R${i} : IReducer<S> { public S? Apply(S? s, Event e) => s; }`).join('\n')}`;

test('what a tenant defines has a bound in the catalog, and lists of it have one in bytes', async (t) => {
  const service = await startService(t, {
    dataDirectory: temporaryDirectory(t),
    env: { TENANT_CATALOG_BYTES: String(MOST) },
  });
  const api = new Api(service);
  const uploads: string[] = [];
  let full = await api.upload('reducers', { 'Wide.cs': WIDE });
  for (; full.status === 202 && uploads.length < 60; full = await api.upload('reducers', { 'Wide.cs': WIDE })) {
    const { reducerId } = full.json<{ reducerId: string }>();
    const { status, compilationError } = await api.compiled<Reducer>('reducers', reducerId);
    assert.equal(status, 'compiled', compilationError);
    uploads.push(reducerId);
  }
  const refused = problem(full, 507, 'QUOTA_EXCEEDED');
  assert.deepEqual([refused['quota'], refused['limit']], ['catalogBytes', MOST]);
  assert.ok((refused['usage'] as number) < MOST * 1.2, `${String(refused['usage'])} bytes`);
  const { usage } = await api.read<{ usage: { storageBytes: number } }>('/usage');
  assert.ok(usage.storageBytes > MOST, `${usage.storageBytes} bytes are stored`);

  const listed: string[] = [];
  let pages = 0;
  for (let cursor = '', more = true; more; pages++) {
    const answer = success(await api.get(`/reducers?limit=1000${cursor}`), 200);
    assert.ok(answer.text.length < LONGEST_PAGE, `a page of ${answer.text.length} bytes`);
    const page = answer.json<ReducersPage>();
    listed.push(...page.reducers.map(({ id }) => id));
    cursor = `&cursor=${page.nextCursor ?? ''}`;
    more = page.nextCursor !== undefined;
  }
  assert.ok(pages > 1, `${uploads.length} reducers on one page`);
  assert.deepEqual(listed, uploads);
  problem(
    await api.put('/aggregate-types/another', { reducerId: uploads.at(-1), className: `${'n'.repeat(140)}.R1` }),
    507,
    'QUOTA_EXCEEDED',
  );

  await t.test('what is deleted makes room; of those that come at once the last ones fail', async () => {
    for (const id of uploads.slice(0, 4)) success(await api.delete(`/reducers/${id}`), 204);
    const answers = await Promise.all(Array.from({ length: 8 }, () => api.upload('reducers', { 'Wide.cs': WIDE })));
    // Of one that came when the others were compiled the answer says so, of the rest their compilation.
    const refusals = await Promise.all(
      answers.map(async (answer) => {
        if (answer.status === 507) return problem(answer, 507, 'QUOTA_EXCEEDED').detail;
        const { reducerId } = success(answer, 202).json<{ reducerId: string }>();
        const { status, compilationError } = await api.compiled<Reducer>('reducers', reducerId);
        return status === 'failed' ? (compilationError ?? '') : undefined;
      }),
    );
    const without = refusals.filter((refusal) => refusal !== undefined);
    assert.ok(without.length > 0 && without.length < 8, `${without.length} of 8 are refused`);
    for (const refusal of without) assert.match(refusal, /TENANT_CATALOG_BYTES/);
  });
});
