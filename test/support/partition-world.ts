// Processes that share the partitions of one tenant over one log: each with its own disk, its tasks, and the slots that the test gives it.
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { openSnapshots, openTasks } from '../../src/app/open-tasks.js';
import { systemClock, type Clock } from '../../src/core/clock.js';
import { partitionKey, partitionOfKey } from '../../src/core/slots.js';
import type { AppendResult } from '../../src/core/event.js';
import { EMPTY_FENCE, foldRecord } from '../../src/core/fence.js';
import { uuidv7 } from '../../src/core/ids.js';
import { silentLogger, type Logger } from '../../src/core/logger.js';
import { partitionOf } from '../../src/core/murmur2.js';
import type { CommitValue, EventsBody } from '../../src/core/records.js';
import type { Log, LogRecord, PartitionRef } from '../../src/log/log.js';
import { ThreadedSectionArchive } from '../../src/snapshots/section-archive.js';
import type { TenantDefinitions } from '../../src/tenancy/task-options.js';
import type { AggregateHome } from '../../src/aggregates/aggregates.js';
import type { TenantRegistry } from '../../src/tenancy/tenant-registry.js';
import type { TenantTask } from '../../src/tenancy/tenant-task.js';
import { eventsTopic, orderTopic } from '../../src/log/topics.js';
import { ToldOwnership } from './edge-pair.js';
import { bindAll, codecs, compiled, openRunners, openStore, testGround, type TestGround } from './ground.js';
import { EventsJudge } from './rules.js';
import { temporaryDirectory } from './service.js';

export const TENANT = 'acme';
export const PARTITIONS = 4;
export const orderRef: PartitionRef = { topic: orderTopic(TENANT), partition: 0 };
export { codecs };

const REDUCER = `public record Count(int Events, long Sum);
[AggregateType("account")]
public class CountReducer : IReducer<Count>
{
    public Count? Apply(Count? s, Event e) => new((s?.Events ?? 0) + 1, (s?.Sum ?? 0) * 31 + e.Data.GetProperty("n").GetInt64());
}`;
/** What comes out depends on the order of all events of the tenant, and of those of each group. */
const CHAIN = `public record Link(long Hash, int Length, string Last);
public class ChainProjection : IMultiKeyProjection<Link>
{
    public IEnumerable<string> ResolveKeys(Event e) => new[] { "all", "group " + e.Data.GetProperty("n").GetInt64() % 5 };
    public Link? Apply(Link? s, Event e)
    {
        long hash = s?.Hash ?? 7;
        foreach (char c in e.AggregateId + "@" + e.Version) hash = unchecked(hash * 31 + c);
        return new(hash, (s?.Length ?? 0) + 1, e.AggregateId + "@" + e.Version);
    }
}`;

/** The tenant's code: a reducer, and the projection `p`, whose revision may be raised. */
export interface ChainCode extends TenantDefinitions {
  revision: number;
}

export async function chainCode(t: Pick<TestContext, 'after'>): Promise<ChainCode> {
  const [reducer, projection] = await compiled(t, ['reducer', REDUCER], ['projection', CHAIN]);
  const assemblies: Readonly<Record<string, Buffer | undefined>> = { reducer, projection };
  const code: ChainCode = {
    revision: 1,
    bindAll: bindAll({ aggregateType: 'account', artefactId: 'reducer', className: 'CountReducer', generation: 1 }),
    projections: () => [
      { projectionId: 'p', revision: code.revision, artefactId: 'projection', classNames: ['ChainProjection'] },
    ],
    projectionExists: () => true,
    assembly: (artefactId) => Promise.resolve(assemblies[artefactId] ?? assert.fail(artefactId)),
  };
  return code;
}

/** A process on a machine of its own. */
export class Node {
  readonly ownership = new ToldOwnership();
  readonly registry: TenantRegistry;
  /** What was logged as a warning or an error. */
  readonly warnings: string[] = [];
  /** Of each of its sections that was loaded from a snapshot, how many entries. */
  readonly loaded: number[] = [];
  readonly archive: ThreadedSectionArchive;
  readonly #ground: TestGround;

