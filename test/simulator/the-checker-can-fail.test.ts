import { AppendIndefiniteError, AppendRefusedError, type LogPage } from '../../src/log/log.js';
import { FencedPartition } from '../../src/log/journal/fenced-partition.js';
import { ChangesWriter } from '../../src/projections/changes-writer.js';
import { decideTransaction } from '../../src/core/append-rules.js';
import type { CommitValue, EventsBody } from '../../src/core/records.js';
import { nextTurn } from '../../src/core/slices.js';
import { PartitionReader } from '../../src/log/journal/partition-reader.js';
import { AggregatePartition } from '../../src/aggregates/partition.js';
import { EventsWriter } from '../../src/aggregates/events-writer.js';
import type { Accepted } from '../../src/aggregates/pending-writes.js';
import { CommitFeed, WithoutErased } from '../../src/aggregates/commit-feed.js';
import { Erasures } from '../../src/aggregates/erasures.js';
import { EventsLog } from '../../src/log/journal/events-log.js';
import { storedCommit } from '../../src/log/codec/commit-of-view.js';
import { TellingSwap } from '../../src/projections/projection-swap.js';
import { Foresight } from '../../src/projections/foresight.js';
import { KeyReleases } from '../../src/projections/key-releases.js';
import { PartedInput } from '../../src/projections/parted-input.js';
import { ReducerFaults } from '../../src/aggregates/reducer-faults.js';
import { RecordedChanges } from '../../src/store/recorded-changes.js';
import { RecordedRows } from '../../src/store/recorded-rows.js';
import { FaultTables } from '../../src/store/fault-tables.js';
import { KeptRevisions } from '../../src/store/kept-revisions.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import { TenantProjections } from '../../src/projections/tenant-projections.js';
import { TenantTask } from '../../src/tenancy/tenant-task.js';
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { mutant as anyMutant } from './mutant.js';
import { erasingPlanOf, PARTLY_FORGOTTEN, planOf, simulate } from './plans.js';
import { SimRunner } from './sim-code.js';
import { SimDisk } from './sim-store.js';
import { SimLog } from './sim-log.js';
import { LEFT_OUT } from './world.js';

/** Breaks one rule of the project's own code, and expects some seed to show it. */
const mutant = <T extends object, K extends keyof T>(
  name: string,
  of: T,
  method: K,
  broken: (original: T[K]) => T[K],
  first?: number,
): void => anyMutant(name, async (seed) => (await simulate(planOf(seed))).problems.length, of, method, broken, first);

mutant('a writer that forgets keyed commands', PartitionTables.prototype, 'command', () => () => undefined);

mutant(
  'refusals and reads from a fold behind the log',
  FencedPartition.prototype,
  'caughtUp',
  () => () => Promise.resolve(),
  45,
);

mutant(
  'an indefinite produce that is taken for a refused one',
  SimLog.prototype,
  'client',
  (client) =>
    function (this: SimLog, owner) {
      const log = client.call(this, owner);
      return {
        ...log,
        append: (to, records) =>
          log.append(to, records).catch((error: unknown) => {
            throw error instanceof AppendIndefiniteError ? new AppendRefusedError(error.message) : error;
          }),
      };
    },
);

mutant(
  'an answer of a log that is behind, taken for records that were dropped',
  SimLog.prototype,
  'client',
  (client) =>
    function (this: SimLog, owner) {
      const log = client.call(this, owner);
      const deceived = async (page: Promise<LogPage>): Promise<LogPage> => ({ ...(await page), end: Infinity });
      return {
        ...log,
        read: (of, from, maxBytes, waitMs) => deceived(log.read(of, from, maxBytes, waitMs)),
        readAt: (of, offsets) => deceived(log.readAt(of, offsets)),
      };
    },
);

mutant(
  'a reader of changes that passes over what retention took',
  SimLog.prototype,
  'client',
  (client) =>
    function (this: SimLog, owner) {
      return { ...client.call(this, owner), startOffset: () => Promise.resolve(0) };
    },
);

mutant('cursors that never expire', ChangesWriter.prototype, 'trimmedTo', () => () => 1);

