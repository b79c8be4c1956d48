import type { StoredCommit } from '../core/event.js';
import { inputOffset, type Input } from '../feed/inputs.js';
import type { ChangesWriter } from './changes-writer.js';

/**
 * The inputs of a page that was read from `from` up to `end`, and in place of those that are gone, since their aggregates were erased,
 * commits without events where changes of them were told: what was told holds, whatever became of the events that made it.
 */
export function withRecorded(
  inputs: readonly Input[],
  from: number,
  end: number,
  changes: Pick<ChangesWriter, 'recordedBetween'>,
): readonly Input[] {
  const recorded = changes.recordedBetween(from, end);
  if (recorded.length === 0) return inputs;
  const there = new Set(inputs.map(inputOffset));
  const missing = recorded.filter((offset) => !there.has(offset));
  if (missing.length === 0) return inputs;
  return [...inputs, ...missing.map((offset) => ({ kind: 'commit' as const, commit: withoutEvents(offset) }))].sort(
    (a, b) => inputOffset(a) - inputOffset(b),
  );
}

const withoutEvents = (offset: number): StoredCommit => ({ offset, timestamp: 0, parts: [], eventCount: 0 });
