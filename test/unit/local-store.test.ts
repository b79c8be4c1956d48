import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import fc from 'fast-check';
import { MemoryBudget } from '../../src/core/budget.js';
import { silentLogger, type Logger } from '../../src/core/logger.js';
import { nextTurn } from '../../src/core/slices.js';
import { LocalStore, type LocalStoreOptions } from '../../src/store/local-store.js';
import type { StoreSection } from '../../src/store/store-section.js';
import { TABLES } from '../../src/store/tables.js';
import { until } from '../support/service.js';

/** Never by time: a test says when. */
const NEVER = 2 ** 30;

function storeOf(
  t: TestContext,
  options: Partial<LocalStoreOptions> = {},
): { open(more?: Partial<LocalStoreOptions>): LocalStore } {
  const path = mkdtempSync(join(tmpdir(), 'statefold-store-'));
  const stores: LocalStore[] = [];
  t.after(async () => {
    for (const store of stores) await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return {
    open: (more) => {
      const store = new LocalStore({
        path,
        logger: silentLogger,
        flushAfterMs: NEVER,
        flushEntries: NEVER,
        ...options,
        ...more,
      });
      stores.push(store);
      return store;
    },
  };
}

const range = (
  section: StoreSection,
  from: string,
  to: string,
  options?: Parameters<StoreSection['range']>[2],
): (readonly [string, unknown])[] => [...section.range(from, to, options)];
const byUtf8 = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

describe('a section of the local store', () => {
  it('reads as one what is written, being written and not yet written: in order, either way, limited', async (t) => {
    const store = storeOf(t).open();
    const key = fc.string({
      unit: fc.constantFrom('a', 'b', 'é', '\u{ffee}', '\u{1f600}', '~'),
      minLength: 1,
      maxLength: 70,
    });
    const write = fc.tuple(key, fc.option(fc.nat(99), { nil: undefined }));
    const layer = fc.array(write, { maxLength: 15 });
    let n = 0;
    await fc.assert(
      fc.asyncProperty(
        layer,
        layer,
        layer,
        key,
        key,
        fc.nat(8),
        fc.boolean(),
        async (stored, flushing, fresh, one, other, limit, reverse) => {
          const section = store.section(`s${n++}`);
          const neighbour = store.section(`s${n++}`);
          neighbour.set('a', 'another section');
          await neighbour.flush();
          const model = new Map<string, number>();
          const put = (writes: typeof stored): void => {
            for (const [name, value] of writes) {
              if (value === undefined) section.delete(name);
              else section.set(name, value);
              if (value === undefined) model.delete(name);
              else model.set(name, value);
            }
          };
          put(stored);
          await section.flush();
          put(flushing);
          const written = section.flush();
          put(fresh);
          const [from, to] = byUtf8(one, other) < 0 ? [one, other] : [other, one];
          const inside = [...model]
            .filter(([name]) => byUtf8(name, from) >= 0 && byUtf8(name, to) < 0)
            .sort(([a], [b]) => byUtf8(a, b));
          const want = (reverse ? inside.reverse() : inside).slice(0, limit);
          const check = (): void => {
            assert.deepEqual(range(section, from, to, { reverse, limit }), want);
            for (const [name] of [...stored, ...flushing, ...fresh]) assert.equal(section.get(name), model.get(name));
          };
          check();
          await written;
          check();
          await section.flush();
          check();
        },
      ),
      { numRuns: 150, includeErrorInReport: true },
    );
  });

  it('9: what a crash leaves is the fold of one position, whole', async (t) => {
    const place = storeOf(t);
    const section = place.open().section('tenant');
    let position = 0;
    section.onCheckpoint(() => section.set('checkpoint', position));
    const fold = (): void => {
      position++;
      section.set(`entry ${position}`, position);
      section.set('sum', ((section.get('sum') as number | undefined) ?? 0) + position);
    };
    const left = (): { checkpoint: unknown; sum: unknown; entries: number } => {
      // Another environment on the same files sees what is on disk, as a process started after a crash does.
      const reader = place.open().section('tenant');
      return {
        checkpoint: reader.get('checkpoint'),
        sum: reader.get('sum'),
        entries: range(reader, 'entry ', 'entry !').length + range(reader, 'entry !', 'f').length,
      };
    };
    const at = (of: number): ReturnType<typeof left> => ({ checkpoint: of, sum: (of * (of + 1)) / 2, entries: of });
    for (let i = 0; i < 10; i++) fold();
    await section.flush();
    fold();
    assert.deepEqual(left(), at(10));
    const writing = section.flush();
    for (let i = 0; i < 5; i++) fold();
    await writing;
    assert.deepEqual(left(), at(11), 'what came while it was being written is not in it');
    await section.flush();
    assert.deepEqual(left(), at(16));
  });

  it('is written by itself after so many entries, between two records', async (t) => {
    const store = storeOf(t).open({ flushEntries: 4 });
    const section = store.section('tenant');
    let position = 0;
    const checkpoints: number[] = [];
    section.onCheckpoint(() => void (checkpoints.push(position), section.set('checkpoint', position)));
    for (let i = 0; i < 3; i++) {
      section.set(`a${i}`, 1);
      section.set(`b${i}`, 1);
      position++;
    }
    await until(() => checkpoints.length > 0);
    assert.deepEqual(checkpoints, [3]);
  });

  it('is full when what is not written takes all it may, has room again when it is, and holds nothing when it is closed', async (t) => {
    const budget = new MemoryBudget({ processBytes: 64e6, tenantBytes: 2e6 });
    const store = storeOf(t).open({ budget });
    const section = store.section('tenant');
    const state = Buffer.alloc(10_000, 1);
    let count = 0;
    while (!section.isFull) section.set(`k${count++}`, [1, state]);
    assert.ok(count > 80 && count <= 100, `half of 2 MB is ${count} times 10 KB`);
    assert.equal(budget.held('entries'), section.unwrittenBytes);
    const held = budget.held();
    section.set('k0', [1, state]);
    assert.equal(budget.held(), held, 'an entry in the place of another one takes no more');
    let room = false;
    const waiting = section.untilRoom(() => true).then((given) => (room = given));
    assert.equal(room, false);
    await waiting;
    assert.deepEqual([room, section.isFull, section.unwrittenBytes], [true, false, 0], 'who waits has it written');
    assert.equal(budget.refusals('entries', 'tenant'), 1);
    while (!section.isFull) section.set(`k${count++}`, [1, state]);
    await section.close();
    assert.deepEqual([budget.held(), section.isFull], [0, false]);
    assert.equal(range(store.section('tenant'), 'k', 'l').length, count);
  });

  it('tells of writes that fail once, and that it is written again', async (t) => {
    const told: (readonly [level: string, failures: unknown])[] = [];
    const logger: Logger = {
      ...silentLogger,
      error: () => void told.push(['error', undefined]),
      info: (fields) => void told.push(['info', (fields as { failures?: number }).failures]),
    };
    const section = storeOf(t).open({ logger }).section('tenant');
    // No encoding has it.
    section.set('k', 2n ** 70n);
    for (let i = 0; i < 3; i++) await section.flush();
    assert.ok(section.isFailing);
    section.set('k', 1);
    await section.flush();
    assert.ok(!section.isFailing);
    assert.deepEqual(told, [
      ['error', undefined],
      ['info', 3],
    ]);
  });

  it('remembers what it wrote beside the budget, and forgets it for those who wrote after it', async (t) => {
    const budget = new MemoryBudget({ processBytes: 16e6, tenantBytes: 4e6 });
    const store = storeOf(t).open({ budget });
    const state = Buffer.alloc(10_000, 1);
    const sections = Array.from({ length: 10 }, (_, i) => store.section(`tenant${i}`));
    for (const section of sections) {
      for (let i = 0; i < 50; i++) section.set(`k${i}`, state);
      await section.flush();
    }
    assert.equal(budget.held('entries'), 0);
    const remembering = sections.map((section) => section.get('k7') === state);
    assert.deepEqual(remembering, [...Array<boolean>(7).fill(false), true, true, true], '2 MB of half a megabyte each');
    for (const section of sections) assert.deepEqual(section.get('k7'), state);
    await sections[9]?.close();
    assert.equal(sections[8]?.get('k7'), state);
  });

  it('9: reads what was written last, whichever of the writes before were too large to be remembered', async (t) => {
    const large = Buffer.alloc(5 * 1024 * 1024);
    const store = storeOf(t).open();
    for (let plan = 0; plan < 16; plan++) {
      const section = store.section(`t${plan}`);
      for (let write = 0; write < 4; write++) {
        section.set('head', write);
        if ((plan & (1 << write)) !== 0) section.set('much', large);
        assert.equal(section.get('head'), write);
        await section.flush();
        assert.equal(section.get('head'), write, `write ${write} of plan ${plan.toString(2)}`);
      }
      await section.close();
    }
  });

  it('is written when what changed is large, however little it is', async (t) => {
    const section = storeOf(t).open().section('tenant');
    const writes = section.writes;
    for (let i = 0; i < 5; i++) section.set(`k${i}`, Buffer.alloc(1024 * 1024));
    await until(() => section.writes > writes && section.unwrittenBytes === 0);
    assert.equal(section.unwrittenBytes, 0);
  });

  it('takes nothing once it is closed, so that the next owner of the section is alone', async (t) => {
    const store = storeOf(t).open();
    const former = store.section('tenant');
    former.set('a', 'former');
    await former.close();
    former.set('a', 'late');
    await former.flush();
    const next = store.section('tenant');
    assert.equal(next.get('a'), 'former');
    next.set('a', 'next');
    await former.close();
    await next.flush();
    assert.equal(store.section('tenant').get('a'), 'next');
  });

  it(
    'is dropped in parts: who opens it meanwhile waits, and a drop that was cut off is ended before anything is opened',
    { timeout: 60_000 },
    async (t) => {
      const place = storeOf(t);
      let store = place.open();
      const fill = async (): Promise<void> => {
        for (const name of ['t', 't1']) {
          const section = store.section(name);
          for (let i = 0; i < 3500; i++) section.set(`k${i}`, i);
          await section.close();
        }
      };
      await fill();
      const dropping = store.drop('t');
      await store.dropped('t');
      assert.deepEqual([...store.sections()], ['t1']);
      await dropping;
      assert.equal(store.isLoading('t'), false);
      await fill();
      const cut = store.drop('t');
      cut.catch(() => undefined); // the store is closed under it
      // At every turn: it lasts for some writes only.
      while (!store.isLoading('t')) await nextTurn();
      await store.close();
      await cut.catch(() => undefined);
      store = place.open();
      assert.deepEqual([...store.sections()], ['t1']);
      assert.equal(store.isLoading('t'), false);
    },
  );

  it('gives keys without their values, and has room again when what was set is written', async (t) => {
    const store = storeOf(t).open({ flushEntries: 10 });
    const section = store.section('t');
    for (let i = 0; i < 9; i++) section.set(`k${i}`, i);
    await section.room();
    assert.equal(section.writes, 0, 'there was room');
    section.set('k9', 9);
    await section.room();
    assert.equal(section.writes, 1, 'what is much is being written');
    for (let i = 0; i < 9; i++) section.set(`m${i}`, i);
    await section.room();
    assert.ok(section.unwrittenBytes > 0, 'meanwhile there is room for as much again');
    section.set('m9', 9);
    await section.room();
    assert.equal(section.writes, 2, 'and for more when that is written');
    section.delete('k3');
    section.set('k35', 1);
    assert.deepEqual(section.keys('k2', 'k6', 3), ['k2', 'k35', 'k4']);
  });

  it('has room for few large entries, as for many small ones', async (t) => {
    const section = storeOf(t).open({ flushEntries: 1000, flushAfterMs: 60_000 }).section('t');
    section.set('k', Buffer.alloc(3 * 1024 * 1024));
    await section.room();
    assert.equal(section.writes, 0);
    section.set('l', Buffer.alloc(3 * 1024 * 1024));
    await section.room();
    assert.equal(section.writes, 1);
  });

  it('writes what belongs together as one, whoever asks for a write meanwhile', async (t) => {
    const store = storeOf(t).open({ flushEntries: 2, flushAfterMs: 1 });
    const section = store.section('t');
    const seen: (readonly unknown[])[] = [];
    const stored = (): readonly unknown[] => ['a', 'b', 'c'].map((key) => store.section('t').get(key));
    let flushed: Promise<void> | undefined;
    await section.together(async () => {
      section.set('a', 1);
      section.set('b', 1);
      flushed = section.flush();
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
      seen.push([section.writes, ...stored()]);
      section.set('c', 1);
    });
    await flushed;
    seen.push([section.writes, ...stored()]);
    assert.deepEqual(seen, [
      [0, undefined, undefined, undefined],
      [1, 1, 1, 1],
    ]);
    await assert.rejects(
      section.together(() => Promise.reject(new Error('broken off'))),
      /broken off/,
    );
    await section.together(() => Promise.resolve());
  });

  it('is dropped alone, and with the format that it was written in', async (t) => {
    const place = storeOf(t);
    const store = place.open();
    for (const name of ['t', 't1', 's']) {
      const section = store.section(name);
      section.set('a', name);
      await section.flush();
    }
    assert.deepEqual([...store.sections()], ['s', 't', 't1']);
    await store.drop('t');
    assert.deepEqual([...store.sections()], ['s', 't1']);
    assert.deepEqual(
      ['t', 't1', 's'].map((name) => store.section(name).get('a')),
      [undefined, 't1', 's'],
    );
    await store.close();
    const again = place.open();
    assert.equal(again.section('t1').get('a'), 't1');
    await again.close();
    assert.equal(place.open({ format: 77 }).section('t1').get('a'), undefined);
  });

  it('lets any number of readers wait between two rows, each of which goes on behind its last one', async (t) => {
    const section = storeOf(t).open().section('t');
    const keys = Array.from({ length: 20 }, (_, i) => `k${String(i).padStart(2, '0')}`);
    for (const key of keys) section.set(key, key);
    await section.flush();
    const readers: {
      readonly reverse: boolean;
      readonly got: string[];
      readonly rows: Iterator<readonly [string, unknown]>;
    }[] = [];
    // More than lmdb has: each of a turn, and a state, of its own.
    for (let i = 0; i < 300; i++) {
      const reverse = i % 2 === 1;
      const rows = section.range('k', 'l', { reverse });
      const got: string[] = [];
      while (got.length < i % 20) {
        const row = rows.next();
        got.push(row.done === true ? assert.fail('it has ended') : row.value[0]);
      }
      readers.push({ reverse, got, rows });
      section.set(`other-${i}`, i);
      await section.flush();
      await nextTurn();
    }
    for (const { reverse, got, rows } of readers) {
      for (let next = rows.next(); next.done !== true; next = rows.next()) {
        got.push(next.value[0]);
        assert.equal(next.value[1], next.value[0]);
      }
      assert.deepEqual(got, reverse ? keys.toReversed() : keys);
    }
    assert.equal(section.get('k07'), 'k07');
  });
});

it('no two tables have the same letter', () => {
  const letters = Object.values(TABLES);
  assert.equal(new Set<string>(letters).size, letters.length);
  for (const letter of letters) assert.equal(letter.length, 1);
});
