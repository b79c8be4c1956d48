// Invariants 1 to 7 and 9 to 13: the service dies around the write of a commit, of its changes, and of the local store.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import type { CrashPoint } from '../support/faulty-service.js';
import { Scenario, step } from '../support/load-scenario.js';

const POINTS: readonly CrashPoint[] = [
  'before-log-write',
  'after-log-write',
  'after-ack',
  'before-changes-write',
  'after-changes-write',
  'between-log-and-store',
];

const quiet = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** Log offset of the local store's checkpoint, as the next start finds it. */
async function checkpointIn(directory: string, tenantId: string): Promise<number> {
  const store = new LocalStore({ path: directory, logger: quiet });
  try {
    return new PartitionTables(store.section(tenantId)).checkpoint()?.events.position ?? 0;
  } finally {
    await store.close();
  }
}

test('kill -9 around the log write loses nothing', async (t) => {
  const scenario = Scenario.alone(t, { seed: 4711 });
  const { world } = scenario;
  const fuse = (i: number): `${CrashPoint}:${number}` => `${POINTS[i] ?? 'after-ack'}:${40 + 10 * i}`;
  await scenario.begin(fuse(0));
  for (const [i, point] of POINTS.entries()) {
    await step(t, point, async () => {
      const before = scenario.history.acknowledged;
      await scenario.crash('its own');
      assert.ok(scenario.history.acknowledged > before, 'the load was under way');
      const { commits } = await scenario.logOnlyGrew();
      if (point === 'between-log-and-store') {
        const checkpoint = await checkpointIn(world.copyOf('store'), 'default');
        // Behind it, but for the chance that the store was written in the turns between the acknowledgement and the kill.
        const end = (commits.at(-1)?.offset ?? 0) + 1;
        assert.ok(
          checkpoint <= end,
          `the store is folded to ${checkpoint}, the log ends at ${end}: it holds what the log does not`,
        );
      }
      await world.start(i + 1 < POINTS.length ? fuse(i + 1) : undefined);
      await scenario.load.stop();
    });
  }
  const { log } = await scenario.prove();
  assert.ok(log.epochs > POINTS.length, `each start claims the log: ${log.epochs} epochs`);
});