  constructor(
    t: Pick<TestContext, 'after'>,
    log: Log,
    definitions: TenantDefinitions,
    path = temporaryDirectory(t),
    clock: Clock = systemClock,
  ) {
    const warn = (...[, message]: Parameters<Logger['warn']>): void => void this.warnings.push(message ?? '');
    this.#ground = testGround({
      ...{ directory: path, clock },
      // A snapshot is written when the test says.
      env: { SNAPSHOT_AFTER_RECORDS: '1000000' },
      logger: { ...silentLogger, warn, error: warn },
      metrics: { tasks: {}, snapshots: { loaded: (entries) => void this.loaded.push(entries) } },
    });
    const store = openStore(this.#ground);
    const codeHost = openRunners(this.#ground);
    this.archive = new ThreadedSectionArchive(store);
    const storage = { log, codecs, store, ownership: this.ownership };
    const partitionsOf = (): number => PARTITIONS;
    this.registry = openTasks(this.#ground, storage, codeHost, {
      definitionsOf: (tenantId) => (tenantId === TENANT ? definitions : undefined),
      partitionsOf,
      snapshots: openSnapshots(this.#ground, storage, partitionsOf),
    });
    t.after(() => this.close());
  }

  async home(aggregateId: string): Promise<AggregateHome> {
    return this.registry.home(TENANT, aggregateId);
  }

  tenant(): Promise<TenantTask> {
    return this.registry.open(TENANT);
  }

  close(): Promise<void> {
    return this.#ground.close();
  }
}

/** Tells all whose the partitions are: `owners[0]` has the tenant itself too. */
export function tell(nodes: readonly Node[], owners: readonly Node[]): void {
  for (const node of nodes)
    node.ownership.tell((key) => (owners[partitionOfKey(key)] === node ? 'self' : { url: 'http://elsewhere' }));
}

/** The same, and has them opened and closed by it. */
export async function assign(nodes: readonly Node[], owners: readonly Node[]): Promise<void> {
  tell(nodes, owners);
  for (const node of nodes) {
    const { slots } = node.registry;
    for (const key of slots.activeKeys) if (!node.ownership.owns(key)) await slots.passivate(key);
  }
  for (const [partition, owner] of owners.entries()) await owner.registry.slots.open(partitionKey(TENANT, partition));
}

/** Appends the i-th command, where its aggregate is served. */
export async function append(nodes: readonly Node[], i: number, commandId?: string): Promise<AppendResult> {
  const aggregateId = `account-${i % 37}`;
  const key = partitionKey(TENANT, partitionOf(aggregateId, PARTITIONS));
  const node = nodes.find(({ ownership }) => ownership.owns(key)) ?? assert.fail(`nobody owns ${key}`);
  const events = Array.from({ length: 1 + (i % 3) }, (_, n) => ({
    eventType: 'Paid',
    data: Buffer.from(`{"n":${i * 10 + n}}`),
  }));
  return (await node.home(aggregateId)).append({
    ...{
      commandId: commandId ?? uuidv7(),
      keyed: commandId !== undefined,
      requestHash: Buffer.from(commandId ?? ''),
      aggregateId,
      aggregateType: undefined,
      expectedVersion: 'any',
    },
    ...{ correlationId: undefined, causationId: undefined, metadata: undefined, events },
  });
}

export const appendAll = async (nodes: readonly Node[], from: number, to: number): Promise<AppendResult[]> => {
  const results: AppendResult[] = [];
  for (let at = from; at < to; at += 60)
    results.push(
      ...(await Promise.all(Array.from({ length: Math.min(60, to - at) }, (_, n) => append(nodes, at + n)))),
    );
  return results;
};

export async function readAll(log: Log, of: PartitionRef): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  for (const end = await log.endOffset(of); (records.at(-1)?.offset ?? -1) < end - 1;) {
    const next = (await log.read(of, (records.at(-1)?.offset ?? -1) + 1, 1024 * 1024)).records;
    if (next.length === 0) break;
    records.push(...next);
  }
  return records;
}

