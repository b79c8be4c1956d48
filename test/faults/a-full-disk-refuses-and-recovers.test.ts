// Invariants 1 to 7 and 9 to 13: the disk fills up under load. Appends are refused with a retryable 503, reads go on, nothing
// that was acknowledged is lost, and appends go on when there is space again, without a restart.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { LOG_RESERVE_BYTES } from '../../src/core/disk-space.js';
import { Scenario } from '../support/load-scenario.js';
import { AS_ADMIN, until } from '../support/service.js';
import { fill, NO_SMALL_DISK, smallDisk } from '../support/small-disk.js';

const MEGABYTES = 192;

test('a full disk refuses appends and recovers', async (t) => {
  const disk = smallDisk(t, MEGABYTES);
  if (disk === undefined) return t.skip(NO_SMALL_DISK);
  const scenario = Scenario.alone(t, { seed: 1234, dataDirectory: disk, env: { LOG_LEVEL: 'fatal' } });
  const { history, load, world } = scenario;
  await scenario.begin();
  load.start();
  const answered = (from: number, status: number): number =>
    history.operations
      .slice(from)
      .filter(
        ({ request, outcome }) => request.kind === 'append' && outcome.kind === 'answered' && outcome.status === status,
      ).length;
  await until(() => answered(0, 201) > 100);
  for (let round = 0; round < 2; round++) {
    const from = history.operations.length;
    const balloon = join(disk, 'balloon');
    // What the service frees itself is filled again until it has none left for an append.
    await until(() => {
      fill(balloon);
      return answered(from, 503) > 20;
    });
    const [aggregate] = (await world.service.get('/aggregates?limit=1')).json<{
      aggregates: { aggregateId: string }[];
    }>().aggregates;
    assert.equal((await world.service.get(`/events/${aggregate?.aggregateId}`)).status, 200);
    const { text } = await world.service.get('/metrics', AS_ADMIN);
    const bytes = (of: string): number =>
      Number(new RegExp(`^statefold_data_directory_${of}_bytes (\\S+)$`, 'm').exec(text)?.[1]);
    assert.equal(bytes('size'), MEGABYTES * 1024 * 1024);
    assert.ok(bytes('free') < LOG_RESERVE_BYTES * 2, `${bytes('free')}: the alert on a full disk fires`);
    const logIs = async (): Promise<string | undefined> => {
      const answer = await world.service.get('/health/ready');
      assert.equal(answer.status, 200, 'reads go on, so clients are led here');
      return answer.json<{ checks: Record<string, string> }>().checks['log'];
    };
    assert.equal(await logIs(), 'degraded');
    const full = history.operations.length;
    rmSync(balloon);
    await until(() => answered(full, 201) > 50);
    assert.equal(await logIs(), 'up');
  }
  await scenario.prove();
  assert.equal(
    history.operations.filter(({ outcome }) => outcome.kind === 'lost').length,
    0,
    'every request was answered',
  );
});
