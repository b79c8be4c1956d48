import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answeredAtOnce, AppendDraft, ControlDraft, PendingAppend } from '../../src/aggregates/pending-writes.js';
import { UNBOUNDED } from '../../src/core/budget.js';

const never = (): void => assert.fail('nothing is answered');

function append(bytes: number): AppendDraft {
  const command = { aggregateId: 'a' } as PendingAppend['command'];
  const pending = new PendingAppend(command, bytes, UNBOUNDED.tenant('t').hold('appends'), never, never);
  return new AppendDraft({ kind: 'Commit', value: {} as AppendDraft['body']['value'] }, 'a@0', pending, []);
}
const drafts = (bytes: number): AppendDraft[] => Array.from({ length: 40 }, () => append(bytes));

test('few answers go out at once, fewer where they are long, and always one', () => {
  assert.equal(answeredAtOnce(drafts(0), 0), 32);
  assert.equal(answeredAtOnce(drafts(6 * 1024), 0), 8);
  assert.equal(answeredAtOnce(drafts(1024 * 1024), 0), 1);
  assert.equal(answeredAtOnce([append(64 * 1024), append(0), append(0)], 0), 1);
  assert.equal(answeredAtOnce(drafts(0), 35), 5, 'no more than are left');
  const control = new ControlDraft({ kind: 'Skip', value: {} } as never, 'k', {
    resolve: never,
    reject: never,
  } as never);
  assert.equal(
    answeredAtOnce(
      Array.from({ length: 40 }, () => control),
      0,
    ),
    32,
  );
});
