// The embedded ClickHouse is killed, paused, and loses its files under load: appends, states and pushes go on, and after it
// is back every row is there once. Invariants 1 to 7 and 9 to 13.
import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Scenario, step } from '../support/load-scenario.js';
import { until } from '../support/service.js';

const ENGINE = 'engine-process.js';

test('a read store that is away', async (t) => {
  const scenario = Scenario.alone(t, { seed: 7, rows: true });
  const { world, history, load } = scenario;
  await scenario.begin();
  load.start();
  const more = async (count: number): Promise<void> => {
    const due = history.acknowledged + count;
    await until(() => history.acknowledged >= due);
  };
  const inStore = async (): Promise<number> =>
    Number(
      (await scenario.sql<{ n: string }>('SELECT count() AS n FROM events FINAL FORMAT JSONEachRow').catch(() => []))[0]
        ?.n ?? 0,
    );
  /** The engine takes rows that were acknowledged after now. */
  const follows = async (): Promise<void> => {
    const due = history.acknowledged + 20;
    await until(() => history.acknowledged >= due);
    await until(async () => (await inStore()) >= due, 60_000);
  };
  await follows();

  await step(t, 'kill -9', async () => {
    const pid = await world.child(ENGINE);
    process.kill(pid, 'SIGKILL');
    await more(50);
    await world.child(ENGINE, [pid]);
    await follows();
  });

  await step(t, 'a pause', async () => {
    const pid = await world.child(ENGINE);
    process.kill(pid, 'SIGSTOP');
    try {
      await more(100);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await follows();
  });

  await step(t, 'its files are removed', async () => {
    const pid = await world.child(ENGINE);
    const directory = join(world.dataDirectory, 'clickhouse');
    process.kill(pid, 'SIGKILL');
    for (const name of readdirSync(directory))
      if (name !== 'password') rmSync(join(directory, name), { recursive: true, force: true });
    await more(20);
    await follows();
  });

  await scenario.prove();
  assert.equal(
    history.operations.filter(({ outcome }) => outcome.kind === 'lost' || outcome.status >= 500).length,
    0,
    'no request was lost or refused',
  );
});
