// Invariant 22: whatever bytes a runner answers with are refused as garbage, or are what honest code could have answered; for a bounded
// time, from a seed that is told. `FUZZ_SEED` and `FUZZ_MS` run it again, or longer; what it finds goes into corpus/frames.json.
import assert from 'node:assert/strict';
import test from 'node:test';
import { bend, corpus, Dice, KINDS, takes } from './frames-fuzzer.js';

const FUZZ_MS = Number(process.env['FUZZ_MS'] ?? 5000);
const SEED = Number(process.env['FUZZ_SEED'] ?? Date.now() % 2 ** 31);
/** Of one answer of a few KiB; most take some microseconds. */
const SLOW_MS = 500;

test('the corpus is read as it always was', () => {
  const samples = corpus();
  for (const kind of KINDS)
    assert.ok(
      samples.some((sample) => sample.kind === kind && sample.taken),
      kind,
    );
  for (const { name, kind, hex, taken } of samples)
    assert.equal(takes(kind, Buffer.from(hex, 'hex')), taken, `${kind}: ${name}`);
});

test('bent answers are refused, or within the bounds', (t) => {
  t.diagnostic(`FUZZ_SEED=${SEED}`);
  const dice = new Dice(SEED);
  const samples = corpus().map(({ kind, hex }) => ({ kind, bytes: Buffer.from(hex, 'hex') }));
  const others = samples.map(({ bytes }) => bytes).filter(({ length }) => length > 0);
  const end = performance.now() + FUZZ_MS;
  const seen = { taken: 0, refused: 0 };
  while (performance.now() < end) {
    const { kind, bytes } = dice.pick(samples);
    const bent = bend(bytes, others, dice);
    const began = process.cpuUsage();
    try {
      seen[takes(kind, bent) ? 'taken' : 'refused']++;
    } catch (error) {
      throw new Error(`${kind}: ${bent.toString('hex')}`, { cause: error });
    }
    const { user } = process.cpuUsage(began);
    assert.ok(user / 1000 < SLOW_MS, `${kind} took ${user / 1000} ms: ${bent.toString('hex')}`);
  }
  t.diagnostic(`${seen.taken} taken, ${seen.refused} refused`);
  assert.ok(seen.refused > 0 && seen.taken > 0);
});
