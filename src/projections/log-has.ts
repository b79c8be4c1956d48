import type { Change } from '../core/change.js';
import type { ChangeValue } from '../core/records.js';
import type { PartitionTables } from '../store/partition-tables.js';
import { inputAfter, type ChangesWriter } from './changes-writer.js';

/** Changes that the code gave for inputs that may have been folded before, by what the log has of each already. */
export interface LogHas {
  /** Nothing: they are to be written. */
  readonly fresh: readonly ChangeValue[];
  /** A change in their place that was accepted. What it says holds, whatever the code gave this time. */
  readonly recorded: readonly { readonly value: ChangeValue; readonly change: Change }[];
  /** A change that retention has taken: it was told, and is not written again. */
  readonly trimmed: readonly { readonly value: ChangeValue; readonly change: Change }[];
  /** None in their place, and one of a later input: the changes of theirs were passed, or there were none. */
  readonly passed: readonly ChangeValue[];
}

export function logHas(
  values: readonly ChangeValue[],
  changes: Pick<ChangesWriter, 'recorded' | 'trimmedChange'>,
  tables: Pick<PartitionTables, 'lastInput'>,
): LogHas {
  const fresh: ChangeValue[] = [];
  const recorded: { value: ChangeValue; change: Change }[] = [];
  const trimmed: { value: ChangeValue; change: Change }[] = [];
  const passed: ChangeValue[] = [];
  for (const value of values) {
    const change = changes.recorded(value);
    if (change !== undefined) {
      recorded.push({ value, change });
      continue;
    }
    const dropped = changes.trimmedChange(value);
    if (dropped !== undefined) {
      trimmed.push({ value, change: dropped });
      continue;
    }
    const last = tables.lastInput(value.projectionId);
    if (last === undefined || inputAfter([value.inputOffset, value.inputIndex], last)) fresh.push(value);
    else passed.push(value);
  }
  return { fresh, recorded, trimmed, passed };
}
