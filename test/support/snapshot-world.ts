// A tenant's task on machines that share a log and no disk: what one has folded another has from a snapshot, or not at all.
import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { taskOptions } from '../../src/app/open-tasks.js';
import type { CodeHost } from '../../src/code-host/code-host.js';
import type { AppendResult } from '../../src/core/event.js';
import { uuidv7 } from '../../src/core/ids.js';
import { silentLogger } from '../../src/core/logger.js';
import type { Log } from '../../src/log/log.js';
import { ThreadedSectionArchive, type Saved, type SectionArchive } from '../../src/snapshots/section-archive.js';
import { Snapshots, type SnapshotsOptions } from '../../src/snapshots/snapshots.js';
import type { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables, type Checkpoint } from '../../src/store/partition-tables.js';
import type { TenantDefinitions } from '../../src/tenancy/task-options.js';
import { TenantTask } from '../../src/tenancy/tenant-task.js';
import { changesTopic, eventsTopic, snapshotsTopic } from '../../src/log/topics.js';
import { bindAll, codecs, compiled, NO_CODE, openRunners, openStore, testGround, type TestGround } from './ground.js';
import { temporaryDirectory } from './service.js';

const REDUCER = `public record Account(long Cents, int Entries);
[AggregateType("account")]
public class AccountReducer : IReducer<Account>
{
    public Account? Apply(Account? s, Event e) => new((s?.Cents ?? 0) + e.Data.GetProperty("cents").GetInt64(), (s?.Entries ?? 0) + 1);
}`;
const PROJECTION = `public record Tally(long Cents, string Last);
public class TallyProjection : IProjection<Tally>
{
    public string? ResolveKey(Event e) => e.Data.GetProperty("city").GetString();
    public Tally? Apply(Tally? s, Event e) => e.Data.GetProperty("cents").GetInt64() == 13 ? throw new Exception("unlucky") : new((s?.Cents ?? 0) + e.Data.GetProperty("cents").GetInt64(), e.AggregateId + "@" + e.Version);
}`;
export const TENANT = 'acme';
const HOUR_MS = 3_600_000;

export const eventsRef = { topic: eventsTopic(TENANT), partition: 0 };
export const changesRef = { topic: changesTopic(TENANT), partition: 0 };
export const snapshotsRef = { topic: snapshotsTopic(TENANT), partition: 0 };
export { codecs };

/** A machine with a disk of its own. */
export class Machine {
  readonly path: string;
  readonly store: LocalStore;
  readonly archive: ThreadedSectionArchive;
  readonly #ground: TestGround;
  readonly #codeHost: CodeHost;
  readonly #definitions: TenantDefinitions;
  #task: TenantTask | undefined;
  #snapshots: Snapshots | undefined;

