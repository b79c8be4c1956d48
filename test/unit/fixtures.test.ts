import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exactText } from '../../src/core/exact-json.js';
import {
  FixtureError,
  fixturesIn,
  FixtureTooLargeError,
  readFixtures,
  type Fixture,
} from '../../src/fixtures/fixtures.js';

const WHEN = '"when":[{"eventType":"x"}]';
const inFile = (text: string): readonly Fixture[] => readFixtures({ path: 'f.json', text });

test('what a case expects and gives is there as it is written, whatever its members are called', () => {
  const then = '{"state":{"__proto__":{"n":1},"long":12345678901234567890}}';
  const [one] = inFile(`{"when":[{"eventType":"x","data":{"__proto__":1,"constructor":2}}],"then":${then}}`);
  assert.equal(exactText(one?.then), then);
  assert.equal(exactText(one?.when[0]?.data), '{"__proto__":1,"constructor":2}');
  for (const state of ['null', '0', '""', '[]', 'false'])
    assert.equal(exactText(inFile(`{${WHEN},"then":{"state":${state}}}`)[0]?.then.state), state);
});

test('a number is no text, however long it is', () => {
  assert.throws(() => inFile('{"when":[{"eventType":12345678901234567890}],"then":{"state":1}}'), {
    name: 'FixtureError',
    message: 'f.json: /when/0/eventType must be a string.',
  });
});

test('a time is one that the code can have', () => {
  const at = (timestamp: string): readonly Fixture[] =>
    inFile(`{"when":[{"eventType":"x","timestamp":"${timestamp}"}],"then":{"state":1}}`);
  for (const time of ['0001-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z', '2026-01-31T12:00:00.5+02:00'])
    assert.equal(at(time)[0]?.when[0]?.timestamp, time);
  for (const time of ['0000-12-31T23:59:59Z', '0001-01-01T00:00:00+01:00', '9999-12-31T23:59:59-01:00', 'yesterday'])
    assert.throws(() => at(time), /^FixtureError: f\.json: \/when\/0\/timestamp must be a time like/);
});

test('faults are parts of messages by key', () => {
  assert.deepEqual(inFile(`{${WHEN},"then":{"faults":{"a":"no"}}}`)[0]?.then.faults, { a: 'no' });
  for (const faults of ['[]', '7', '{"a":""}', '{"a":1234567890123456789}'])
    assert.throws(() => inFile(`{${WHEN},"then":{"faults":${faults}}}`), /\/then\/faults must be an object of parts/);
});

test('a file of one case is a list of one, and an empty list has none', () => {
  const one = `{${WHEN},"then":{"state":1}}`;
  assert.deepEqual(inFile(one), inFile(`[${one}]`));
  assert.deepEqual(inFile('[]'), []);
});

test('of many members that are not known some are named', () => {
  const unknown = Array.from({ length: 1000 }, (_, i) => `"u${i}":1`).join();
  assert.throws(
    () => inFile(`{${WHEN},"then":{"state":1},${unknown}}`),
    (error) =>
      error instanceof FixtureError &&
      /^f\.json: has 'u0', 'u1', .*not known\.$/.test(error.message) &&
      error.message.length < 100,
  );
});

test('a case with more events than it may have is refused before they are looked at, and is named', () => {
  const given = `[${Array<string>(6).fill('7').join()}]`;
  const text = `[{${WHEN},"then":{"state":1}},{"name":"long","given":${given},${WHEN},"then":{"state":1}}]`;
  assert.throws(
    () => [...fixturesIn({ path: 'f.json', text }, 6)],
    (error) =>
      error instanceof FixtureTooLargeError && /^f\.json, long: has 7 events, and may have 6\./.test(error.message),
  );
  assert.throws(() => [...fixturesIn({ path: 'f.json', text }, 7)], /^FixtureError: f\.json: long: \/given\/0 /);
});

test('a file is looked at in slices, each of so many cases and events', () => {
  const slices = (text: string): number => [...fixturesIn({ path: 'f.json', text })].length;
  const cases = (count: number, events: number): string => {
    const when = Array<string>(events).fill('{"eventType":"x"}').join();
    return `[${Array<string>(count).fill(`{"when":[${when}],"then":{"state":1}}`).join()}]`;
  };
  assert.deepEqual([slices(cases(1, 1)), slices(cases(1000, 1)), slices(cases(10, 199))], [2, 12, 12]);
});
