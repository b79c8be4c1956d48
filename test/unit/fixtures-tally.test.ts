import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseExactly } from '../../src/core/exact-json.js';
import type { Failure } from '../../src/fixtures/fixture-run.js';
import { FixturesTally } from '../../src/inspection/fixtures-tally.js';

const state = (key: string, length: number): Failure => ({
  kind: 'state',
  key,
  expected: 1,
  actual: 'x'.repeat(length),
});
const failed = (...failures: Failure[]) => ({ status: 'failed', milliseconds: 1, failures }) as const;
const named = (name: string): { readonly file: string; readonly name: string } => ({ file: 'a.json', name });

test('of failures that there is no room for the state is left out, or all of it, and small ones behind it are told', () => {
  const tally = new FixturesTally(3, 400);
  tally.add(named('fits'), failed(state('a', 100)));
  tally.add(named('passes'), { status: 'passed', milliseconds: 2 });
  const message = { kind: 'case', message: 'y'.repeat(400) } as const;
  tally.add(named('is long'), failed(state('b', 400), message, state('c', 10)));
  assert.deepEqual(tally.cases, [
    { file: 'a.json', name: 'fits', status: 'failed', milliseconds: 1, failures: [JSON.stringify(state('a', 100))] },
    { file: 'a.json', name: 'passes', status: 'passed', milliseconds: 2 },
    {
      ...named('is long'),
      status: 'failed',
      milliseconds: 1,
      failures: ['{"kind":"state","key":"b","shown":false}', JSON.stringify(state('c', 10))],
      omitted: 1,
    },
  ]);
});

test('all failures of a run take no more than they may, however many cases there are', () => {
  const most = 2_000;
  const tally = new FixturesTally(500, most);
  for (let n = 0; n < 500; n++) tally.add(named(`${n}`), failed(state('k', 500), state('l', 3)));
  const told = tally.cases.flatMap(({ failures = [] }) => failures);
  assert.ok(told.reduce((sum, failure) => sum + failure.length, 0) <= most);
  assert.ok(told.length > 0);
  assert.equal(
    tally.cases.reduce((sum, { failures = [], omitted = 0 }) => sum + failures.length + omitted, 0),
    1000,
  );
  assert.equal(tally.reached, 'after 500 of 500 cases');
});

test('numbers are told as they are, and of a fault what clients are told', () => {
  const tally = new FixturesTally(1);
  const fault = {
    ...{
      eventId: 'e',
      aggregateId: 'a',
      version: 1,
      eventType: 'x',
      className: 'C',
      message: 'no',
      file: 'a.cs',
      line: 2,
    },
    at: '2026-01-01T00:00:00.000Z',
  };
  const sums = { expected: parseExactly('9007199254740993'), actual: parseExactly('9007199254740992') };
  tally.add(
    named('n'),
    failed(
      { kind: 'state', key: 'k', ...sums },
      { kind: 'fault', key: 'k', expected: undefined, fault: { ...fault, place: 7 }, given: false },
    ),
  );
  assert.deepEqual(tally.cases[0]?.failures, [
    '{"kind":"state","key":"k","expected":9007199254740993,"actual":9007199254740992}',
    JSON.stringify({ kind: 'fault', key: 'k', fault, given: false }),
  ]);
});
