import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AppendDraft, ControlDraft, draftsFor, PendingAppend } from '../../src/aggregates/pending-writes.js';
import type { NewEvent } from '../../src/core/event.js';
import { UNBOUNDED } from '../../src/core/budget.js';

const never = (): void => assert.fail('nothing is answered');

function append(events: number): AppendDraft {
  const command = { aggregateId: 'a', events: Array<NewEvent>(events) } as unknown as PendingAppend['command'];
  const pending = new PendingAppend(command, 0, UNBOUNDED.tenant('t').hold('appends'), never, never);
  return new AppendDraft({ kind: 'Commit', value: {} as AppendDraft['body']['value'] }, 'a@0', pending, []);
}
const drafts = (events: number): AppendDraft[] => Array.from({ length: 40 }, () => append(events));

test('of few events many are written at once, of many few, and always one', () => {
  assert.equal(draftsFor(112, drafts(1), 0), 16);
  assert.equal(draftsFor(112, drafts(100), 0), 2);
  assert.equal(draftsFor(112, drafts(1000), 0), 1);
  assert.equal(draftsFor(112, [append(500), append(1), append(1)], 0), 1);
  assert.equal(draftsFor(112, drafts(1), 35), 5, 'no more than are left');
  const control = new ControlDraft({ kind: 'Skip', value: {} } as never, 'k', {
    resolve: never,
    reject: never,
  } as never);
  const controls = Array.from({ length: 40 }, () => control);
  assert.equal(draftsFor(112, controls, 0), 19);
});
