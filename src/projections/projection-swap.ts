import type { Change } from '../core/change.js';
import type { ChangeValue, ProjectionSwapValue } from '../core/records.js';
import { runSlices, SliceMeter, StorePace, type SliceBounds, type SlicedJob } from '../jobs/sliced-job.js';
import { changeOfRow } from './projection-fold.js';
import { sameRow, storeChange, unitsOf } from './projection-unit.js';
import type { ToldOfSwap } from './told-of-swap.js';
import type {
  KeyState,
  LivePast,
  LiveProjection,
  PartitionTables,
  SwapCursor,
  SwapProgress,
} from '../store/partition-tables.js';

/** What a swap is made of, and where it stands. */
export interface SwapPlan {
  readonly tables: PartitionTables;
  readonly swap: ProjectionSwapValue;
  readonly before: LiveProjection | undefined;
  /** Of the swap, in the tenant's order. */
  readonly offset: number;
  readonly slice: SliceBounds;
  /** Throws when this process folds no more. */
  readonly mustGoOn: () => void;
}

/** A range of rows that is gone through, from the cursor on. */
interface Phase<R> {
  rows(cursor: SwapCursor): Iterable<R>;
  cursorOf(row: R): readonly [key: string, classIndex: number];
  /** Gives the bytes of the row, about. */
  take(row: R): number;
}
type KeyedRow = readonly [key: string, classIndex: number, row: KeyState];

/** Of so many revisions it is known that they were live. */
const PAST = 50;
/** Of which the changes are not acknowledged yet: so many go into one write of the log. */
const SLICES_ON_THEIR_WAY = 4;
const ROW_BYTES = 100;
const bytesOfRow = ({ state }: { readonly state: Buffer | null }): number => ROW_BYTES + (state?.length ?? 0);

/** A swap of which the rows are gone through in slices. Nothing of it shows until `goLive`: the states of a revision are its own until then. */
abstract class Swap implements SlicedJob<SwapCursor> {
  protected readonly plan: SwapPlan;
  protected told = 0;

  protected constructor(plan: SwapPlan) {
    this.plan = plan;
  }

  /** Of the states of the new revision. */
  protected abstract readonly from: SwapProgress['from'];
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- each phase has rows of its own
  protected abstract readonly phases: readonly Phase<any>[];
  /** Writes the changes of what the slice took, where it has any. */
  protected abstract write(): Promise<void>;
  /** Nothing was done yet. */
  protected abstract begin(): void;

  /** Gives how many keys are other than before. What was done before a restart is not done again. */
  async run(): Promise<number> {
    const { tables, swap, offset, mustGoOn } = this.plan;
    const known = tables.swap(swap.projectionId);
    const goesOn =
      known !== undefined &&
      known.revision === swap.revision &&
      known.offset === offset &&
      known.from === this.from &&
      known.place === tables.kept.placeOf(swap.projectionId, swap.revision);
    if (!goesOn) this.begin();
    const cursor = goesOn ? known.cursor : { phase: 0, told: 0 };
    this.told = cursor.told;
    try {
      await runSlices(this, cursor, new StorePace(tables.section, { isAwaited: () => true, mustGoOn }));
    } finally {
      await this.written();
    }
    return this.told;
  }

  async slice(cursor: SwapCursor): Promise<SwapCursor | undefined> {
    const phase = this.phases[cursor.phase];
    if (phase === undefined) return undefined;
    const meter = new SliceMeter(this.plan.slice);
    let after: SwapCursor['after'];
    let full = false;
    for (const row of phase.rows(cursor)) {
      after = phase.cursorOf(row);
      full = meter.full(phase.take(row));
      if (full) break;
    }
    await this.write();
    return full && after !== undefined
      ? { phase: cursor.phase, after, told: this.told }
      : { phase: cursor.phase + 1, told: this.told };
  }

  /** Resolves when nothing of what was to be written is on its way. */
  protected written(): Promise<void> {
    return Promise.resolve();
  }

  save(cursor: SwapCursor): void {
    const { tables, swap, offset } = this.plan;
    const { projectionId, revision } = swap;
    const place = tables.kept.placeOf(projectionId, revision);
    tables.setSwap(projectionId, { revision, offset, place, from: this.from, cursor });
  }

  protected *rowsBefore({ after }: SwapCursor): Generator<KeyedRow> {
    const { tables, swap, before } = this.plan;
    if (before !== undefined) yield* tables.keyStates(swap.projectionId, before.revision, '', after);
  }