mutant(
  'an indefinite produce of changes that is written again in the same epoch',
  AggregatePartition.prototype,
  'nextEpoch',
  () =>
    function (this: AggregatePartition) {
      return Promise.resolve(this.epoch);
    },
);

mutant(
  'an answer before the acknowledgement',
  EventsWriter.prototype,
  'gather',
  (gather) =>
    function (this: EventsWriter, most) {
      const drafts = gather.call(this, most);
      drafts.forEach(
        (draft, i) =>
          draft.body.kind === 'Commit' && this.fold({ offset: 1000 + i, body: draft.body, accepted: true }, draft),
      );
      return drafts;
    },
);

mutant(
  'a projector that does not look at what was accepted before',
  RecordedChanges.prototype,
  'named',
  () => () => [],
);

mutant('a fold of commits that were on their way and never came', Foresight.prototype, 'isInput', () => () => true, 26);

mutant(
  'a runner that keeps the states of commits that never came',
  SimRunner.prototype,
  'forget',
  () => () => undefined,
);

mutant('a task that stopped and is not closed', TenantTask.prototype, 'close', () => () => Promise.resolve());

mutant('accepted changes that a restart forgets', ChangesWriter.prototype, 'save', () => () => undefined);

mutant(
  'a checkpoint ahead of the acknowledged changes',
  PartitionTables.prototype,
  'setCheckpoint',
  (set) =>
    function (this: PartitionTables, checkpoint) {
      set.call(this, { ...checkpoint, projected: checkpoint.events.position });
    },
);

mutant(
  'a checkpoint of events behind what is stored',
  PartitionTables.prototype,
  'setCheckpoint',
  (set) =>
    function (this: PartitionTables, checkpoint) {
      const before = this.checkpoint();
      set.call(this, before === undefined ? checkpoint : { ...checkpoint, events: before.events });
    },
);

mutant(
  'a snapshot that is not all of one moment',
  SimDisk.prototype,
  'image',
  (image) =>
    function (this: SimDisk) {
      return new Map([...image.call(this)].filter(([key], i) => i % 5 !== 0 || key.endsWith('m')));
    },
);
mutant(
  'states that were kept, taken for what they would be now',
  KeptRevisions.prototype,
  'adopt',
  (adopt) =>
    function (this: KeptRevisions, projectionId, by, through) {
      const found = adopt.call(this, projectionId, by, through);
      return found && { ...found, position: through };
    },
  25,
);

mutant(
  'a swap that is seen before it is through',
  PartitionTables.prototype,
  'liveProjection',
  (liveProjection) =>
    function (this: PartitionTables, projectionId) {
      const live = liveProjection.call(this, projectionId);
      const under = this.swap(projectionId);
      return live === undefined || under === undefined ? live : { ...live, revision: under.revision };
    },
);

mutant(
  'a swap that goes on ahead of what it has done',
  PartitionTables.prototype,
  'swap',
  (swap) =>
    function (this: PartitionTables, projectionId) {
      const under = swap.call(this, projectionId);
      return under && { ...under, cursor: { phase: under.cursor.phase + 1, told: under.cursor.told } };
    },
  34,
);

/** Saves the cursor, whatever is on its way. */
const { save: saveAtOnce } = Object.getPrototypeOf(TellingSwap.prototype) as Pick<TellingSwap, 'save'>;

mutant(
  'a swap whose cursor is there before what it has told',
  TellingSwap.prototype,
  'slice',
  (slice) =>
    function (this: TellingSwap, cursor) {
      const after = slice.call(this, cursor);
      saveAtOnce.call(this, { phase: cursor.phase + 1, told: cursor.told });
      return after;
    },
  4488,
);

mutant(
  'a swap that saves the cursor of a slice whose changes are on their way',
  TellingSwap.prototype,
  'save',
  () => saveAtOnce,
  42,
);

mutant(
  'a standby that takes inputs past the last recorded one for settled',
  ChangesWriter.prototype,
  'lastRecorded',
  () => () => Infinity,
);

mutant(
  'a takeover that folds its claim and not what came before it',
  PartitionReader.prototype,
  'take',
  (take) =>
    function (this: PartitionReader<never>, records, end, open) {
      const claim = records.findLastIndex(
        ({ key, offset }) => offset < (end ?? 0) && key.toString().startsWith('claim#'),
      );
      return take.call(this, claim > 0 && this.fence.position > 0 ? records.slice(claim) : records, end, open);
    },
);