  /** On a disk of its own, unless it is that of a machine before. */
  constructor(
    t: Pick<TestContext, 'after'>,
    definitions: TenantDefinitions = NO_CODE,
    directory = temporaryDirectory(t),
  ) {
    this.path = join(directory, 'store');
    this.#ground = testGround({ directory });
    this.store = openStore(this.#ground);
    this.archive = new ThreadedSectionArchive(this.store);
    this.#codeHost = openRunners(this.#ground);
    this.#definitions = definitions;
    this.#ground.shutdown.add('task', () => this.closeTask());
    this.#ground.shutdown.add('snapshots', () => this.#snapshots?.close());
    t.after(() => this.close());
  }

  snapshots(log: Log, options: Partial<SnapshotsOptions> = {}): Snapshots {
    return (this.#snapshots = new Snapshots({
      log,
      codecs,
      store: this.store,
      archive: this.archive,
      logger: silentLogger,
      changesRetentionMs: HOUR_MS,
      afterRecords: 50_000,
      everyMs: 20,
      ...options,
    }));
  }

  /** How far the section on the disk is folded. */
  checkpoint(): Checkpoint | undefined {
    return new PartitionTables(this.store.section(TENANT)).checkpoint();
  }

  async open(
    log: Log,
    idempotencyWindow = 100_000,
    { standby = false, onStopped = (error: Error): void => assert.fail(error) } = {},
  ): Promise<TenantTask> {
    const settings = { ...this.#ground.settings, idempotencyWindow };
    const ground = { ...this.#ground, settings, owner: randomUUID() };
    const storage = { log, codecs, store: this.store };
    const task = new TenantTask({
      ...taskOptions(ground, storage, this.#codeHost, TENANT, this.#definitions),
      onStopped,
    });
    this.#task = task;
    await task.open({ standby });
    return task;
  }

  async closeTask(): Promise<void> {
    await this.#task?.close();
    this.#task = undefined;
  }

  close(): Promise<void> {
    return this.#ground.close();
  }
}

/** A reducer that folds accounts, and the projection `p`: what was paid in each city. 13 cents stop a city. */
export async function bank(t: Pick<TestContext, 'after'>): Promise<TenantDefinitions> {
  const [reducer, projection] = await compiled(t, ['reducer', REDUCER], ['projection', PROJECTION]);
  assert.ok(reducer !== undefined && projection !== undefined);
  return {
    bindAll: bindAll({ aggregateType: 'account', artefactId: 'reducer', className: 'AccountReducer', generation: 1 }),
    projections: () => [{ projectionId: 'p', revision: 1, artefactId: 'projection', classNames: ['TallyProjection'] }],
    projectionExists: () => true,
    assembly: (artefactId) => Promise.resolve(artefactId === 'reducer' ? reducer : projection),
  };
}

export const CITIES = 40;

/** The i-th append: one commit of one to three events. */
export function append(task: TenantTask, i: number, commandId?: string): Promise<AppendResult> {
  const event = (n: number) => ({
    eventType: 'Paid',
    data: Buffer.from(
      JSON.stringify({ cents: i % 4999 === 13 && n === 0 ? 13 : 100 + (i % 50), city: `city ${(i + n) % CITIES}` }),
    ),
  });
  return task.first.append({
    commandId: commandId ?? uuidv7(),
    keyed: commandId !== undefined,
    requestHash: Buffer.from(commandId ?? ''),
    aggregateId: `account-${i % 500}`,
    aggregateType: undefined,
    expectedVersion: 'any',
    correlationId: undefined,
    causationId: undefined,
    metadata: undefined,
    events: Array.from({ length: 1 + (i % 3) }, (_, n) => event(n)),
  });
}

/** Appends `from` to `to`, 200 at a time; every other one under a key. */
export async function appendAll(task: TenantTask, from: number, to: number): Promise<AppendResult[]> {
  const results: AppendResult[] = [];
  for (let at = from; at < to; at += 200)
    results.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(200, to - at) }, (_, n) => append(task, at + n, keyOf(at + n))),
      )),
    );
  return results;
}
export const keyOf = (i: number): string | undefined => (i % 2 === 0 ? `key-${i}` : undefined);

/** A hash of all that the task answers: aggregates, states, faults, and the events of some. */
export async function statesOf(task: TenantTask): Promise<Record<string, string>> {
  const { aggregates } = await task.aggregates.list({ aggregateType: undefined, limit: 1000, cursor: undefined });
  const states = await Promise.all(
    aggregates
      .filter(({ aggregateType }) => aggregateType === 'account')
      .map(({ aggregateId, aggregateType }) => task.first.state(aggregateType, aggregateId)),
  );
  const projection = await task.projections.states({ projectionId: 'p', prefix: '', limit: 1000, cursor: undefined });
  const events = await Promise.all(
    [0, 13, 499].map((n) =>
      task.first.events({
        aggregateId: `account-${n}`,
        fromVersion: undefined,
        toVersion: undefined,
        limit: 10_000,
        direction: 'forward',
      }),
    ),
  );
  const changes = (await task.changes.of('p').read(1, { items: 100_000, bytes: 64 * 1024 * 1024 })).items;
  return Object.fromEntries(
    Object.entries({
      aggregates,
      types: await task.aggregates.types(),
      states,
      projection,
      faults: await task.faults.ofProjection('p', { limit: 1000, cursor: undefined }),
      events,
      changes,
    }).map(([name, value]) => [name, hashOf(value)]),
  );
}

function hashOf(value: unknown): string {
  const text = JSON.stringify(value, (_, inner: unknown) =>
    inner instanceof Uint8Array ? Buffer.from(inner).toString('latin1') : inner,
  );
  return createHash('sha256').update(text).digest('hex');
}

/** Chunks of `archive` go through `alter`: what it throws breaks the saving off. */
export const saving = (
  archive: SectionArchive,
  alter: (chunk: Buffer, n: number) => Promise<Buffer> | Buffer,
): SectionArchive => ({
  load: (...args) => archive.load(...args),
  async save(section) {
    const { checkpoint, chunks } = await archive.save(section);
    const altered = async function* (): AsyncGenerator<Buffer, Saved, void> {
      try {
        for (let n = 0; ; n++) {
          const next = await chunks.next();
          if (next.done === true) return next.value;
          yield await alter(next.value, n);
        }
      } finally {
        await chunks.return({ entries: 0, bytes: 0, sha256: '' });
      }
    };
    return { checkpoint, chunks: altered() };
  },
});