  /** The key is as it was: its row stays whole. */
  protected keep(key: string, classIndex: number, row: KeyState): void {
    const { tables, swap } = this.plan;
    const { projectionId, revision } = swap;
    tables.setKeyState(projectionId, revision, key, classIndex, row);
    if (row.fault !== undefined) tables.faults.setKey(projectionId, revision, key, classIndex, true);
  }
}

/**
 * The swap of the owner, who has folded the new revision: each key of which the row is another one than before is told, those of
 * the old revision first. A key that is as it was keeps its row whole, so the rows of a revision are those of the one before, and
 * what its swap told: a standby follows it without the code. No row is as good as an empty one: an empty one of which nobody was
 * told is dropped, so that it makes no difference whether a revision was folded from the start, or from states of it that were kept.
 *
 * A slice that is done again numbers its changes as before: what it has told by then changes neither which rows are old nor how
 * they differ. What is erased between does, for who builds without it: then keys that were told are known by their names.
 */
export class TellingSwap extends Swap {
  protected readonly from = 'code';
  protected readonly phases = [this.#old(), this.#new()];
  readonly #tell: (values: readonly ChangeValue[]) => Promise<void>;
  readonly #toldBefore: ToldOfSwap | undefined;
  #values: ChangeValue[] = [];
  /** Of each slice that is not saved yet, in their order: whether its changes are acknowledged, and its cursor, once it is known. */
  readonly #slices: { told: boolean; cursor?: SwapCursor }[] = [];
  #awaiting: (() => void) | undefined;

  /** `tell` resolves when the changes are acknowledged and their states in the store. What was `toldBefore` is its owner's to store. */
  constructor(plan: SwapPlan, tell: (values: readonly ChangeValue[]) => Promise<void>, toldBefore?: ToldOfSwap) {
    super(plan);
    this.#tell = tell;
    this.#toldBefore = toldBefore;
  }

  protected begin(): void {
    this.#values = [];
  }

  /** The next slices are gone through while the changes of this one are on their way. */
  protected async write(): Promise<void> {
    const values = this.#values.splice(0);
    const slice: { told: boolean; cursor?: SwapCursor } = { told: values.length === 0 };
    this.#slices.push(slice);
    if (slice.told) return;
    void this.#tell(values).then(() => {
      slice.told = true;
      this.#saveTold();
    });
    while (this.#slices.length >= SLICES_ON_THEIR_WAY) await this.#oneSaved();
  }

  /** A cursor counts when all before it is acknowledged, and its states are in the store. */
  override save(cursor: SwapCursor): void {
    const last = this.#slices.at(-1);
    if (last !== undefined) last.cursor = cursor;
    this.#saveTold();
  }

  #saveTold(): void {
    for (let [first] = this.#slices; first?.told === true; [first] = this.#slices) {
      if (first.cursor === undefined) break;
      super.save(first.cursor);
      this.#slices.shift();
    }
    this.#awaiting?.();
  }

  #oneSaved(): Promise<void> {
    return new Promise((resolve) => (this.#awaiting = resolve));
  }

  protected override async written(): Promise<void> {
    while (this.#slices.some(({ told }) => !told)) await this.#oneSaved();
  }

  #push(key: string, className: string, row: KeyState, gone: boolean): void {
    const { swap, offset } = this.plan;
    const { projectionId, revision, cause } = swap;
    const place = { projectionId, revision, className, key };
    const index = this.told++;
    if (this.#toldBefore?.has(place) === true) return;
    this.#values.push(
      changeOfRow(
        place,
        [offset, this.#toldBefore?.nextIndex() ?? index],
        cause,
        gone ? { ...row, state: null, fault: undefined } : row,
      ),
    );
  }

  #old(): Phase<KeyedRow> {
    return {
      rows: (cursor) => this.rowsBefore(cursor),
      cursorOf: ([key, classIndex]) => [key, classIndex],
      take: ([key, classIndex, old]) => {
        const { tables, swap, before } = this.plan;
        const className = before?.classNames[classIndex] ?? '';
        const now = swap.classNames.indexOf(className);
        const row = now < 0 ? undefined : tables.keyState(swap.projectionId, swap.revision, key, now);
        if (!sameRow(old, row)) this.#push(key, className, row ?? old, row === undefined);
        else if (now >= 0) this.keep(key, now, old);
        return bytesOfRow(old) + (row === undefined ? 0 : bytesOfRow(row));
      },
    };
  }

  #new(): Phase<KeyedRow> {
    return {
      rows: ({ after }) => this.plan.tables.keyStates(this.plan.swap.projectionId, this.plan.swap.revision, '', after),
      cursorOf: ([key, classIndex]) => [key, classIndex],
      take: ([key, classIndex, row]) => {
        const { tables, swap, before } = this.plan;
        const { projectionId, revision, classNames } = swap;
        const className = classNames[classIndex] ?? '';
        const known = before?.classNames.indexOf(className) ?? -1;
        const isOld =
          before !== undefined &&
          known >= 0 &&
          tables.keyState(projectionId, before.revision, key, known) !== undefined;
        if (!isOld)
          if (sameRow(undefined, row)) tables.dropKeyState(projectionId, revision, key, classIndex);
          else this.#push(key, className, row, false);
        return bytesOfRow(row);
      },
    };
  }
}

