import { AggregatePartition, type PartitionListener, type Places } from '../aggregates/partition.js';
import type { BoundReducer } from '../aggregates/bindings.js';
import type { CommitsUnderWay } from '../aggregates/events-writer.js';
import { TenantCode } from '../code-host/tenant-code.js';
import { DAY_MS } from '../core/clock.js';
import { EMPTY_FENCE } from '../core/fence.js';
import { storedAs } from '../core/slots.js';
import type { TenantChanges } from '../feed/changes.js';
import { EventFeed } from '../feed/events.js';
import { tenantTopics } from '../log/topics.js';
import type { BuildTarget } from '../projections/projection-builds.js';
import type { Projections } from '../projections/projections.js';
import { TenantProjections, type ProjectionsListener } from '../projections/tenant-projections.js';
import type { FoldedSoFar } from '../snapshots/snapshots.js';
import { PartitionTables, type Checkpoint } from '../store/partition-tables.js';
import type { StatefoldError } from '../core/errors.js';
import { Activation } from './activation.js';
import { TenantFaults } from './faults.js';
import type { TenantInspection } from './inspection.js';
import type { TenantTaskOptions } from './task-options.js';
import { TenantAggregates } from './tenant-aggregates.js';
import { MergedInput, SoleInput, type InputListener, type TenantInput } from './tenant-input.js';
import { TenantSink } from './tenant-sink.js';
import type { Tenant } from './tenant.js';

export type { TenantTaskOptions } from './task-options.js';

const NOWHERE = Promise.resolve(undefined);
/** Well within the retention, whatever a topic's segments add to it. */
const choresEveryMs = (retentionMs: number): number => Math.min(DAY_MS, Math.max(1000, retentionMs / 4));

/**
 * A tenant: the first partition of its events, its projections and changes, over the fenced log and the local store; of the other
 * partitions, where it has any, those that this process owns, and standbys. As a standby it folds what the owner writes and runs no
 * code of the tenant, answers nothing, and can take over within milliseconds.
 */
export class TenantTask extends Activation implements Tenant, PartitionListener, InputListener, ProjectionsListener {
  readonly tenantId: string;
  readonly aggregates: TenantAggregates;
  readonly faults: TenantFaults;
  readonly events: EventFeed;
  /** What the read store's sink reads. */
  readonly sink: TenantSink;
  readonly #options: TenantTaskOptions;
  readonly #tables: PartitionTables;
  readonly #code: TenantCode;
  /** Ends the count of what is stored here. */
  readonly #uncount: (() => void) | undefined;
  /** The first partition of the events; mostly there is no other. */
  readonly #first: AggregatePartition;
  readonly #input: TenantInput;
  readonly #projections: TenantProjections;
  #chores: NodeJS.Timeout | undefined;

