// A rebuild of the read store, on the real engine: a second set of tables is filled from the log and takes the place of the live one.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { before, describe, it } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { ClickHouseConnection, type Statement } from '../../src/read-store/clickhouse/connection.js';
import { ClickHouseSecondTables } from '../../src/read-store/clickhouse/clickhouse-second-tables.js';
import { nameIn, TableDefinitions } from '../../src/read-store/clickhouse/table-definitions.js';
import type { EmbeddedEngine } from '../../src/read-store/embedded/embedded-engine.js';
import { RebuildableSink } from '../../src/read-store/rebuildable-sink.js';
import type { RebuildReach, RebuildStatus } from '../../src/read-store/rebuild.js';
import type { SecondTables } from '../../src/read-store/second-tables.js';
import { openStore, rowsOf, SCHEMAS, readyEngine, suiteCleanUp, until, type CleanUp } from './read-store-fixture.js';
import { ListedLog } from './sink-fixture.js';

/** Small blocks: a rebuild takes many rounds. */
const MAX_BYTES = 3 * 65_536;
const DATA = `{"text":"${'x'.repeat(400)}"}`;
const POLL_MS = 20;
const SECOND_EVENTS = nameIn('second', 'events');
/** Of the live set. */
const TABLES = 5;

describe('a rebuild beside the live tables', () => {
  const cleanUp = suiteCleanUp();
  let engine: EmbeddedEngine;

  before(async () => {
    engine = await readyEngine(cleanUp);
  });

  /** Of the catalog. */
  const tenants = new Map<string, string | undefined>();

  /** A database of its own for each test: a rebuild is of all tenants. */
  const open = (context: CleanUp) => {
    const database = `d${randomUUID().replaceAll('-', '')}`;
    let isAway = false;
    const endpoint = () => {
      const known = engine.endpoint();
      return known && !isAway ? { ...known, database } : undefined;
    };
    const store = openStore(context, engine, { endpoint });
    const rows = <T>(sql: string): Promise<T[]> => rowsOf<T>(store, sql);
    const exec = async (sql: string): Promise<void> => {
      for await (const _ of await store.query(sql, 'Null'));
    };
    class Connection extends ClickHouseConnection {
      /** It is not done, and whoever asked is gone, as with a killed process; the text is looked for in statements. */
      dieAt: { readonly text: string; left: number; readonly isDone: boolean } | undefined;
      isDead = false;
      /** Statements with the text fail, as for a user without the right. */
      refused: string | undefined;
      /** Statements with the text take until nobody wants them any more. */
      endless: string | undefined;
      isHeld = false;

      override async run(what: string, statement: Statement, deadlineMs?: number): Promise<unknown> {
        if (this.isDead) return new Promise(() => undefined);
        if (this.refused !== undefined && statement.query.includes(this.refused)) throw new Error('not allowed');
        if (this.endless !== undefined && statement.query.includes(this.endless)) {
          const { signal } = statement;
          assert.ok(signal);
          this.isHeld = true;
          await once(signal, 'abort');
          throw new Error('given up');
        }
        const at = this.dieAt;
        const isIt = at !== undefined && statement.query.includes(at.text) && --at.left === 0;
        if (isIt && !at.isDone) return this.#die();
        const done = await super.run(what, statement, deadlineMs);
        return isIt ? this.#die() : done;
      }

      #die(): Promise<never> {
        this.isDead = true;
        return new Promise(() => undefined);
      }
    }
    const definitions = new TableDefinitions({ directory: SCHEMAS });
    const process = (reach?: Partial<RebuildReach>) => {
      const connection = new Connection({ endpoint, deadlineMs: 30_000 });
      context.after(() => connection.close());
      const tables: SecondTables = new ClickHouseSecondTables({ connection, definitions });
      const secondStore = openStore(context, engine, { endpoint, set: 'second' });
      const second = { tables, store: secondStore };
      const sink = new RebuildableSink({
        ...{ store, second, logger: silentLogger, delayMs: 10, maxBytes: MAX_BYTES, pollMs: POLL_MS },
      });
      sink.start({
        tenants: () => tenants,
        ...{ caughtUp: () => Promise.resolve(), isWrittenHere: () => true, open: () => Promise.resolve(false) },
        ...reach,
      });
      return { sink, connection, tables, secondStore };
    };
    const names = async (): Promise<string[]> =>
      (
        await rows<{ name: string }>('SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name')
      ).map(({ name }) => name);
    return { rows, exec, process, names, endpoint, away: (whether: boolean) => void (isAway = whether) };
  };
  type Opened = ReturnType<typeof open>;

  const log = (commits: number): ListedLog => {
    const one = new ListedLog(`t-${randomUUID()}`);
    tenants.set(one.tenantId, one.incarnation);
    grow(one, commits);
    return one;
  };
  const grow = (one: ListedLog, commits: number): void => {
    for (let i = 0; i < commits; i++) {
      one.append(`a-${i % 50}`, [DATA]);
      one.change(`k-${i % 20}`, '{"n":1}');
    }
    one.announce();
  };
  /** Has the live tables take all of the logs. */
  const written = async (sink: RebuildableSink, ...logs: readonly ListedLog[]): Promise<void> => {
    for (const each of logs) {
      sink.attach(each);
      await sink.flush(each.tenantId, all(each));
    }
  };
  /** The process is gone in the middle of a rebuild that it begins, or of other work. */
  const dies = async (
    { sink, connection }: ReturnType<Opened['process']>,
    at: { readonly text: string; readonly left: number; readonly isDone: boolean },
    logs: readonly ListedLog[],
    work = () => sink.rebuild(),
  ): Promise<void> => {
    connection.dieAt = { ...at };
    void work();
    await until('it is gone', () => connection.isDead);
    for (const { tenantId } of logs) sink.detach(tenantId);
  };
  const isThrough = (sink: RebuildableSink): Promise<void> =>
    until('the rebuild is through', () => sink.rebuildStatus()?.state === 'done');
  const all = (one: ListedLog): { events: number; changes: number } => ({ events: one.end, changes: one.changesEnd });
  const tenantsWithRows = async (opened: Opened): Promise<string[]> => {
    const tables = ['events', 'aggregate_states', 'projection_states', 'notifications', 'watermarks'];
    const of = tables.map((table) => `SELECT tenant FROM ${table}`).join(' UNION ALL ');
    return (await opened.rows<{ tenant: string }>(`SELECT DISTINCT tenant FROM (${of})`)).map(({ tenant }) => tenant);
  };
  const stray = (opened: Opened, tenant: string): Promise<void> =>
    opened.exec(`INSERT INTO events (tenant, aggregate_id, version) VALUES ('${tenant}', 'stray', 1)`);

  const COUNTS = `SELECT toUInt32((SELECT countIf(aggregate_id != 'stray') FROM events)) AS events, toUInt32((SELECT count() FROM aggregate_states FINAL)) AS aggregate_states, toUInt32((SELECT count() FROM projection_states FINAL)) AS projection_states, toUInt32((SELECT count() FROM notifications FINAL)) AS notifications, toUInt64((SELECT sum(o) FROM (SELECT max(log_offset) AS o FROM watermarks GROUP BY tenant, stream))) AS watermarks`;
  type Counts = Record<'events' | 'aggregate_states' | 'projection_states' | 'notifications' | 'watermarks', number>;

  /** Asks all the time, until it is ended. */
  const analyst = ({ rows }: Opened, state: () => string | undefined) => {
    const seen: { readonly state: string; readonly counts: Counts }[] = [];
    let isEnded = false;
    const asking = (async () => {
      while (!isEnded) {
        const now = state() ?? 'none';
        const [counts] = await rows<Counts>(COUNTS);
        assert.ok(counts);
        seen.push({ state: now, counts });
      }
    })();
    return {
      end: async (): Promise<typeof seen> => {
        isEnded = true;
        await asking;
        return seen;
      },
    };
  };
  const neverLess = (seen: readonly { readonly counts: Counts }[]): void => {
    for (const [i, { counts }] of seen.entries())
      for (const [what, count] of Object.entries(counts))
        assert.ok(
          Number(count) >= Number(seen[Math.max(0, i - 1)]?.counts[what as keyof Counts]),
          `${what} at ${i} of ${seen.length}: ${JSON.stringify(seen.slice(Math.max(0, i - 2), i + 1))}`,
        );
  };

  it('never shows fewer rows than before, while events come on, and shows none that the log has not', async (context) => {
    const opened = open(context);
    const one = log(1500);
    const { sink, tables } = opened.process();
    context.after(() => sink.close());
    await written(sink, one);
    await stray(opened, one.tenantId);
    const [former] = await opened.rows<{ uuid: string }>(
      "SELECT toString(uuid) AS uuid FROM system.tables WHERE database = currentDatabase() AND name = 'events'",
    );
    const asking = analyst(opened, () => sink.rebuildStatus()?.state);
    const drop = tables.drop.bind(tables);
    let atTheEnd: RebuildStatus | undefined;
    // Before the live sink has asked where it stands in its new tables.
    tables.drop = () => {
      if (sink.rebuildStatus()?.state === 'done') atTheEnd = sink.rebuildStatus();
      return drop();
    };
    await sink.rebuild();
    for (let i = 0; i < 20; i++) {
      grow(one, 5);
      await sink.flush(one.tenantId, all(one));
    }
    await isThrough(sink);
    grow(one, 5);
    await sink.flush(one.tenantId, all(one));
    const seen = await asking.end();
    neverLess(seen);
    assert.ok(seen.filter(({ state }) => state === 'filling').length > 1, 'nobody asked meanwhile');
    assert.deepEqual(
      await opened.rows(`SELECT toUInt32(count()) AS n, toUInt32(uniqExact(event_id)) AS ids FROM events FINAL`),
      [{ n: one.commits.length, ids: one.commits.length }],
    );
    const [live] = await opened.rows<{ uuid: string }>(
      "SELECT toString(uuid) AS uuid FROM system.tables WHERE database = currentDatabase() AND name = 'events'",
    );
    assert.notEqual(live?.uuid, former?.uuid);
    await until('the former tables are gone', async () => (await opened.names()).length === TABLES);
    assert.equal(await tables.find(), undefined);
    const { since, endedAt, position, of } = sink.rebuildStatus() ?? {};
    assert.ok(since !== undefined && endedAt !== undefined && since <= endedAt);
    assert.equal(position, of);
    assert.ok(atTheEnd !== undefined && atTheEnd.of > 0 && atTheEnd.position === atTheEnd.of);

    // Once more, over tables that were a second set themselves.
    await stray(opened, one.tenantId);
    await sink.rebuild();
    await until('the next one is through', () => (sink.rebuildStatus()?.endedAt ?? '') > endedAt);
    assert.deepEqual(await opened.rows(`SELECT toUInt32(count()) AS n FROM events FINAL`), [{ n: one.commits.length }]);
  });

  it('of one tenant writes its rows anew, and keeps those of all others as they are', async (context) => {
    const opened = open(context);
    const [one, two, closed] = [log(300), log(300), log(50)];
    const reads = two.reads.commits;
    const { sink } = opened.process({
      tenants: () => new Map([one, two, closed].map(({ tenantId }) => [tenantId, undefined])),
    });
    context.after(() => sink.close());
    await written(sink, one, two, closed);
    sink.detach(closed.tenantId);
    for (const { tenantId } of [one, two, closed]) await stray(opened, tenantId);
    reads.length = 0;
    await sink.rebuild(one.tenantId);
    assert.deepEqual(sink.rebuildStatus()?.tenantIds, [one.tenantId]);
    grow(two, 10);
    await isThrough(sink);
    await sink.flush(two.tenantId, all(two));
    const counted = await opened.rows<{ tenant: string; n: number; strays: number }>(
      "SELECT tenant, toUInt32(count()) AS n, toUInt32(countIf(aggregate_id = 'stray')) AS strays FROM events GROUP BY tenant",
    );
    assert.deepEqual(
      new Map(counted.map(({ tenant, n, strays }) => [tenant, [n, strays]])),
      new Map([
        [one.tenantId, [300, 0]],
        [two.tenantId, [311, 1]],
        [closed.tenantId, [51, 1]],
      ]),
    );
    assert.ok(!reads.includes(0), 'what others have is not read from the log again');
  });

  it('keeps the rows of a tenant that can not be opened, opens others, and leaves out those that are no more', async (context) => {
    const opened = open(context);
    const [active, idle, suspended, deleted] = [log(100), log(100), log(100), log(100)];
    const { sink } = opened.process({
      tenants: () => new Map([active, idle, suspended].map(({ tenantId }) => [tenantId, undefined])),
      open: (tenantId) => {
        if (tenantId !== idle.tenantId) return Promise.resolve(false);
        sink.attach(idle);
        return Promise.resolve(true);
      },
    });
    context.after(() => sink.close());
    for (const each of [active, idle, suspended, deleted]) {
      await written(sink, each);
      if (each !== active) sink.detach(each.tenantId);
      await stray(opened, each.tenantId);
    }
    const asking = analyst(opened, () => sink.rebuildStatus()?.state);
    await sink.rebuild();
    await isThrough(sink);
    await asking.end();
    const counted = await opened.rows<{ tenant: string; n: number }>(
      'SELECT tenant, toUInt32(count()) AS n FROM events GROUP BY tenant',
    );
    assert.deepEqual(
      new Map(counted.map(({ tenant, n }) => [tenant, n])),
      new Map([
        [active.tenantId, 100],
        [idle.tenantId, 100],
        [suspended.tenantId, 101],
      ]),
    );
    // It goes on from where it was.
    grow(suspended, 5);
    await written(sink, suspended);
    assert.deepEqual(
      await opened.rows(`SELECT toUInt32(count()) AS n FROM events WHERE tenant = '${suspended.tenantId}'`),
      [{ n: 106 }],
    );
  });

  it('takes what is deleted meanwhile out of both sets, and fills what more is asked for', async (context) => {
    const opened = open(context);
    const [one, two, gone] = [log(800), log(200), log(200)];
    const { sink } = opened.process();
    context.after(() => sink.close());
    await written(sink, one, two, gone);
    for (const { tenantId } of [one, two]) await stray(opened, tenantId);
    await sink.rebuild(one.tenantId);
    await sink.rebuild(two.tenantId);
    assert.deepEqual(sink.rebuildStatus()?.tenantIds, [one.tenantId, two.tenantId]);
    tenants.delete(gone.tenantId);
    await sink.remove(gone.tenantId);
    await isThrough(sink);
    const counted = await opened.rows<{ tenant: string; n: number }>(
      'SELECT tenant, toUInt32(count()) AS n FROM events FINAL GROUP BY tenant',
    );
    assert.deepEqual(
      new Map(counted.map(({ tenant, n }) => [tenant, n])),
      new Map([
        [one.tenantId, 800],
        [two.tenantId, 200],
      ]),
    );
  });

  it('begins again when somebody drops a table that it fills', async (context) => {
    const opened = open(context);
    const one = log(800);
    const { sink } = opened.process();
    context.after(() => sink.close());
    await written(sink, one);
    await stray(opened, one.tenantId);
    await sink.rebuild();
    await until(
      'rows are in it',
      async () =>
        (await opened.rows<{ n: number }>('SELECT toUInt32(count()) AS n FROM events__rebuild').catch(() => []))[0]
          ?.n !== 0,
    );
    await opened.exec('DROP TABLE aggregate_states__rebuild SYNC');
    await isThrough(sink);
    assert.deepEqual(
      await opened.rows(
        'SELECT toUInt32(count()) AS n, toUInt32((SELECT count() FROM aggregate_states FINAL)) AS states FROM events FINAL',
      ),
      [{ n: 800, states: 50 }],
    );
  });

  it('goes on from where it was when the engine was killed', async (context) => {
    const opened = open(context);
    const one = log(1500);
    const { sink } = opened.process();
    context.after(() => sink.close());
    await written(sink, one);
    await stray(opened, one.tenantId);
    await sink.rebuild();
    await until('some of it is there', () => (sink.rebuildStatus()?.position ?? 0) > 0);
    assert.equal(sink.rebuildStatus()?.state, 'filling');
    one.reads.commits.length = 0;
    assert.ok(engine.pid);
    process.kill(engine.pid, 'SIGKILL');
    await isThrough(sink);
    assert.ok(!one.reads.commits.includes(0), 'it began again');
    assert.deepEqual(
      await opened.rows(
        "SELECT toUInt32(count()) AS n, toUInt32(countIf(aggregate_id = 'stray')) AS strays FROM events FINAL",
      ),
      [{ n: 1500, strays: 0 }],
    );
  });

  it('writes the live tables on while the exchange is refused, and tells so', async (context) => {
    const opened = open(context);
    const one = log(200);
    const { sink, connection, tables } = opened.process();
    context.after(() => sink.close());
    await written(sink, one);
    await stray(opened, one.tenantId);
    connection.refused = 'EXCHANGE';
    await sink.rebuild();
    await until('it stands still', () => sink.rebuildStatus()?.failure === 'not allowed');
    grow(one, 10);
    await sink.flush(one.tenantId, all(one));
    const counted =
      "SELECT toUInt32(count()) AS n, toUInt32(countIf(aggregate_id = 'stray')) AS strays FROM events FINAL";
    assert.deepEqual(await opened.rows(counted), [{ n: 211, strays: 1 }]);
    assert.equal((await tables.find())?.phase, 'filling');
    connection.refused = undefined;
    await isThrough(sink);
    assert.equal(sink.rebuildStatus()?.failure, undefined);
    await sink.flush(one.tenantId, all(one));
    assert.deepEqual(await opened.rows(counted), [{ n: 210, strays: 0 }]);
  });

  const STRAYS = "SELECT toUInt32(count()) AS n, toUInt32(countIf(aggregate_id = 'stray')) AS strays FROM events FINAL";
  /** Begins a rebuild that fills, and is through no sooner than `goOn`. */
  const begun = async ({ sink, tables }: ReturnType<Opened['process']>): Promise<{ goOn: () => void }> => {
    const lagging = tables.lagging.bind(tables);
    tables.lagging = () => Promise.reject(new Error('too busy'));
    await sink.rebuild();
    await until('some of it is there', () => (sink.rebuildStatus()?.position ?? 0) > 0);
    assert.equal(sink.rebuildStatus()?.state, 'filling');
    return { goOn: () => void (tables.lagging = lagging) };
  };

  it('is cancelled while it fills: the tables stay as they are, no start goes on with it, and the next one is through', async (context) => {
    const opened = open(context);
    const one = log(1500);
    const former = opened.process();
    const { sink, tables } = former;
    await written(sink, one);
    await stray(opened, one.tenantId);
    const asking = analyst(opened, () => sink.rebuildStatus()?.state);
    await begun(former);
    await sink.cancelRebuild();
    const { state, endedAt, position = 0, of = 0, failure } = sink.rebuildStatus() ?? {};
    assert.equal(state, 'cancelled');
    assert.ok(endedAt !== undefined && failure === undefined);
    assert.ok(position > 0 && position <= of, `${position} of ${of}`);
    assert.equal((await opened.names()).length, TABLES);
    assert.equal(await tables.find(), undefined);
    grow(one, 10);
    await sink.flush(one.tenantId, all(one));
    assert.deepEqual(await opened.rows(STRAYS), [{ n: 1511, strays: 1 }]);
    const seen = await asking.end();
    neverLess(seen);
    assert.ok(seen.some((at) => at.state === 'filling') && seen.some((at) => at.state === 'cancelled'));
    // Whose answer was lost asks again.
    await sink.cancelRebuild();
    assert.equal(sink.rebuildStatus()?.state, 'cancelled');
    await sink.close();

    const next = opened.process();
    context.after(() => next.sink.close());
    await next.sink.ready();
    assert.equal(next.sink.rebuildStatus(), undefined);
    await assert.rejects(next.sink.cancelRebuild(), { code: 'NO_REBUILD' });
    next.sink.attach(one);
    await next.sink.rebuild();
    await isThrough(next.sink);
    await assert.rejects(next.sink.cancelRebuild(), { code: 'NO_REBUILD' });
    await next.sink.flush(one.tenantId, all(one));
    assert.deepEqual(await opened.rows(STRAYS), [{ n: 1510, strays: 0 }]);
  });

  it('that is asked for while one is cancelled is another one', async (context) => {
    const opened = open(context);
    const one = log(800);
    const former = opened.process();
    const { sink } = former;
    context.after(() => sink.close());
    await written(sink, one);
    await stray(opened, one.tenantId);
    const { goOn } = await begun(former);
    const cancelled = sink.cancelRebuild();
    const asked = sink.rebuild(one.tenantId);
    goOn();
    await Promise.all([cancelled, asked]);
    await isThrough(sink);
    assert.deepEqual(sink.rebuildStatus()?.tenantIds, [one.tenantId]);
    await sink.flush(one.tenantId, all(one));
    assert.deepEqual(await opened.rows(STRAYS), [{ n: 800, strays: 0 }]);
    await until('the former tables are gone', async () => (await opened.names()).length === TABLES);
  });

  it('that is about to begin is cancelled, whatever became of the last one', async (context) => {
    const opened = open(context);
    const one = log(200);
    const former = opened.process();
    const { sink } = former;
    context.after(() => sink.close());
    await written(sink, one);
    await stray(opened, one.tenantId);
    await begun(former);
    await sink.cancelRebuild();
    const asked = sink.rebuild();
    await sink.cancelRebuild();
    await asked;
    assert.equal(sink.rebuildStatus()?.state, 'cancelled');
    assert.equal((await opened.names()).length, TABLES);
    assert.deepEqual(await opened.rows(STRAYS), [{ n: 201, strays: 1 }]);
  });

  it('is cancelled in the middle of a long copy of what others have', async (context) => {
    const opened = open(context);
    const [one, other] = [log(100), log(100)];
    const { sink, connection } = opened.process();
    context.after(() => sink.close());
    await written(sink, one, other);
    connection.endless = 'SELECT';
    await sink.rebuild(one.tenantId);
    await until('it copies', () => connection.isHeld);
    connection.endless = undefined;
    await sink.cancelRebuild();
    assert.equal(sink.rebuildStatus()?.failure, undefined);
    assert.equal((await opened.names()).length, TABLES);
    grow(other, 10);
    await sink.flush(other.tenantId, all(other));
  });

  it('is cancelled while the live tables wait for it, which they then do no longer', async (context) => {
    const opened = open(context);
    const one = log(200);
    const { sink, tables, secondStore } = opened.process();
    context.after(() => sink.close());
    await written(sink, one);
    const lagging = tables.lagging.bind(tables);
    let isEven = false;
    // Past the last look, just before the live tables are held, they get what the second set is not given.
    tables.lagging = async () => {
      const found = await lagging();
      secondStore.insert = () => Promise.reject(new Error('too many parts'));
      grow(one, 10);
      await sink.flush(one.tenantId, all(one));
      isEven = true;
      return found;
    };
    await sink.rebuild();
    await until('they are held', () => isEven);
    grow(one, 10);
    let isCancelled = false;
    const cancelled = sink.cancelRebuild().then(() => (isCancelled = true));
    await until('it is cancelled', () => isCancelled, 5_000);
    await cancelled;
    await sink.flush(one.tenantId, all(one), 5_000);
    assert.equal((await opened.names()).length, TABLES);
  });

  it('is not cancelled while the tables are exchanged, and comes to its end', async (context) => {
    const opened = open(context);
    const one = log(200);
    const { sink, connection } = opened.process();
    context.after(() => sink.close());
    await written(sink, one);
    await stray(opened, one.tenantId);
    connection.refused = 'EXCHANGE TABLES aggregate_states';
    await sink.rebuild();
    await until('it stands still', () => sink.rebuildStatus()?.failure === 'not allowed');
    await assert.rejects(sink.cancelRebuild(), {
      code: 'REBUILD_NOT_CANCELLABLE',
      message: /wait until it is through/,
    });
    assert.equal(sink.rebuildStatus()?.state, 'swapping');
    connection.refused = undefined;
    await isThrough(sink);
    await sink.flush(one.tenantId, all(one));
    assert.deepEqual(await opened.rows(STRAYS), [{ n: 200, strays: 0 }]);
  });

  it('is cancelled where the first exchange is refused', async (context) => {
    const opened = open(context);
    const one = log(200);
    const { sink, connection } = opened.process();
    context.after(() => sink.close());
    await written(sink, one);
    await stray(opened, one.tenantId);
    connection.refused = 'EXCHANGE';
    await sink.rebuild();
    await until('it stands still', () => sink.rebuildStatus()?.failure === 'not allowed');
    await until('it waits to try again', () => sink.rebuildStatus()?.state === 'filling');
    await sink.cancelRebuild();
    assert.equal(sink.rebuildStatus()?.failure, undefined);
    assert.equal((await opened.names()).length, TABLES);
    assert.deepEqual(await opened.rows(STRAYS), [{ n: 201, strays: 1 }]);
  });

  it('is cancelled when the store is back, where it is away when that is asked', async (context) => {
    const opened = open(context);
    const one = log(1500);
    const former = opened.process();
    const { sink } = former;
    context.after(() => sink.close());
    await written(sink, one);
    await begun(former);
    opened.away(true);
    await assert.rejects(sink.cancelRebuild(), { code: 'UNAVAILABLE' });
    await until('it says so', () => sink.rebuildStatus()?.failure !== undefined);
    opened.away(false);
    await until('what it filled is gone', async () => (await opened.names()).length === TABLES);
    await until('that is told', () => sink.rebuildStatus()?.failure === undefined);
    await sink.cancelRebuild();
    assert.equal(sink.rebuildStatus()?.state, 'cancelled');
  });

  it('is not cancelled where rows are dropped and filled in their place', async (context) => {
    const opened = open(context);
    const one = log(20);
    const sink = new RebuildableSink({
      store: openStore(context, engine, { endpoint: opened.endpoint }),
      logger: silentLogger,
      delayMs: 10,
    });
    context.after(() => sink.close());
    await written(sink, one);
    await sink.rebuild();
    await assert.rejects(sink.cancelRebuild(), { code: 'REBUILD_NOT_CANCELLABLE', message: /in their place/ });
    await sink.flush(one.tenantId, all(one));
    assert.deepEqual(await opened.rows(STRAYS), [{ n: 20, strays: 0 }]);
  });

  for (const death of [
    { left: 1, isDone: false, told: 'done', strays: 0 },
    { left: 1, isDone: true, told: undefined, strays: 1 },
    { left: 3, isDone: true, told: undefined, strays: 1 },
  ] as const)
    it(`leaves no half when the process is gone at DROP TABLE ${death.left} of a cancel, ${death.isDone ? 'done' : 'not done'}`, async (context) => {
      const opened = open(context);
      const one = log(800);
      const former = opened.process();
      await written(former.sink, one);
      await stray(opened, one.tenantId);
      await begun(former);
      await dies(former, { text: 'DROP TABLE', ...death }, [one], () => former.sink.cancelRebuild());
      const next = opened.process();
      context.after(() => next.sink.close());
      next.sink.attach(one);
      await next.sink.ready();
      await until(
        'it is through, or gone',
        async () => next.sink.rebuildStatus()?.state === death.told && (await opened.names()).length === TABLES,
      );
      await next.sink.flush(one.tenantId, all(one));
      assert.deepEqual(await opened.rows(STRAYS), [{ n: 800 + death.strays, strays: death.strays }]);
    });

  /** `told`: what the next process says of it. Before the tables are there nobody was told that it began, past the last exchange it is through. */
  const DEATHS = [
    { text: 'CREATE TABLE', left: 2, isDone: true, told: undefined, strays: 1 },
    { text: 'MODIFY COMMENT', left: 1, isDone: false, told: 'done', strays: 0 },
    { text: 'MODIFY COMMENT', left: 1, isDone: true, told: 'done', strays: 0 },
    { text: 'MODIFY COMMENT', left: 2, isDone: true, told: 'done', strays: 0 },
    { text: 'EXCHANGE', left: 1, isDone: true, told: 'done', strays: 0 },
    { text: 'EXCHANGE', left: 3, isDone: false, told: 'done', strays: 0 },
    { text: 'EXCHANGE', left: 5, isDone: true, told: undefined, strays: 0 },
    { text: 'DROP TABLE', left: 1, isDone: true, told: undefined, strays: 0 },
  ] as const;
  for (const death of DEATHS)
    it(`goes on after the process was gone at ${death.text} ${death.left}, ${death.isDone ? 'done' : 'not done'}`, async (context) => {
      const opened = open(context);
      const one = log(300);
      const former = opened.process();
      await written(former.sink, one);
      await stray(opened, one.tenantId);
      await dies(former, death, [one]);
      const asking = analyst(opened, () => undefined);
      grow(one, 10);
      const next = opened.process();
      context.after(() => next.sink.close());
      await written(next.sink, one);
      await until(
        'it is through',
        async () => next.sink.rebuildStatus()?.state === death.told && (await opened.names()).length === TABLES,
      );
      const seen = await asking.end();
      assert.ok(seen.length > 0);
      neverLess(seen);
      assert.deepEqual(
        await opened.rows(
          "SELECT toUInt32(count()) AS n, toUInt32(countIf(aggregate_id = 'stray')) AS strays FROM events FINAL",
        ),
        [{ n: 310 + death.strays, strays: death.strays }],
      );
    });

  it('takes the rows of tenants out that were deleted while the engine was away, and of others none', async (context) => {
    const opened = open(context);
    const [one, two, gone] = [log(20), log(20), log(20)];
    const { sink } = opened.process();
    await written(sink, one, two, gone);
    opened.away(true);
    tenants.delete(gone.tenantId);
    await assert.rejects(sink.remove(gone.tenantId));
    opened.away(false);
    await until('they are gone', async () => (await tenantsWithRows(opened)).length === 2);

    // Nobody was there to remove them, and the id has another tenant.
    await sink.close();
    tenants.set(two.tenantId, 'f00d');
    const next = opened.process();
    context.after(() => next.sink.close());
    await until('those of the former tenant are gone', async () => (await tenantsWithRows(opened)).length === 1);
    await written(next.sink, one);
    assert.deepEqual(await opened.rows('SELECT toUInt32(count()) AS n FROM events FINAL'), [{ n: 20 }]);
  });

  it('leaves rows that another process removes, and looks again until it has', async (context) => {
    const opened = open(context);
    const gone = log(20);
    const former = opened.process();
    await written(former.sink, gone);
    await former.sink.close();
    tenants.delete(gone.tenantId);
    let isOwner = false;
    let asked = 0;
    const isWrittenHere = (): boolean => (asked++, isOwner);
    const { sink } = opened.process({ isWrittenHere });
    context.after(() => sink.close());
    await until('it has looked twice', () => asked > 1);
    assert.deepEqual(await tenantsWithRows(opened), [gone.tenantId]);
    isOwner = true;
    await until('they are gone', async () => (await tenantsWithRows(opened)).length === 0);
  });

  for (const death of [
    { text: 'MODIFY COMMENT', left: 1, isDone: true },
    { text: 'EXCHANGE', left: 3, isDone: false },
  ])
    it(`has no rows of a tenant that is deleted as soon as the process is there again, gone at ${death.text}`, async (context) => {
      const opened = open(context);
      const [one, gone] = [log(300), log(100)];
      const former = opened.process();
      await written(former.sink, one, gone);
      await dies(former, death, [one, gone]);
      if (death.text === 'MODIFY COMMENT')
        await opened.exec(
          `INSERT INTO ${SECOND_EVENTS} (tenant, aggregate_id, version) VALUES ('${gone.tenantId}', 'a', 1)`,
        );
      const next = opened.process();
      context.after(() => next.sink.close());
      next.sink.attach(one);
      tenants.delete(gone.tenantId);
      await next.sink.remove(gone.tenantId);
      await isThrough(next.sink);
      await next.sink.flush(one.tenantId, all(one));
      assert.deepEqual(await tenantsWithRows(opened), [one.tenantId]);
    });

  it('makes tables anew that a process of an earlier version has filled', async (context) => {
    const opened = open(context);
    const one = log(300);
    const former = opened.process();
    await written(former.sink, one);
    await dies(former, { text: 'MODIFY COMMENT', left: 1, isDone: true }, [one]);
    await opened.exec(`ALTER TABLE ${SECOND_EVENTS} DROP COLUMN correlation_id`);
    const next = opened.process();
    context.after(() => next.sink.close());
    next.sink.attach(one);
    await isThrough(next.sink);
    await next.sink.flush(one.tenantId, all(one));
    assert.deepEqual(await opened.rows("SELECT toUInt32(countIf(correlation_id = '')) AS n FROM events FINAL"), [
      { n: 300 },
    ]);
  });

  it('goes on when somebody drops the watermarks, and tells why it stood still', async (context) => {
    const opened = open(context);
    const one = log(300);
    const { sink, connection } = opened.process();
    context.after(() => sink.close());
    await written(sink, one);
    connection.refused = 'EXCHANGE';
    await sink.rebuild();
    await until('it stands still', () => sink.rebuildStatus()?.failure !== undefined);
    await opened.exec('DROP TABLE watermarks SYNC');
    connection.refused = undefined;
    await isThrough(sink);
    assert.equal(sink.rebuildStatus()?.failure, undefined);
    await sink.flush(one.tenantId, all(one));
    assert.deepEqual(await opened.rows('SELECT toUInt32(count()) AS n FROM events FINAL'), [{ n: 300 }]);
  });

  it('renames tables in a database that can not exchange them, also after a kill between two names', async (context) => {
    const opened = open(context);
    const endpoint = opened.endpoint();
    assert.ok(endpoint);
    const made = await fetch(`${endpoint.url}/?allow_deprecated_database_ordinary=1`, {
      method: 'POST',
      body: `CREATE DATABASE ${endpoint.database} ENGINE = Ordinary`,
      headers: { 'X-ClickHouse-User': endpoint.user, 'X-ClickHouse-Key': endpoint.password },
    });
    assert.equal(made.status, 200, await made.text());
    const one = log(300);
    const former = opened.process();
    await written(former.sink, one);
    await stray(opened, one.tenantId);
    await former.sink.rebuild();
    await isThrough(former.sink);
    const counted =
      "SELECT toUInt32(count()) AS n, toUInt32(countIf(aggregate_id = 'stray')) AS strays FROM events FINAL";
    assert.deepEqual(await opened.rows(counted), [{ n: 300, strays: 0 }]);
    await until('the former tables are gone', async () => (await opened.names()).length === TABLES);

    await stray(opened, one.tenantId);
    await dies(former, { text: 'RENAME TABLE aggregate_states', left: 1, isDone: true }, [one]);
    await opened.exec('RENAME TABLE projection_states TO projection_states__former');
    const next = opened.process();
    context.after(() => next.sink.close());
    await isThrough(next.sink);
    assert.deepEqual(await opened.rows(counted), [{ n: 300, strays: 0 }]);
    assert.deepEqual(await opened.rows('SELECT toUInt32(count()) AS n FROM projection_states FINAL'), [{ n: 20 }]);
    assert.equal((await opened.names()).length, TABLES);
  });
});
