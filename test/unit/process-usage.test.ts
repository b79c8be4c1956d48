import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFileSync } from 'node:fs';
import { mappingsOf } from '../../src/jail/process-mappings.js';
import { ProcessorAllowance, processorMsOf, usageOf } from '../../src/jail/process-usage.js';

/** Looks each 200 ms; the share of a processor that it uses, and of the time in which it has work. */
function looks(used: number, busy: number, seconds: number, allowance = new ProcessorAllowance(3000, 0)): number {
  for (let at = 200; at <= seconds * 1000; at += 200)
    if (allowance.exceeded(used * at, busy * at, at)) return at / 1000;
  return Infinity;
}

test('a fold that works all the time is within what it may use, and so is a runtime at rest', () => {
  assert.equal(looks(1, 1, 3600), Infinity);
  assert.equal(looks(1.2, 1, 3600), Infinity);
  assert.equal(looks(0.04, 0, 3600), Infinity);
  assert.equal(looks(0.5, 0.5, 3600), Infinity);
});

test('threads left behind use it up in seconds, also beside work', () => {
  assert.ok(looks(0.78, 0, 60) < 6);
  assert.ok(looks(2, 0.5, 60) < 4);
  assert.ok(looks(2, 1, 60) < 6);
});

test('a burst is forgotten in time, and never more than one is saved', () => {
  const allowance = new ProcessorAllowance(3000, 0);
  assert.equal(allowance.exceeded(2900, 0, 1000), false);
  assert.equal(allowance.exceeded(2900, 0, 121_000), false);
  assert.equal(allowance.exceeded(5800, 0, 121_200), false);
  assert.equal(allowance.exceeded(6200, 0, 121_400), true);
});

test('a process says what it takes; one that is gone says nothing', { skip: process.platform !== 'linux' }, () => {
  const before = processorMsOf(process.pid) ?? NaN;
  const used = process.cpuUsage();
  const total = (): number => {
    const { user, system } = process.cpuUsage(used);
    return (user + system) / 1000;
  };
  while (total() < 200);
  assert.ok((processorMsOf(process.pid) ?? 0) - before >= 150);
  assert.ok((usageOf(process.pid)?.residentBytes ?? 0) > 1024 * 1024);
  assert.equal(processorMsOf(2 ** 30), undefined);
});

test(
  'mappings are read beside the event loop, and no more of them than there may be',
  {
    skip: process.platform !== 'linux',
  },
  async () => {
    const lines = readFileSync('/proc/self/maps', 'latin1').split('\n').length - 1;
    let turns = 0;
    let reading = true;
    const count = (): void => void (reading && (turns++, setImmediate(count)));
    setImmediate(count);
    assert.deepEqual(await mappingsOf(process.pid), { sharedBytes: 0, tooMany: false });
    assert.ok(turns >= lines / 100, `${turns} turns of the event loop for ${lines} lines`);
    reading = false;
    assert.equal((await mappingsOf(process.pid, Math.floor(lines / 2)))?.tooMany, true);
    assert.equal(await mappingsOf(2 ** 30), undefined);
  },
);