mutant(
  'an owner that acknowledges what its own fold finds void',
  PartitionReader.prototype,
  'fold',
  (fold) =>
    function (this: PartitionReader<{ kind: string }>, offset, record, draft) {
      const verdict = fold.call(this, offset, record, draft);
      const { pending, body } = (draft ?? {}) as {
        pending?: { resolve(accepted: Accepted): void };
        body?: { kind: string; value: CommitValue };
      };
      if (verdict === 'void' && body?.kind === 'Commit')
        pending?.resolve({ commit: storedCommit(offset, body.value), replayed: false });
      return verdict;
    },
);

mutant(
  'a standby that answers',
  AggregatePartition.prototype,
  'append',
  (append) =>
    function (this: AggregatePartition, command) {
      if (this.owned) return append.call(this, command);
      return Promise.resolve({
        aggregateId: '',
        aggregateType: '',
        startVersion: 1,
        endVersion: 1,
        eventIds: [],
        timestamp: 0,
      });
    },
  24,
);

mutant(
  'faults and releases of aggregates that are in the log and not followed',
  ReducerFaults.prototype,
  'fold',
  () => () => undefined,
);

mutant(
  'versions that are to be passed over, and are after a restart no more',
  FaultTables.prototype,
  'setMarks',
  (set) =>
    function (this: FaultTables, aggregateId, code, marks) {
      set.call(this, aggregateId, code, { ...marks, skipped: [] });
    },
);

mutant(
  'a skip that runs the event again',
  KeyReleases.prototype,
  'apply',
  (apply) =>
    function (this: KeyReleases, release, ...at) {
      return apply.call(this, { ...release, mode: 'retry' }, ...at);
    },
);

mutant(
  'a release that is begun anew after a crash, and told again',
  ChangesWriter.prototype,
  'recordedOf',
  (recordedOf) =>
    function (this: ChangesWriter, input) {
      return [...recordedOf.call(this, input)].filter(({ cause }) => cause !== 'retry' && cause !== 'skip');
    },
);

mutant(
  'an input whose changes come in parts, of which the rest is not written after a takeover',
  PartedInput.prototype,
  'rest',
  (rest) =>
    async function (this: PartedInput, isClosed) {
      await rest.call(this, isClosed);
      return { told: [], fresh: [] };
    },
);

mutant(
  'a part that is told again after a takeover',
  RecordedChanges.prototype,
  'named',
  (named) =>
    function (this: RecordedChanges, input) {
      const changes = [...named.call(this, input)];
      const last = Math.max(...changes.map(([, { sequence }]) => sequence));
      return this.parts(input)?.whole === false ? changes.filter(([, { sequence }]) => sequence < last) : changes;
    },
);

mutant(
  'a part that the next owner takes for the whole',
  RecordedChanges.prototype,
  'parts',
  (parts) =>
    function (this: RecordedChanges, input) {
      return parts.call(this, input) && { whole: true };
    },
);

mutant(
  'states that were told in a part, and do not come to the store of the next owner',
  RecordedRows.prototype,
  'setParted',
  () => () => undefined,
  35,
);

mutant(
  'a rest that is numbered without a part that is recorded',
  RecordedChanges.prototype,
  'named',
  (named) =>
    function (this: RecordedChanges, input) {
      const recorded = [...named.call(this, input)];
      return this.parts(input)?.whole === false ? recorded.slice(0, -1) : recorded;
    },
);

/** The record's first half: what is left of it is a transaction too. */
const halved = <B extends EventsBody>(body: B): B =>
  body.kind === 'Transaction'
    ? { ...body, value: { ...body.value, parts: body.value.parts.slice(0, Math.ceil(body.value.parts.length / 2)) } }
    : body;

mutant(
  'a transaction that is written by half, and answered whole',
  EventsWriter.prototype,
  'gather',
  (gather) =>
    function (this: EventsWriter, most) {
      return gather.call(this, most).map((draft) => Object.assign(draft, { body: halved(draft.body) }));
    },
);

