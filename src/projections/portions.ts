import { changeBytes } from '../core/change.js';
import { inParts } from '../core/parts.js';
import type { ChangeValue } from '../core/records.js';
import { PRODUCE_BYTES } from '../log/log.js';

/** Changes that go in one produce. */
export interface Portion {
  readonly values: readonly ChangeValue[];
  /** They are some of those of one input, whose changes come in parts. */
  readonly part?: { readonly last: boolean };
}

export interface PortionBounds {
  readonly bytes: number;
  readonly changes: number;
}

/** Of changes that are given to the log together, about. */
export const PRODUCE: PortionBounds = { bytes: PRODUCE_BYTES, changes: 250 };

/** Of those that go in one produce where several such portions wait: who writes much waits for the disk less often. */
export const GATHERED: PortionBounds = { bytes: PRODUCE_BYTES, changes: 4 * PRODUCE.changes };

export const bytesOfValue = (value: ChangeValue): number => changeBytes(value) + (value.fault?.length ?? 0);

/**
 * What a batch made, in its order, in portions of a bounded size: those of an input stay together where they are within the bounds,
 * so that most readers come to all of them at once. The others come in parts, where that `mayBe`.
 */
export function* portionsOf(
  values: readonly ChangeValue[],
  bounds: PortionBounds,
  mayBe: (inputOffset: number) => boolean,
): Generator<Portion> {
  let [first, bytes] = [0, 0];
  for (let i = 0; i < values.length;) {
    const input = (values[i] as ChangeValue).inputOffset;
    let [end, own] = [i, 0];
    for (; end < values.length && values[end]?.inputOffset === input; end++)
      own += bytesOfValue(values[end] as ChangeValue);
    const large = own > bounds.bytes || end - i > bounds.changes;
    if (i > first && (large || bytes + own > bounds.bytes || end - first > bounds.changes)) {
      yield { values: values.slice(first, i) };
      [first, bytes] = [i, 0];
    }
    if (large && mayBe(input)) {
      yield* portionsOfInput(values.slice(i, end), bounds);
      [first, bytes] = [end, 0];
    } else bytes += own;
    i = end;
  }
  if (first < values.length) yield { values: values.slice(first) };
}

/** The changes of one input in parts; the last of `values` is the last of the input. */
export function* portionsOfInput(
  values: readonly ChangeValue[],
  { bytes, changes }: PortionBounds,
): Generator<Portion> {
  let taken = 0;
  for (const part of inParts(values, bytesOfValue, { bytes, items: changes })) {
    taken += part.length;
    const last = taken === values.length;
    yield { values: part.map((value, i) => ({ ...value, last: last && i === part.length - 1 })), part: { last } };
  }
}