export interface Link {
  readonly Hash: string;
  readonly Length: number;
  readonly Last: string;
}

/** What the log says, by itself: the commits in the tenant's order, and the states of the projection folded from them. */
export async function truthOf(log: Log): Promise<{
  readonly commits: readonly CommitValue[];
  readonly unplaced: number;
  readonly states: Readonly<Record<string, Link>>;
}> {
  const partitions: (CommitValue | undefined)[][] = [];
  for (let partition = 0; partition < PARTITIONS; partition++) {
    let state = EMPTY_FENCE;
    const judge = new EventsJudge();
    const commits: (CommitValue | undefined)[] = [];
    for (const { offset, value } of await readAll(log, { topic: eventsTopic(TENANT), partition })) {
      const record = value === null ? undefined : codecs.events.decode(value);
      const folded = foldRecord<EventsBody>(state, offset, record, (body) => judge.judge(body));
      state = folded.state;
      if (folded.verdict !== 'accepted' || record?.body.kind !== 'Commit') continue;
      judge.accept(record.body);
      commits[offset] = record.body.value;
    }
    partitions.push(commits);
  }
  const throughs = Array.from({ length: PARTITIONS }, () => 0);
  const commits: CommitValue[] = [];
  for (const { value } of await readAll(log, orderRef)) {
    const body = value === null ? undefined : codecs.order.decode(value)?.body;
    if (body?.kind !== 'Through') continue;
    const { partition, through } = body.value;
    for (let offset = throughs[partition] ?? 0; offset < through; offset++) {
      const commit = partitions[partition]?.[offset];
      if (commit !== undefined) commits.push(commit);
    }
    throughs[partition] = Math.max(throughs[partition] ?? 0, through);
  }
  const accepted = partitions.reduce((sum, all) => sum + all.filter((commit) => commit !== undefined).length, 0);
  return { commits, unplaced: accepted - commits.length, states: chained(commits) };
}

function chained(commits: readonly CommitValue[]): Record<string, Link> {
  const links = new Map<string, { hash: bigint; length: number; last: string }>();
  for (const { aggregateId, baseVersion, events } of commits)
    for (const [i, { data }] of events.entries()) {
      const last = `${aggregateId}@${baseVersion + i + 1}`;
      for (const key of ['all', `group ${(JSON.parse(data.toString()) as { n: number }).n % 5}`]) {
        const before = links.get(key);
        let hash = before?.hash ?? 7n;
        for (const c of last) hash = BigInt.asIntN(64, hash * 31n + BigInt(c.charCodeAt(0)));
        links.set(key, { hash, length: (before?.length ?? 0) + 1, last });
      }
    }
  return Object.fromEntries(
    [...links]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, { hash, length, last }]) => [key, { Hash: String(hash), Length: length, Last: last }]),
  );
}

/** The states of the projection, as the tenant answers them; the hash is past what a number holds. */
export async function statesOf(tenant: TenantTask): Promise<Record<string, Link>> {
  const { states } = await tenant.projections.states({ projectionId: 'p', prefix: '', limit: 1000, cursor: undefined });
  return Object.fromEntries(
    states.map(({ key, state, fault }) => {
      assert.equal(fault, undefined);
      const [, hash = '', length, last = ''] =
        /^\{"hash":(-?\d+),"length":(\d+),"last":"([^"]*)"\}$/.exec(state?.toString() ?? '') ??
        assert.fail(`${key}: ${state?.toString()}`);
      return [key, { Hash: hash, Length: Number(length), Last: last }];
    }),
  );
}

/** All changes of the projection, as its subscribers get them. */
export const changesOf = async (tenant: TenantTask): Promise<string[]> =>
  (await tenant.changes.of('p').read(1, { items: 1_000_000 })).items.map(
    ({ sequence, key, version, aggregateId, cause, state }) =>
      `${sequence} ${key} ${aggregateId}@${version} ${cause ?? 'live'} ${state?.toString()}`,
  );
