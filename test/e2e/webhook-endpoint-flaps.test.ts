// An endpoint that answers now and then, and a service that is killed meanwhile.
import assert from 'node:assert/strict';
import test from 'node:test';
import { until } from '../support/service.js';
import { World } from '../support/webhook-world.js';

test('14: an endpoint that flaps under 1,000 messages, and kills between attempt and record: none is lost, order per key holds, repeats are within what is stated', async (t) => {
  const w = await World.open(t, { WEBHOOK_RETRY_SECONDS: '0,0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1' });
  const endpoint = await w.create('/flaps');
  const KEYS = 20;
  const taken: { sequence: number; key: string; version: number }[] = [];
  let count = 0;
  /** While messages are appended none is answered: enough of them are left for the kill. */
  let appended = Promise.resolve();
  w.receiver.answers.set('/flaps', ({ record }) => {
    // One in three is refused, in runs; once there are enough in a row for the endpoint to be tried with pauses.
    if (++count % 12 < 4 || (count >= 300 && count < 307)) return { status: 503, after: appended };
    taken.push(record);
    return { status: 200, after: appended };
  });
  const append = async (rounds: number): Promise<void> => {
    let answer = (): void => undefined;
    appended = new Promise((resolve) => (answer = resolve));
    for (let i = 0; i < rounds; i++) await Promise.all(Array.from({ length: KEYS }, (_, key) => w.add(`k${key}`)));
    answer();
  };
  await append(20);
  const kill = async (): Promise<void> => {
    const before = taken.length;
    await until(() => taken.length >= before + 20, 60_000);
    await w.service.kill();
    await w.start();
  };
  await kill();
  await append(20);
  await kill();
  await append(10);
  const sequences = (): Set<number> => new Set(taken.map(({ sequence }) => sequence));
  await until(() => sequences().size >= 50 * KEYS, 240_000);
  assert.equal(sequences().size, 50 * KEYS);
  // Repeats are of what was in flight, or taken in the quarter of a second before a kill, and not recorded.
  assert.ok(taken.length - sequences().size <= 2 * 256, `${taken.length - sequences().size} repeats`);
  for (let key = 0; key < KEYS; key++) {
    const first = new Set<number>();
    const ofKey = taken.filter((one) => one.key === `k${key}`).map(({ version }) => version);
    const firsts = ofKey.filter((version) => !first.has(version) && first.add(version));
    assert.deepEqual(
      firsts,
      Array.from({ length: 50 }, (_, i) => i + 1),
      `k${key}`,
    );
  }
  assert.deepEqual(await w.parked(endpoint), []);
});
