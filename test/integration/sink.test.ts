import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { StatefoldError } from '../../src/core/errors.js';
import { silentLogger } from '../../src/core/logger.js';
import type { ClickHouseReadStore } from '../../src/read-store/clickhouse/clickhouse-read-store.js';
import type { EmbeddedEngine } from '../../src/read-store/embedded/embedded-engine.js';
import { Sink, type SinkOptions } from '../../src/read-store/sink.js';
import { NASTY } from '../contracts/read-store.contract.js';
import { openStore, rowsOf, readyEngine, suiteCleanUp, until, type CleanUp } from './read-store-fixture.js';
import { ListedLog } from './sink-fixture.js';

describe('the sink, into a real engine', () => {
  const cleanUp = suiteCleanUp();
  let engine: EmbeddedEngine;
  let store: ClickHouseReadStore;

  before(async () => {
    engine = await readyEngine(cleanUp);
    store = openStore(cleanUp, engine);
    await store.ensureSchema();
  });

  const log = (): ListedLog => new ListedLog(`t-${randomUUID()}`);
  const open = (context: CleanUp, options: Partial<SinkOptions> = {}): Sink => {
    const sink = new Sink({ store, logger: silentLogger, delayMs: 20, ...options });
    context.after(() => sink.close());
    return sink;
  };
  const exec = async (sql: string): Promise<void> => {
    for await (const _ of await store.query(sql, 'Null'));
  };
  const statements = async (): Promise<number> => {
    const [row] = await rowsOf<{ n: number }>(
      store,
      "SELECT toUInt32(sum(value)) AS n FROM system.events WHERE event = 'InsertQuery'",
    );
    return row?.n ?? 0;
  };
  const eventsOf = (tenant: string): Promise<{ id: string; v: number; data: string; meta: string | null }[]> =>
    rowsOf(
      store,
      `SELECT aggregate_id AS id, toUInt32(version) AS v, hex(data_raw) AS data, hex(metadata_raw) AS meta FROM events FINAL WHERE tenant = '${tenant}' ORDER BY id, v`,
    );
  const statesOf = (tenant: string): Promise<{ id: string; n: number }[]> =>
    rowsOf(
      store,
      `SELECT aggregate_id AS id, state.count::UInt32 AS n FROM aggregate_states FINAL WHERE tenant = '${tenant}' ORDER BY id`,
    );
  const hex = (text: string): string => Buffer.from(text).toString('hex').toUpperCase();

  it('copies events, states and changes byte for byte, the watermarks last', async (context) => {
    const source = log();
    for (const { json } of NASTY) source.append('a', [json, '{}'], json);
    source.append('b', ['{"x":1}']);
    for (const [key, state, fault] of [
      ['k', '{"n":1}', false],
      ['l', '{"n":1}', false],
      ['k', '{"n":1.0}', false],
      ['k', '{"n":1.0}', true],
    ] as const)
      source.change(key, state, fault);
    const sink = open(context);
    sink.attach(source);
    await sink.flush(source.tenantId, { events: source.end, changes: source.changesEnd });
    const read = await eventsOf(source.tenantId);
    assert.deepEqual(read, [
      ...NASTY.flatMap(({ json }, i) =>
        [json, '{}'].map((data, j) => ({ id: 'a', v: 2 * i + j + 1, data: hex(data), meta: hex(json) })),
      ),
      { id: 'b', v: 1, data: hex('{"x":1}'), meta: null },
    ]);
    assert.deepEqual(await statesOf(source.tenantId), [
      { id: 'a', n: 2 * NASTY.length },
      { id: 'b', n: 1 },
    ]);
    assert.deepEqual(
      await rowsOf(
        store,
        `SELECT key, state_raw FROM projection_states FINAL WHERE tenant = '${source.tenantId}' ORDER BY key`,
      ),
      [
        { key: 'k', state_raw: '{"n":1.0}' },
        { key: 'l', state_raw: '{"n":1}' },
      ],
    );
    // The fault is no change of state.
    assert.deepEqual(
      await rowsOf(
        store,
        `SELECT groupArray(toUInt32(sequence)) AS s FROM (SELECT sequence FROM notifications FINAL WHERE tenant = '${source.tenantId}' ORDER BY sequence)`,
      ),
      [{ s: [1, 2, 3] }],
    );
    assert.deepEqual(await store.watermarks(source.tenantId), {
      events: source.end,
      states: source.end,
      changes: source.changesEnd,
    });
  });

  it('goes on from the watermark after a restart, and reads nothing of what is there', async (context) => {
    const source = log();
    source.append('a', ['{}', '{}']);
    const first = open(context);
    first.attach(source);
    await first.flush(source.tenantId, { events: source.end });
    await first.close();
    const written = source.end;
    source.append('a', ['{}']);
    source.reads.commits.length = 0;
    const second = open(context);
    second.attach(source);
    await second.flush(source.tenantId, { events: source.end });
    assert.equal(Math.min(...source.reads.commits), written);
    assert.equal((await eventsOf(source.tenantId)).length, 3);
  });

  it('lets a tenant whose states cannot be read hold up neither its events nor another tenant', async (context) => {
    const failed: string[] = [];
    const [bad, hung, good] = [log(), log(), log()];
    bad.statesFault = 'reject';
    hung.statesFault = 'hang';
    for (const source of [bad, hung, good]) source.append('a', ['{}']);
    const sink = open(context, {
      sourceDeadlineMs: 6_000,
      observer: { streamFailed: (tenantId, stream) => void failed.push(`${tenantId} ${stream}`) },
    });
    for (const source of [bad, hung, good]) sink.attach(source);
    await sink.flush(good.tenantId, { events: good.end }, 5_000);
    await until(
      "the bad tenant's events are in",
      async () => (await store.watermarks(bad.tenantId)).events === bad.end,
    );
    await until(
      "the hung tenant's events are in",
      async () => (await store.watermarks(hung.tenantId)).events === hung.end,
    );
    assert.equal((await store.watermarks(bad.tenantId)).states, 0);
    assert.ok(failed.includes(`${bad.tenantId} states`));
    await assert.rejects(
      sink.flush(bad.tenantId, { events: bad.end }, 100),
      (error) => error instanceof StatefoldError && error.code === 'UNAVAILABLE',
    );
    bad.statesFault = hung.statesFault = undefined;
    await sink.flush(bad.tenantId, { events: bad.end });
    await sink.flush(hung.tenantId, { events: hung.end });
    assert.deepEqual(await statesOf(hung.tenantId), [{ id: 'a', n: 1 }]);
  });

  it('waits no longer behind a failure where the clock is set back', async (context) => {
    const failed: string[] = [];
    const source = log();
    source.statesFault = 'reject';
    source.append('a', ['{}']);
    const sink = open(context, { observer: { streamFailed: (_, stream) => void failed.push(stream) } });
    sink.attach(source);
    await until('it failed', () => failed.includes('states'));
    const { now } = Date;
    context.mock.method(Date, 'now', () => now() - 3_600_000);
    source.statesFault = undefined;
    await sink.flush(source.tenantId, { events: source.end }, 10_000);
  });

  it('holds up the rows of a tenant that the engine refuses, and no others, and takes them when it can', async (context) => {
    const [good, bad] = [log(), log()];
    await exec(`ALTER TABLE events ADD CONSTRAINT not_bad CHECK tenant != '${bad.tenantId}'`);
    context.after(() => exec('ALTER TABLE events DROP CONSTRAINT IF EXISTS not_bad'));
    const sink = open(context);
    const fill = (of: ListedLog, from: number): void => {
      for (let i = from; i < from + 40; i++) of.append(`a-${i}`, [`{"n":${i}}`]);
      of.announce();
    };
    for (const of of [bad, good]) fill(of, 0);
    for (const of of [bad, good]) sink.attach(of);
    await until('the one is refused', () => sink.status().refused === 1);
    // Together in one block, and the good one after the bad one was found.
    for (const from of [40, 80]) {
      for (const of of [bad, good]) fill(of, from);
      await sink.flush(good.tenantId, { events: good.end });
    }
    assert.equal((await eventsOf(good.tenantId)).length, 120);
    assert.deepEqual(await eventsOf(bad.tenantId), []);
    assert.deepEqual([sink.status().refused, sink.status().storeAvailable], [1, true]);
    await exec('ALTER TABLE events DROP CONSTRAINT not_bad');
    await sink.flush(bad.tenantId, { events: bad.end });
    assert.equal((await eventsOf(bad.tenantId)).length, 120);
    assert.equal(sink.status().refused, 0);
  });

  it('a tenant whose every row the engine refuses costs a bounded number of statements', async (context) => {
    const [good, bad] = [log(), log()];
    await exec('ALTER TABLE events ADD CONSTRAINT not_typed CHECK isNull(data.bad)');
    context.after(() => exec('ALTER TABLE events DROP CONSTRAINT not_typed'));
    for (let i = 0; i < 1500; i++) bad.append(`b-${i}`, ['{"bad":1}']);
    for (let i = 0; i < 100; i++) good.append(`g-${i}`, ['{"n":1}']);
    const sink = open(context);
    for (const one of [bad, good]) sink.attach(one);
    const before = await statements();
    await Promise.all([bad, good].map((one) => sink.flush(one.tenantId, { events: one.end }, 120_000)));
    const made = (await statements()) - before;
    assert.ok(made > 64 && made < 250, `${made} statements`);
    const [rows] = await rowsOf<{ n: number; typed: number }>(
      store,
      `SELECT toUInt32(count()) AS n, toUInt32(countIf(data.n = 1)) AS typed FROM events FINAL WHERE tenant = '${good.tenantId}'`,
    );
    assert.deepEqual(rows, { n: 100, typed: 100 });
    const refused = await eventsOf(bad.tenantId);
    assert.equal(refused.length, 1500);
    assert.ok(refused.every(({ data }) => data === hex('{"bad":1}')));
  });

  it('writes what a few small events made large in statements that have a bound', async (context) => {
    const one = log();
    const state = JSON.stringify({ text: 'x'.repeat(60_000) });
    for (let event = 0; event < 2; event++) for (let key = 0; key < 1000; key++) one.change(`k-${key}`, state);
    // 120 MB in one block: the engine takes 64 MiB a statement.
    const sink = open(context);
    sink.attach(one);
    await sink.flush(one.tenantId, { changes: one.changesEnd }, 120_000);
    const [{ n, m } = { n: 0, m: 0 }] = await rowsOf<{ n: number; m: number }>(
      store,
      `SELECT (SELECT toUInt32(count()) FROM notifications FINAL WHERE tenant = '${one.tenantId}') AS n, (SELECT toUInt32(count()) FROM projection_states FINAL WHERE tenant = '${one.tenantId}') AS m`,
    );
    assert.deepEqual([n, m], [2000, 1000]);
  });

  it('asks for large states portion by portion, and goes on behind those that are written', async (context) => {
    const one = log();
    for (let i = 0; i < 120; i++) one.append(`a-${i}`, ['{}']);
    one.stateBytes = 256 * 1024;
    const sink = open(context, { maxBytes: 3 * 1024 * 1024 });
    sink.attach(one);
    await sink.flush(one.tenantId, { events: one.end }, 120_000);
    assert.ok(one.reads.states.length > 5, `asked ${one.reads.states.length} times`);
    // The first time nothing is known; from there on about what a share of the block takes.
    assert.ok(Math.max(...one.reads.states.slice(2)) <= 16, String(one.reads.states));
    const [{ n } = { n: 0 }] = await rowsOf<{ n: number }>(
      store,
      `SELECT toUInt32(count()) AS n FROM aggregate_states FINAL WHERE tenant = '${one.tenantId}'`,
    );
    assert.equal(n, 120);
  });

  it('shares blocks among tenants, and is still when they are', async (context) => {
    const blocks: number[] = [];
    const sources = Array.from({ length: 40 }, log);
    const sink = open(context, { observer: { block: (_, rows) => void blocks.push(rows) } });
    for (const source of sources) {
      source.append('a', ['{}', '{}', '{}']);
      sink.attach(source);
    }
    await Promise.all(sources.map((source) => sink.flush(source.tenantId, { events: source.end })));
    assert.ok(blocks.length <= 16, `${blocks.length} blocks`);
    await until('nothing is behind', () => sink.status().behind === 0);
    const reads = sources.map((source) => source.reads.commits.length);
    // Longer than the delay of many rounds: a sink that polls would read again.
    await delay(300);
    assert.deepEqual(
      sources.map((source) => source.reads.commits.length),
      reads,
    );
    assert.deepEqual(sink.status(), {
      ...{ tenants: 40, behind: 0, oldestMs: 0, refused: 0 },
      ...{ storeAvailable: true, failure: undefined },
    });
  });

  it('reads the states of all aggregates again when a reducer is bound, also after a restart', async (context) => {
    const source = log();
    source.append('a', ['{}']);
    source.append('b', ['{}']);
    const revisions = (): Promise<{ id: string; r: number }[]> =>
      rowsOf(
        store,
        `SELECT aggregate_id AS id, state.revision::UInt32 AS r FROM aggregate_states FINAL WHERE tenant = '${source.tenantId}' ORDER BY id`,
      );
    const first = open(context);
    first.attach(source);
    await first.flush(source.tenantId, { events: source.end });
    source.revision = 1;
    source.announce();
    await until('the states of the new binding are in', async () => (await revisions()).every(({ r }) => r === 1));
    await first.close();
    source.revision = 2;
    const second = open(context);
    second.attach(source);
    await until('the states of the next binding are in', async () => (await revisions()).every(({ r }) => r === 2));
    assert.deepEqual(await revisions(), [
      { id: 'a', r: 2 },
      { id: 'b', r: 2 },
    ]);
    assert.equal((await store.watermarks(source.tenantId)).events, source.end);
    await second.remove(source.tenantId);
    assert.deepEqual(
      [await revisions(), await store.watermarks(source.tenantId)],
      [[], { events: 0, states: 0, changes: 0 }],
    );
  });

  it('tells each state once, and not with every page, where states are told anew, and those of later commits as they come', async (context) => {
    const source = log();
    const told: number[] = [];
    // Pages of 64 KiB.
    const sink = open(context, {
      maxBytes: 3 * 65_536,
      observer: { block: (table, rows) => void (table === 'aggregate_states' && told.push(rows)) },
    });
    const rowsTold = (): number => told.splice(0).reduce((sum, rows) => sum + rows, 0);
    const data = `{"text":"${'x'.repeat(8192)}"}`;
    const appendPages = (ids: readonly string[]): void => {
      for (let i = 0; i < 10; i++) for (const id of ids) source.append(id, [data]);
    };
    const states = (): Promise<{ id: string; n: number; r: number }[]> =>
      rowsOf(
        store,
        `SELECT aggregate_id AS id, state.count::UInt32 AS n, state.revision::UInt32 AS r FROM aggregate_states FINAL WHERE tenant = '${source.tenantId}' ORDER BY id`,
      );
    const pagesRead = (): number => new Set(source.reads.commits.splice(0).filter((from) => from < source.end)).size;
    source.append('old', [data]);
    appendPages(['a', 'b', 'c', 'd']);
    sink.attach(source);
    await sink.flush(source.tenantId, { events: source.end });
    assert.ok(pagesRead() > 4);
    assert.equal(rowsTold(), 5, 'at first');

    const live = async (): Promise<void> => {
      appendPages(['old', 'new']);
      source.announce();
      await sink.flush(source.tenantId, { events: source.end });
      const pages = pagesRead();
      assert.ok(pages > 1);
      assert.equal(rowsTold(), 2 * pages, 'with each page, as it comes');
    };
    await live();

    // Of one of them there is another commit when the first page was read again.
    const aggregateStates = source.aggregateStates.bind(source);
    source.aggregateStates = (...args) => {
      source.aggregateStates = aggregateStates;
      source.append('b', [data]);
      return source.aggregateStates(...args);
    };
    source.revision = 1;
    source.announce();
    await until(
      'the states of the new binding are in',
      async () => (await store.watermarks(source.tenantId)).states === 2 ** 40 + source.end,
    );
    assert.ok(pagesRead() > 6);
    assert.equal(rowsTold(), 6, 'after a binding');
    const newest = [
      { id: 'a', n: 10, r: 1 },
      { id: 'b', n: 11, r: 1 },
      { id: 'c', n: 10, r: 1 },
      { id: 'd', n: 10, r: 1 },
    ];
    assert.deepEqual(await states(), [...newest, { id: 'new', n: 10, r: 1 }, { id: 'old', n: 11, r: 1 }]);

    await live();
    assert.deepEqual(await states(), [...newest, { id: 'new', n: 20, r: 1 }, { id: 'old', n: 21, r: 1 }]);
  });

  it('asks for no state that a catch-up will have, and holds the events up for none', async (context) => {
    const source = log();
    source.append('a', ['{}']);
    source.statesTo = source.end;
    source.append('b', ['{}', '{}']);
    const sink = open(context);
    sink.attach(source);
    await until(
      'the events are in, and nothing is left to be done',
      async () => (await store.watermarks(source.tenantId)).events === source.end && sink.status().behind === 0,
    );
    assert.deepEqual(await statesOf(source.tenantId), [], 'the page ends past the catch-up');
    source.statesTo = Infinity;
    source.announce();
    await sink.flush(source.tenantId, { events: source.end });
    assert.deepEqual(await statesOf(source.tenantId), [
      { id: 'a', n: 1 },
      { id: 'b', n: 2 },
    ]);
  });

  it('drops and fills again one tenant, and takes nothing from another', async (context) => {
    const [one, two] = [log(), log()];
    const sink = open(context);
    for (const source of [one, two]) {
      source.append('a', ['{"n":1}', '{"n":2}']);
      source.change('k', '{}');
      sink.attach(source);
      await sink.flush(source.tenantId, { events: source.end, changes: source.changesEnd });
    }
    for await (const _ of await store.query(
      `INSERT INTO events (tenant, aggregate_id, version) VALUES ('${one.tenantId}', 'stray', 1)`,
      'TSV',
    ));
    await sink.rebuild(one.tenantId);
    await sink.flush(one.tenantId, { events: one.end, changes: one.changesEnd });
    assert.deepEqual(
      (await eventsOf(one.tenantId)).map(({ id, v }) => [id, v]),
      [
        ['a', 1],
        ['a', 2],
      ],
    );
    assert.deepEqual(await statesOf(one.tenantId), [{ id: 'a', n: 2 }]);
    assert.equal((await eventsOf(two.tenantId)).length, 2);
    sink.detach(one.tenantId);
    await assert.rejects(sink.flush(one.tenantId, { events: 1 }), (error) => error instanceof StatefoldError);
  });

  it('tells the states of projections in place of changes that retention has dropped, and goes on behind them', async (context) => {
    const source = log();
    const text = 'x'.repeat(2_000);
    for (const n of [1, 2]) for (let i = 0; i < 200; i++) source.change(`k-${i}`, JSON.stringify({ n, text }));
    const dropped = source.changesEnd;
    source.change('k-7', '{"n":3}');
    source.trimmedTo = dropped;
    const states = (): Promise<object[]> =>
      rowsOf(
        store,
        `SELECT toUInt32(state.n) AS n, toUInt32(count()) AS keys FROM projection_states FINAL WHERE tenant = '${source.tenantId}' GROUP BY n ORDER BY n`,
      );
    const told = (): Promise<object[]> =>
      rowsOf(
        store,
        `SELECT toUInt32(count()) AS n, toUInt32(min(sequence)) AS first FROM notifications FINAL WHERE tenant = '${source.tenantId}'`,
      );
    const sink = open(context, { maxBytes: 3 * 65_536 });
    sink.attach(source);
    await sink.flush(source.tenantId, { changes: source.changesEnd });
    assert.deepEqual(await states(), [
      { n: 2, keys: 199 },
      { n: 3, keys: 1 },
    ]);
    assert.deepEqual(await told(), [{ n: 1, first: dropped }]);
    const { projectionStates: portions } = source.reads;
    assert.ok(portions.length > 3 && Math.max(...portions) < 100, String(portions));

    // What is in the store is not told again for having been dropped since.
    source.change('k-8', '{"n":3}');
    source.trimmedTo = source.changesEnd - 1;
    source.announce();
    await sink.flush(source.tenantId, { changes: source.changesEnd });
    const before = portions.length;
    assert.deepEqual(await told(), [{ n: 2, first: dropped }]);
    await sink.rebuild(source.tenantId);
    await sink.flush(source.tenantId, { changes: source.changesEnd });
    assert.deepEqual(await states(), [
      { n: 2, keys: 198 },
      { n: 3, keys: 2 },
    ]);
    assert.ok(portions.length > before);
  });

  it('takes nothing of a former tenant of the id for what is made again, nor over a restart', async (context) => {
    const former = log();
    former.append('a', ['{"n":1}', '{"n":2}']);
    former.append('b', ['{"n":1}']);
    former.change('k', '{"of":"former"}');
    const first = open(context);
    first.attach(former);
    await first.flush(former.tenantId, { events: former.end, changes: former.changesEnd });
    // It was deleted while the store was away: nobody dropped its rows.
    first.detach(former.tenantId);
    const next = new ListedLog(former.tenantId, 'f00d');
    // Whoever reads rows of the id waits until none of them is the former one's.
    const early = open(context);
    early.attach(next);
    await early.withoutFormer(next.tenantId, 30_000);
    assert.deepEqual([await eventsOf(next.tenantId), await statesOf(next.tenantId)], [[], []]);
    await early.close();
    await assert.rejects(
      early.withoutFormer(next.tenantId, 30_000),
      (error) => error instanceof StatefoldError && error.code === 'UNAVAILABLE',
    );
    next.append('a', ['{"n":7}']);
    for (const sink of [open(context), open(context)]) {
      sink.attach(next);
      await sink.flush(next.tenantId, { events: next.end });
      assert.deepEqual(
        (await eventsOf(next.tenantId)).map(({ id, v }) => [id, v]),
        [...next.commits.keys()].map((i) => ['a', i + 1]),
      );
      assert.deepEqual(await statesOf(next.tenantId), [{ id: 'a', n: next.commits.length }]);
      sink.detach(next.tenantId);
      next.append('a', ['{"n":8}']);
    }
  });
});
