// Endpoints that answer now and then, and a service that is killed meanwhile.
import assert from 'node:assert/strict';
import test from 'node:test';
import { until } from '../support/service.js';
import { World } from '../support/webhook-world.js';

const KEYS = 20;
/** Of each key: 10,000 deliveries to both endpoints. */
const VERSIONS = 250;
const ROUNDS_PER_KILL = 50;
/** What the ends of a page of deliveries and its record may hold of one endpoint when it is killed. */
const REPEATS_PER_KILL = 256;

interface Taken {
  readonly sequence: number;
  readonly key: string;
  readonly version: number;
}

/** Answers that flap: some in a row are refused, and once so many that the endpoint is tried with pauses. */
class Flapping {
  readonly taken: Taken[] = [];
  readonly sequences = new Set<number>();
  #count = 0;

  constructor(
    private readonly period: number,
    private readonly refused: number,
    private readonly pausesAt: number,
  ) {}

  status(record: Taken): number {
    const count = ++this.#count;
    if (count % this.period < this.refused || (count >= this.pausesAt && count < this.pausesAt + 7)) return 503;
    this.taken.push(record);
    this.sequences.add(record.sequence);
    return 200;
  }

  /** Of the key, each version where it was taken first. */
  firsts(key: string): number[] {
    return [...new Set(this.taken.filter((one) => one.key === key).map(({ version }) => version))];
  }
}

test('14: endpoints that flap under 10,000 deliveries, and kills between attempt and record: none is lost, order per key holds, repeats are within what is stated', async (t) => {
  const w = await World.open(t, { WEBHOOK_RETRY_SECONDS: '0,0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1' });
  const flapping = new Map([
    ['/often', new Flapping(12, 4, 300)],
    ['/seldom', new Flapping(50, 3, 900)],
  ]);
  const endpoints = await Promise.all([...flapping.keys()].map((path) => w.create(path)));
  /** While messages are appended none is answered: enough of them are left for the kill. */
  let appended = Promise.resolve();
  for (const [path, one] of flapping)
    w.receiver.answers.set(path, ({ record }) => ({ status: one.status(record), after: appended }));
  const append = async (rounds: number): Promise<void> => {
    let answer = (): void => undefined;
    appended = new Promise((resolve) => (answer = resolve));
    for (let i = 0; i < rounds; i++) await Promise.all(Array.from({ length: KEYS }, (_, key) => w.add(`k${key}`)));
    answer();
  };
  let kills = 0;
  for (let version = 0; version < VERSIONS; version += ROUNDS_PER_KILL) {
    await append(ROUNDS_PER_KILL);
    const before = [...flapping.values()].map(({ taken }) => taken.length + KEYS);
    await until(() => [...flapping.values()].every(({ taken }, i) => taken.length >= (before[i] ?? 0)), 60_000);
    await w.service.kill();
    kills++;
    await w.start();
  }
  for (const [path, { taken, sequences }] of flapping) {
    await until(() => sequences.size >= VERSIONS * KEYS, 240_000);
    assert.equal(sequences.size, VERSIONS * KEYS, path);
    const repeats = taken.length - sequences.size;
    assert.ok(repeats <= kills * REPEATS_PER_KILL, `${repeats} repeats at ${path}`);
  }
  const versions = Array.from({ length: VERSIONS }, (_, i) => i + 1);
  for (const [path, one] of flapping)
    for (let key = 0; key < KEYS; key++) assert.deepEqual(one.firsts(`k${key}`), versions, `k${key} at ${path}`);
  for (const endpoint of endpoints) assert.deepEqual(await w.parked(endpoint), []);
});
