import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Api, form, success, newTenant } from '../support/api.js';
import { tally } from '../support/csharp.js';
import { startService, temporaryDirectory, until, type Service } from '../support/service.js';

const FLOODING = 3;
const ROUNDS = 3;
/** Takes the compiler a while. */
const LARGE = Array.from({ length: 8 }, (_, i) => tally(`type${i}`, 1, `Tally${i}`).replaceAll('Tests', `Tests${i}`));

async function tenant(service: Service, tenantId: string): Promise<Api> {
  return new Api(service, await newTenant(service, { tenantId, name: tenantId }));
}

/** How long an upload took until it was compiled, and a dry run until its report, in milliseconds. */
async function times(api: Api, round: number): Promise<readonly [upload: number, dryRun: number]> {
  const at = performance.now();
  await api.deployReducer({ 'Tally.cs': tally('calm', round) });
  const between = performance.now();
  const ran = await api.request('POST', '/reducers/dry-run', { raw: form({ 'Tally.cs': tally('calm', round) }) });
  assert.equal(success(ran, 200).json<{ status: string }>().status, 'compiled');
  return [between - at, performance.now() - between];
}

test('a flood of dry runs, checks and uploads holds up nobody else’s', { timeout: 280_000 }, async (t) => {
  // Its own uploads are before a tenant's dry run: with the usual two hundred it would take minutes to end.
  const service = await startService(t, {
    dataDirectory: temporaryDirectory(t),
    env: { MAX_PENDING_UPLOADS: '4', COMPILATIONS_DIR: '' },
  });
  const calm = await tenant(service, 'calm');
  await calm.append('calm-1', 'Counted', {}, { aggregateType: 'calm' });
  const alone: (readonly [number, number])[] = [];
  await times(calm, 1);
  for (let round = 2; round < 2 + ROUNDS; round++) alone.push(await times(calm, round));

  let flooding = true;
  /** Those of which something was compiled. */
  const answered = new Set<number>();
  const sources = Object.fromEntries(LARGE.map((source, i) => [`T${i}.cs`, source]));
  const floods = Array.from({ length: FLOODING }, async (_, n) => {
    const api = await tenant(service, `flood-${n}`);
    const send = async (path: string): Promise<void> => {
      while (flooding) {
        // 429 is an answer too: what counts is what becomes of the others.
        const { status } = await service.request('POST', path, { key: api.key, raw: form(sources) });
        assert.ok([200, 202, 429].includes(status), `${path}: ${status}`);
        if (status === 200) answered.add(n);
      }
    };
    await Promise.all(['/reducers/dry-run', '/reducers/check', '/reducers/upload'].map(send));
  });
  const beside: (readonly [number, number])[] = [];
  try {
    await until(() => answered.size === FLOODING, 120_000);
    for (let round = 10; round < 10 + ROUNDS; round++) beside.push(await times(calm, round));
  } finally {
    flooding = false;
  }
  await Promise.all(floods);
  const longest = (all: readonly (readonly [number, number])[], what: 0 | 1): number =>
    Math.max(...all.map((one) => one[what]));
  for (const [what, name] of [
    [0, 'upload'],
    [1, 'dry run'],
  ] as const) {
    const [quiet, loud] = [longest(alone, what), longest(beside, what)];
    t.diagnostic(`${name}: ${quiet.toFixed(0)} ms alone, ${loud.toFixed(0)} ms beside the flood, at most`);
    // One compilation of another tenant may be under way: with a large source that is a second, more on a slow machine.
    assert.ok(loud < 5 * quiet + 5_000, `${name}: ${loud} ms, alone ${quiet} ms`);
  }
});
