// A check's steps bound its time: what takes long is paid for, however few schemas say it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkData } from '../../src/event-schemas/data-check.js';
import { JsonSchema } from '../../src/event-schemas/json-schema.js';
import { Run, stepsFor } from '../../src/event-schemas/run.js';

/** The leaf is applied to the same value 8,000 times. */
const nested = (leaf: object): Record<string, object> => {
  const many = (name: string): object => ({ allOf: Array.from({ length: 20 }, () => ({ $ref: `#/$defs/${name}` })) });
  return { a: many('b'), b: many('c'), c: many('leaf'), leaf };
};
const LONG = 'x'.repeat(50_000);

function kindOf(schema: object, value: unknown): string {
  const data = Buffer.from(JSON.stringify(value));
  return checkData(new JsonSchema(schema), data, new Run('', stepsFor(data.length))).kind;
}

test('texts that are compared with a long one again and again are paid for', () => {
  const check = (leaf: object, value: unknown = LONG): string =>
    kindOf({ $defs: nested(leaf), $ref: '#/$defs/a' }, value);
  assert.equal(check({ type: 'string' }), 'fits');
  assert.equal(check({ const: LONG }), 'too_costly');
  assert.equal(check({ enum: ['y', LONG] }), 'too_costly');
  assert.equal(kindOf({ const: LONG }, LONG), 'fits');
  assert.equal(kindOf({ enum: [LONG] }, LONG), 'fits');
});

test('so is each look of a dynamic reference through the schemas that were entered', () => {
  const dynamic = (ids: number): object => {
    const entered = Array.from({ length: ids }, (_, i) => [
      `r${i}`,
      { $id: `r${i}`, $ref: i + 1 < ids ? `r${i + 1}` : 'last' },
    ]);
    const last = { $id: 'last', $defs: nested({ $dynamicRef: 'target#x' }), $ref: '#/$defs/a' };
    const target = { $id: 'target', $dynamicAnchor: 'x', type: 'string' };
    return { $defs: { ...(Object.fromEntries(entered) as object), last, target }, $ref: 'r0' };
  };
  assert.equal(kindOf(dynamic(2), LONG), 'fits');
  assert.equal(kindOf(dynamic(200), LONG), 'too_costly');
});
