import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import type { ClickHouseReadStore } from '../../src/read-store/clickhouse/clickhouse-read-store.js';
import { Sink } from '../../src/read-store/sink.js';
import { openStore, rowsOf, startEngine, temporaryDirectory, until } from './read-store-fixture.js';
import { ListedLog } from './sink-fixture.js';

interface Totals {
  readonly n: number;
  readonly keys: number;
  readonly sum: number;
}
const totalsOf = async (store: ClickHouseReadStore, tenant: string): Promise<Totals | undefined> =>
  (
    await rowsOf<Totals>(
      store,
      `SELECT count()::UInt32 AS n, uniqExact(aggregate_id, version)::UInt32 AS keys, sum(data.n::UInt32)::UInt32 AS sum FROM events FINAL WHERE tenant = '${tenant}'`,
    )
  )[0];

describe('faults between the sink and its engine', { concurrency: false }, () => {
  it('kill -9 of the engine in mid-insert, again and again: no row is lost or doubled', async (context) => {
    const engine = startEngine(context, { directory: temporaryDirectory(context) });
    await engine.ready(60_000);
    const store = openStore(context, engine, { deadlineMs: 10_000 });
    const source = new ListedLog('t');
    let blocks = 0;
    const sink = new Sink({
      store,
      logger: silentLogger,
      delayMs: 5,
      maxBytes: 512 * 1024,
      backOffMs: { first: 20, last: 200 },
      observer: { block: () => void blocks++ },
    });
    context.after(() => sink.close());
    sink.attach(source);
    const PER_ROUND = 4_000;
    let total = 0;
    for (let round = 0; round < 4; round++) {
      for (let i = 0; i < PER_ROUND / 10; i++)
        source.append(
          `a-${i % 50}`,
          Array.from({ length: 10 }, () => `{"n":${++total}}`),
        );
      const begun = blocks;
      source.announce();
      await until('blocks are being written', () => blocks > begun);
      const { pid } = engine;
      assert.ok(pid !== undefined);
      process.kill(pid, 'SIGKILL');
      await until(
        'another engine took over',
        () => engine.pid !== undefined && engine.pid !== pid && engine.state === 'READY',
        60_000,
      );
    }
    await sink.flush('t', { events: source.end }, 60_000);
    assert.deepEqual(await totalsOf(store, 't'), { n: total, keys: total, sum: (total * (total + 1)) / 2 });
    assert.deepEqual(
      await rowsOf(
        store,
        "SELECT sum(state.count::UInt32)::UInt32 AS n FROM aggregate_states FINAL WHERE tenant = 't'",
      ),
      [{ n: total }],
    );
  });

  it('SIGSTOP of the engine: calls end at their deadline, the engine is replaced, the sink catches up', async (context) => {
    const seen: boolean[] = [];
    // The engine gives way to everything else: on a busy machine it needs seconds for what takes it some milliseconds.
    const engine = startEngine(context, { pingIntervalMs: 200, pingDeadlineMs: 6_000 });
    await engine.ready(60_000);
    const store = openStore(context, engine, { deadlineMs: 5_000 });
    const source = new ListedLog('t');
    const sink = new Sink({
      store,
      logger: silentLogger,
      delayMs: 5,
      backOffMs: { first: 20, last: 200 },
      observer: { storeAvailable: (available) => void seen.push(available) },
    });
    context.after(() => sink.close());
    source.append('a', ['{"n":1}']);
    sink.attach(source);
    await sink.flush('t', { events: source.end });
    const { pid } = engine;
    assert.ok(pid !== undefined);
    process.kill(pid, 'SIGSTOP');
    source.append('a', ['{"n":2}']);
    source.announce();
    await until('the sink notices', () => seen.includes(false));
    assert.equal(sink.status().storeAvailable, false);
    await sink.flush('t', { events: source.end }, 60_000);
    assert.deepEqual(seen, [true, false, true]);
    assert.notEqual(engine.pid, pid);
    assert.deepEqual(await totalsOf(store, 't'), { n: 2, keys: 2, sum: 3 });
  });

  it('an engine that is away from the start: the sink attaches, waits in bounded memory, and fills it when it comes', async (context) => {
    const directory = temporaryDirectory(context);
    const first = startEngine(context, { directory });
    await first.ready(60_000);
    // One data directory is one engine's: the second says so, and goes on trying.
    const second = startEngine(context, { directory });
    await until('the second is refused', () => second.state === 'BACKOFF', 60_000);
    assert.match(second.lastError ?? '', /engine|lock|connection/i);
    const store = openStore(context, second);
    assert.equal(await store.ping(), false);
    const source = new ListedLog('t');
    source.append('a', ['{"n":1}', '{"n":2}']);
    const sink = new Sink({ store, logger: silentLogger, delayMs: 5, backOffMs: { first: 20, last: 200 } });
    context.after(() => sink.close());
    sink.attach(source);
    await assert.rejects(sink.flush('t', { events: source.end }, 100));
    await first.stop();
    await sink.flush('t', { events: source.end }, 60_000);
    assert.deepEqual(await totalsOf(store, 't'), { n: 2, keys: 2, sum: 3 });
  });
});
