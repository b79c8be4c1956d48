import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { ChangeValue } from '../../src/core/records.js';
import { bytesOfValue, portionsOf, type Portion } from '../../src/projections/portions.js';

const value = (inputOffset: number, inputIndex: number, bytes: number): ChangeValue => ({
  projectionId: 'p',
  revision: 1,
  className: 'P',
  key: `k${inputIndex}`,
  inputOffset,
  inputIndex,
  eventId: 'e',
  aggregateId: 'a',
  aggregateType: 'a',
  version: 1,
  timestamp: 0,
  cause: null,
  state: Buffer.alloc(bytes),
  fault: null,
});

const size = (values: readonly ChangeValue[]): number => values.reduce((sum, one) => sum + bytesOfValue(one), 0);
const without = ({ last: _, ...rest }: ChangeValue): ChangeValue => rest;
const inputsOf = ({ values }: Portion): number[] => [...new Set(values.map(({ inputOffset }) => inputOffset))];

describe('portions of changes', () => {
  const inputs = fc.array(fc.array(fc.integer({ min: 0, max: 900 }), { minLength: 1, maxLength: 9 }), { maxLength: 8 });

  it('hold each change once, in order, within the bounds, and leave an input whole where it is within them', () => {
    fc.assert(
      fc.property(inputs, fc.integer({ min: 500, max: 6000 }), fc.integer({ min: 1, max: 6 }), (of, bytes, changes) => {
        const values = of.flatMap((sizes, input) => sizes.map((one, i) => value(input, i, one)));
        const portions = [...portionsOf(values, { bytes, changes }, () => true)];
        assert.deepEqual(
          portions.flatMap((portion) => portion.values.map(without)),
          values,
        );
        for (const { values: some } of portions)
          assert.ok(some.length === 1 || (some.length <= changes && size(some) <= bytes));
        for (const [input, sizes] of of.entries()) {
          const its = values.filter(({ inputOffset }) => inputOffset === input);
          const within = sizes.length <= changes && size(its) <= bytes;
          const holding = portions.filter((portion) => inputsOf(portion).includes(input));
          const lasts = holding.flatMap((portion) => portion.values.filter((one) => one.inputOffset === input));
          if (within) {
            assert.equal(holding.length, 1);
            assert.ok(lasts.every(({ last }) => last === undefined));
          } else {
            assert.ok(holding.every((portion) => inputsOf(portion).length === 1));
            assert.deepEqual(
              lasts.map(({ last }) => last),
              its.map((_, i) => i === its.length - 1),
            );
            assert.deepEqual(
              holding.map(({ part }) => part?.last),
              holding.map((_, i) => i === holding.length - 1),
            );
          }
        }
      }),
    );
  });

  it('leave an input whole that may not come in parts', () => {
    const values = [0, 1, 2].flatMap((input) => [0, 1, 2].map((i) => value(input, i, 100)));
    const portions = [...portionsOf(values, { bytes: 800, changes: 10 }, (input) => input !== 1)];
    assert.deepEqual(
      portions.map((portion) => [inputsOf(portion), portion.values.length, portion.part?.last]),
      [
        [[0], 1, false],
        [[0], 1, false],
        [[0], 1, true],
        [[1], 3, undefined],
        [[2], 1, false],
        [[2], 1, false],
        [[2], 1, true],
      ],
    );
  });
});