/** The swap of a standby: the rows of the new revision are those of the one before, and what the owner told. */
export class FollowingSwap extends Swap {
  protected readonly from = 'changes';
  protected readonly phases = [this.#old(), this.#told()];
  readonly #recorded: (past: string) => Iterable<readonly [name: string, change: Change]>;

  /** `recorded`: the changes of the swap's input by name, behind that of `past`. All of them are there. */
  constructor(plan: SwapPlan, recorded: (past: string) => Iterable<readonly [name: string, change: Change]>) {
    super(plan);
    this.#recorded = recorded;
  }

  protected begin(): void {
    const { tables, swap } = this.plan;
    tables.dropRevision(swap.projectionId, swap.revision);
  }

  protected write(): Promise<void> {
    return Promise.resolve();
  }

  #old(): Phase<KeyedRow> {
    return {
      rows: (cursor) => this.rowsBefore(cursor),
      cursorOf: ([key, classIndex]) => [key, classIndex],
      take: ([key, classIndex, row]) => {
        const { swap, before } = this.plan;
        const now = swap.classNames.indexOf(before?.classNames[classIndex] ?? '');
        if (now >= 0) this.keep(key, now, row);
        return bytesOfRow(row);
      },
    };
  }

  #told(): Phase<readonly [name: string, change: Change]> {
    const { tables, swap } = this.plan;
    const units = unitsOf(swap.projectionId, swap);
    return {
      rows: ({ after }) => this.#recorded(after?.[0] ?? ''),
      cursorOf: ([name]) => [name, 0],
      take: ([, change]) => {
        storeChange(tables, units, change);
        if (change.projectionId === swap.projectionId) this.told++;
        return bytesOfRow(change);
      },
    };
  }
}

/**
 * The end of a swap, in one moment: the revision is the live one, with `changed` keys other than before. The states of the one before are kept, up to `most`
 * revisions of them; not those that a rebuild came to replace, nor those that a build from the start would not come to: of
 * one that has events of erased aggregates, or of one that was halted, for which `most` is 0.
 */
export function goLive(
  tables: PartitionTables,
  swap: ProjectionSwapValue,
  before: LiveProjection | undefined,
  offset: number,
  changed: number,
  most: number,
): void {
  const { projectionId, revision, artefactId, classNames, cause } = swap;
  const past: readonly LivePast[] = [...(before?.past ?? []), { revision, artefactId, changed }].slice(-PAST);
  const erased = holdsErased(tables, swap);
  tables.setLiveProjection(projectionId, { revision, artefactId, classNames, past, ...(erased && { erased }) });
  tables.setSwap(projectionId, undefined);
  if (before === undefined) return;
  const kept = {
    revision: before.revision,
    artefactId: before.artefactId,
    classNames: before.classNames,
    position: offset,
  };
  const gone =
    most === 0 ||
    cause === 'rebuild' ||
    cause === 'revive' ||
    before.erased === true ||
    tables.faults.departed(projectionId, before.revision)
      ? [kept]
      : tables.kept.keep(projectionId, kept, most);
  for (const one of gone) tables.dropRevision(projectionId, one.revision);
  tables.kept.forgetBelow(projectionId, revision);
}

/** The states of the revision may have events of aggregates that were erased. Who did not build it does not know, and says so. */
function holdsErased(tables: PartitionTables, { projectionId, revision }: ProjectionSwapValue): boolean {
  const build = tables.builds().find(([id, one]) => id === projectionId && one.revision === revision)?.[1];
  return build === undefined ? tables.hasErasures : build.erased === true;
}