  constructor(options: TenantTaskOptions) {
    super(options.onStopped);
    this.#options = options;
    const { tenantId, codeHost, definitions, partitions } = options;
    this.tenantId = tenantId;
    const tables = new PartitionTables(options.store.section(this.section));
    const code = new TenantCode(codeHost.runner(tenantId), definitions);
    const from = tables.checkpoint() ?? { events: EMPTY_FENCE, changes: EMPTY_FENCE, projected: 0 };
    this.#tables = tables;
    this.#code = code;
    this.#first = new AggregatePartition({
      setting: options,
      partition: 0,
      partitionCount: partitions?.count ?? 1,
      ...(partitions && {
        places: { placeOf: (partition, offset) => this.places?.placeOf(partition, offset) ?? NOWHERE },
      }),
      tables,
      code,
      from: from.events,
      listener: this,
    });
    this.#input =
      partitions === undefined
        ? new SoleInput(this.#first)
        : new MergedInput({
            setting: options,
            tables,
            first: this.#first,
            from: from.order,
            partitions,
            listener: this,
          });
    this.#projections = new TenantProjections({
      setting: options,
      tables,
      code,
      inputs: this.#input.inputs,
      epochs: this.#first,
      controls: this.#first,
      from,
      listener: this,
    });
    this.events = new EventFeed(this.#input);
    this.aggregates = new TenantAggregates(this.#input);
    this.faults = new TenantFaults({
      ...{ tables, code, input: this.#input, projections: this.#projections },
      storage: options.storage,
    });
    this.sink = new TenantSink(options, this.#input, this.#projections, definitions);
    this.#uncount = options.storage?.add(tables.bytes);
    tables.section.onCheckpoint(() => this.#checkpoint());
  }

  get slotKey(): string {
    return this.tenantId;
  }

  get section(): string {
    return storedAs(this.#options);
  }

  get projections(): Projections {
    return this.#projections.reads;
  }

  get changes(): TenantChanges {
    return this.#projections.changes;
  }

  /** Bytes that the tenant stores, about. */
  get storageBytes(): number {
    return this.#options.storage?.usage ?? 0;
  }

  /** Why nothing more of the tenant may be stored. */
  get storageRefusal(): StatefoldError | undefined {
    return this.#options.storage?.refusal;
  }

  /** What it holds, for those who fold it again. */
  get inspection(): TenantInspection {
    return { tenantId: this.tenantId, aggregates: () => this.#input.all(), projections: this.#projections };
  }

  /** Where what is appended to any partition comes to stand; undefined where there is one only. */
  get places(): Places | undefined {
    return this.#input.places;
  }

  /** What serves the aggregates of the first partition. */
  get first(): AggregatePartition {
    return this.#first;
  }

  /** What a snapshot would spare the next owner; undefined while this is no owner, who alone writes them. */
  get foldedSoFar(): FoldedSoFar | undefined {
    return this.owned
      ? {
          records: this.#first.position + this.#projections.changes.partition.fence.position,
          bytes: this.#first.foldedBytes,
        }
      : undefined;
  }

  /** Log offsets that the projections have yet to fold. */
  get projectionLag(): number {
    return this.#input.end + this.#input.unplaced - this.#projections.storedTo;
  }

  get idle(): boolean {
    return this.projectionLag === 0 && !this.#projections.busy && this.events.subscribers === 0;
  }

  /** Faulted aggregates and keys, of what this process owns. */
  get faulted(): { readonly aggregates: number; readonly keys: number } {
    return this.owned
      ? { aggregates: this.#first.faulted, keys: this.#projections.faultedKeys }
      : { aggregates: 0, keys: 0 };
  }

  /** The reducer folds the type's aggregates from now on; the others catch up in the background. A promotion reads the definitions. */
  bind(reducer: BoundReducer): void {
    if (this.#first.owned) this.#first.bind(reducer);
  }

  deploy(target: BuildTarget): void {
    this.#projections.deploy(target);
  }

  /** Ends the build of a revision past this one, unless its swap may be in the log. */
  cancelBuild(projectionId: string, above: number): void {
    this.#projections.cancelBuild(projectionId, above);
  }

  drop(projectionId: string): void {
    this.#projections.drop(projectionId);
  }

  underWay(offset: number, commits: CommitsUnderWay): void {
    const place = this.#input.placeUnderWay(offset);
    if (place !== undefined) this.#projections.foresee(place, commits);
  }

  /** The claim of the changes counts. The first one is saved when all is claimed. */
  claimed(): void {
    if (this.owned) this.#saveFolded();
  }

  /** Writes the claim of the changes once more: retention takes it with what is as old. A tenant that is served does so by itself. */
  repeatClaim(): Promise<void> {
    return this.#projections.changes.partition.repeatClaim();
  }

  protected override async restore(claim: boolean): Promise<void> {
    const { log, changesRetentionMs, definitions, partitions } = this.#options;
    await log.ensureTopics(tenantTopics(this.section, changesRetentionMs, partitions?.count));
    this.mustRestore();
    await this.#first.open({ claim });
    await this.#projections.changes.partition.open({ claim });
    if (claim) await definitions.caughtUp?.(); // after the claims: what a former owner halted is known from here on
    await this.#input.open();
    if (claim) await this.#input.lead();
    this.mustRestore();
    this.#projections.restored(this.#input.end);
  }

  protected override follow(): void {
    this.#projections.follow();
    this.#chores = this.#fromTimeToTime(() => this.#projections.expire());
  }

  protected override async take(): Promise<void> {
    await this.#first.claim();
    await this.#projections.changes.partition.claim();
    await this.#options.definitions.caughtUp?.();
    await this.#input.lead();
  }

  protected override lead(): Promise<void> {
    // What the runner holds of an earlier activation may be ahead of what was acknowledged.
    this.#code.runner.forget();
    this.#first.serve();
    return this.#options.definitions.bindAll((reducer) => this.bind(reducer));
  }

  protected override serve(): void {
    this.#projections.serve();
    this.#saveFolded();
    clearInterval(this.#chores);
    this.#chores = this.#fromTimeToTime(
      () => this.#projections.expire(),
      () => this.repeatClaim(),
    );
    this.#projections.deployAll();
  }

  protected override suspend(): void {
    clearInterval(this.#chores);
    this.#projections.suspend();
  }

  /** The first now, too. One that fails is done the next time: a claim is repeated with what is written next, and one that comes too late only makes cursors expire early. */
  #fromTimeToTime(...chores: readonly (() => Promise<void>)[]): NodeJS.Timeout {
    const attempt = (chore: (() => Promise<void>) | undefined): void => void chore?.().catch(() => undefined);
    attempt(chores[0]);
    return setInterval(() => chores.forEach(attempt), choresEveryMs(this.#options.changesRetentionMs)).unref();
  }

  protected override async shutDown(): Promise<void> {
    await this.#first.close();
    this.#input.close();
    await this.#projections.close();
    await this.#tables.section.close();
    this.#uncount?.();
  }

  /** How far all of it is folded. */
  get #folded(): Checkpoint {
    const { changes, storedTo: projected } = this.#projections;
    const order = this.#input.checkpoint;
    const trimmed = changes.trimmedInputs;
    return {
      events: this.#first.fence,
      changes: changes.partition.fence,
      projected,
      ...(order !== undefined && { order }),
      ...(trimmed !== undefined && { trimmed }),
    };
  }

  /** Right before the section is written: how far it is folded. */
  #checkpoint(): void {
    const { changes } = this.#projections;
    this.#first.forgetCommands();
    changes.save();
    const folded = this.#folded;
    this.#tables.setCheckpoint(folded);
    if (this.owned)
      this.#options.log.reportPositions([
        { of: this.#first.ref, position: folded.events.position },
        { of: changes.ref, position: folded.changes.position },
      ]);
  }

  /** Puts in the store that there is a claim: who comes back after retention took it knows of it from there. */
  #saveFolded(): void {
    this.#tables.setCheckpoint(this.#folded);
    void this.#tables.section.flush();
  }
}
