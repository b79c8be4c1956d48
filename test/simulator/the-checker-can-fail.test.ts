import assert from 'node:assert/strict';
import { it } from 'node:test';
import { AppendIndefiniteError, AppendRefusedError } from '../../src/log/log.js';
import { FencedPartition } from '../../src/log/fenced-partition.js';
import { ChangesWriter } from '../../src/tasks/changes-writer.js';
import { EventsWriter } from '../../src/tasks/events-writer.js';
import { RecordedChanges } from '../../src/tasks/recorded-changes.js';
import { PartitionTables } from '../../src/tasks/store/partition-tables.js';
import { TenantTask } from '../../src/tasks/tenant-task.js';
import { planOf, simulate } from './plans.js';
import { SimLog } from './sim-log.js';

const SEEDS = 400;

/** Breaks one rule of the project's own code, and expects some seed to show it. */
function mutant<T extends object, K extends keyof T>(name: string, of: T, method: K, broken: (original: T[K]) => T[K]): void {
  it(`the checker reports ${name}`, { timeout: 120_000 }, async () => {
    const original = of[method];
    of[method] = broken(original);
    try {
      for (let seed = 1; seed <= SEEDS; seed++) if ((await simulate(planOf(seed))).problems.length > 0) return;
    } finally {
      of[method] = original;
    }
    assert.fail(`no problem in ${SEEDS} seeds`);
  });
}

mutant('a writer that forgets keyed commands', PartitionTables.prototype, 'command', () => () => undefined);

mutant('refusals and reads from a fold behind the log', FencedPartition.prototype, 'barrier', () => () => Promise.resolve());

mutant('an indefinite produce that is taken for a refused one', SimLog.prototype, 'client', (client) =>
  function (this: SimLog, owner) {
    const log = client.call(this, owner);
    return {
      ...log,
      append: (to, records) =>
        log.append(to, records).catch((error: unknown) => {
          throw error instanceof AppendIndefiniteError ? new AppendRefusedError(error.message) : error;
        }),
    };
  });

mutant('an answer before the acknowledgement', EventsWriter.prototype, 'gather', (gather) =>
  function (this: EventsWriter) {
    const drafts = gather.call(this);
    drafts.forEach((draft, i) => draft.body.kind === 'Commit' && this.fold({ offset: 1000 + i, body: draft.body, accepted: true }, draft));
    return drafts;
  });

mutant('a projector that does not look at what was accepted before', RecordedChanges.prototype, 'of', () => () => []);

mutant('a task that stopped and is not closed', TenantTask.prototype, 'close', () => () => Promise.resolve());

mutant('accepted changes that a restart forgets', ChangesWriter.prototype, 'save', () => () => undefined);

mutant('a checkpoint ahead of the acknowledged changes', PartitionTables.prototype, 'setCheckpoint', (set) =>
  function (this: PartitionTables, checkpoint) {
    set.call(this, { ...checkpoint, projected: checkpoint.events.position });
  });

mutant('a checkpoint of events behind what is stored', PartitionTables.prototype, 'setCheckpoint', (set) =>
  function (this: PartitionTables, checkpoint) {
    const before = this.checkpoint();
    set.call(this, before === undefined ? checkpoint : { ...checkpoint, events: before.events });
  });