mutant(
  'a transaction that a fold takes by half',
  EventsWriter.prototype,
  'fold',
  (fold) =>
    function (this: EventsWriter, record, draft) {
      fold.call(this, { ...record, body: halved(record.body) }, draft);
    },
);

mutant(
  'a transaction of which projections see one half',
  CommitFeed.prototype,
  'push',
  (push) =>
    function (this: CommitFeed, input) {
      if (input.kind !== 'commit' || input.commit.parts === undefined) return push.call(this, input);
      const parts = input.commit.parts.slice(-1);
      push.call(this, { kind: 'commit', commit: { ...input.commit, parts, eventCount: parts[0]?.events.length ?? 0 } });
    },
);

mutant(
  'a transaction that is checked against the heads of before it waited',
  AggregatePartition.prototype,
  'transact',
  (transact) =>
    function (this: AggregatePartition, command) {
      const { kind } = decideTransaction(command, (aggregateId) => this.head(aggregateId), undefined, 0);
      const unchecked = command.appends.map((append) => ({ ...append, expectedVersion: 'any' as const }));
      return transact.call(this, kind === 'refuse' ? command : { ...command, appends: unchecked });
    },
);

mutant(
  'transactions whose keys are forgotten',
  PartitionTables.prototype,
  'setCommand',
  (setCommand) =>
    function (this: PartitionTables, aggregateId, commandId, command) {
      if (aggregateId !== '') setCommand.call(this, aggregateId, commandId, command);
    },
);

const erasingMutant = <T extends object, K extends keyof T>(
  name: string,
  of: T,
  method: K,
  broken: (original: T[K]) => T[K],
): void => anyMutant(name, async (seed) => (await simulate(erasingPlanOf(seed))).problems.length, of, method, broken);

erasingMutant('an erased aggregate whose id is used again', PartitionTables.prototype, 'isErased', () => () => false);

erasingMutant('a projection that is built with what was erased', WithoutErased.prototype, 'of', () => (input) => input);

erasingMutant('an erasure that the next owner does not finish', Erasures.prototype, 'start', () => () => undefined);

erasingMutant(
  'tombstones of a transaction whose other parts nobody finds',
  EventsLog.prototype,
  'refresh',
  () => () => Promise.resolve(),
);

/** Few worlds show it: a rollback of states that have what was erased, under way while they were given up, and a takeover without a store. */
const ROLLED_BACK = 7_000_934;
/** They show it in the worlds of then. */
const untrimmed = (seed: number): ReturnType<typeof erasingPlanOf> => ({ ...erasingPlanOf(seed), trims: 0 });

erasingMutant(
  'a projection that does not say that it has events of an erased aggregate',
  PartitionTables.prototype,
  'liveProjection',
  (liveProjection) =>
    function (this: PartitionTables, projectionId) {
      const { erased: _, ...live } = liveProjection.call(this, projectionId) ?? {};
      return 'revision' in live ? live : undefined;
    },
);

it('a rollback of states that have what was erased tells no change twice', async () => {
  assert.deepEqual((await simulate(untrimmed(ROLLED_BACK))).problems, []);
});

/** A swap that was told is folded by a takeover without a store, from events of which some were erased since. */
const FOLDED_WITHOUT = 7_010_044;

it('of a swap that was told what it told holds', async () => {
  assert.deepEqual((await simulate(untrimmed(FOLDED_WITHOUT))).problems, []);
});

erasingMutant(
  'a release whose row is in the store on another turn than its input is passed',
  KeyReleases.prototype,
  'apply',
  (apply) =>
    async function (this: KeyReleases, release, offset, units, pass) {
      await apply.call(this, release, offset, units, () => undefined);
      await nextTurn();
      pass();
    },
);

anyMutant(
  'a key that is missing where retention took what was told of erased events of another one',
  async () => {
    const { problems } = await simulate(erasingPlanOf(PARTLY_FORGOTTEN));
    return problems.filter((problem) => problem.includes(LEFT_OUT)).length;
  },
  TenantProjections.prototype,
  'rows',
  (rows) =>
    function* (this: TenantProjections, ...of) {
      const all = [...rows.apply(this, of)];
      yield* all.slice(0, -1);
    },
);
