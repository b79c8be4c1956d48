import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonWriter } from '../../src/http/json-writer.js';

const STATE = Buffer.from(JSON.stringify({ text: 'x'.repeat(40_000) }));

test('a list is put together part by part, and each part is paid for by the bytes of the one before it', async () => {
  const paid: number[] = [];
  const turn = (cost: number): Promise<void> => Promise.resolve(void paid.push(cost));
  const writer = new JsonWriter().text('{"states":[');
  const keys = Array.from({ length: 300 }, (_, i) => `kéy-${i}`);
  await writer.listOnTurns(keys, turn, (key) =>
    writer.text('{').member('key', key, true).raw('state', STATE).text('}'),
  );
  const json = writer.text('],"more":').member('x', 1, true).text('}').endInParts();
  const whole = Buffer.concat(json.parts);
  assert.equal(json.length, whole.length);
  assert.deepEqual(JSON.parse(whole.toString().replace('"more":"x"', '"x"')), {
    states: keys.map((key) => ({ key, state: JSON.parse(STATE.toString()) as unknown })),
    x: 1,
  });
  assert.equal(paid.length, 150, 'two states come to a part');
  assert.ok(
    paid.slice(1).every((cost) => cost >= (2 * STATE.length) / 4096),
    String(paid),
  );
  assert.ok(json.parts.every(({ length }) => length < 100_000));
});

test('small items come 128 to a part', async () => {
  let turns = 0;
  const writer = new JsonWriter().text('[');
  const numbers = Array.from({ length: 1_000 }, (_, i) => i);
  await writer.listOnTurns(
    numbers,
    () => Promise.resolve(void turns++),
    (n) => writer.text(String(n)),
  );
  assert.deepEqual(JSON.parse(writer.text(']').end().toString()), numbers);
  assert.equal(turns, 8);
});

test('an empty list takes no turn', async () => {
  const writer = new JsonWriter().text('[');
  await writer.listOnTurns(
    [],
    () => assert.fail('nothing is to be done'),
    () => assert.fail('nor written'),
  );
  assert.equal(writer.text(']').end().toString(), '[]');
});
