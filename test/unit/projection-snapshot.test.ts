// The states of a projection as they are told to who asks for all of them, while they change, and a part of them at a time.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import fc from 'fast-check';
import type { Change } from '../../src/core/change.js';
import { NotOwnerError } from '../../src/core/errors.js';
import { silentLogger } from '../../src/core/logger.js';
import { nextTurn } from '../../src/core/slices.js';
import { ProjectionCursor } from '../../src/projections/projection-cursor.js';
import { ProjectionSnapshots, type SnapshotBounds } from '../../src/projections/projection-snapshot.js';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import { change, ListFeed } from '../support/notifier-world.js';

const P = 'p1';
const origin = { eventId: 'e', aggregateId: 'a-1', aggregateType: 'a', version: 1 };
const fault = {
  eventId: 'e',
  aggregateId: 'a-1',
  version: 1,
  className: 'A',
  message: 'boom',
  file: null,
  line: null,
  at: '',
};
/** Few of each, so that a snapshot goes over the rows several times. */
const BOUNDS: SnapshotBounds = { located: 7, locatedOfTenant: 14, pageRows: 3, pageBytes: 1024 };

/** A projection as its owner has it: rows, and the changes that made them. */
class Owned {
  readonly feed = new ListFeed();
  readonly cursor = new ProjectionCursor(1);
  readonly snapshots: ProjectionSnapshots;
  classNames: readonly string[] = ['A', 'B'];
  revision = 1;
  served = true;
  #sequence = 0;

  constructor(
    readonly tables: PartitionTables,
    bounds = BOUNDS,
  ) {
    tables.setLiveProjection(P, { revision: 1, artefactId: 'a', classNames: this.classNames });
    this.snapshots = new ProjectionSnapshots({
      tables,
      changes: {
        of: (projectionId) => this.feed.of(projectionId),
        lastSequence: () => this.feed.lastSequence(),
        lastRecorded: () => 0,
        isTrimmed: () => false,
      },
      cursor: this.cursor,
      onLive: () => () => undefined,
      mustServe: () => {
        if (!this.served) throw new NotOwnerError();
      },
      bounds,
    });
  }

  set(key: string, className = 'A', text: string | null = `${this.#sequence + 1}`): void {
    const sequence = ++this.#sequence;
    this.#put(this.revision, key, className, sequence, text);
    this.feed.accept(this.#change(key, className, sequence, text));
  }

  /** The key stops: its row says so at a sequence that nobody is told of. */
  stop(key: string): void {
    const row = this.#row(key, 'A');
    const sequence = ++this.#sequence;
    this.tables.setKeyState(P, this.revision, key, this.classNames.indexOf('A'), {
      state: row?.state ?? null,
      sequence,
      lastModified: 1,
      fault,
      origin,
    });
    this.feed.accept({ ...this.#change(key, 'A', sequence, null), fault });
  }

  /** Another revision goes live: some keys are other than before, and told; the rest keeps its rows. */
  swap(changed: (key: string) => boolean): void {
    const [before, classes] = [this.revision, this.classNames];
    this.revision++;
    this.classNames = [...classes].reverse();
    for (const [key, classIndex, row] of [...this.tables.keyStates(P, before)]) {
      const className = classes[classIndex] ?? '';
      if (changed(key)) this.set(key, className);
      else this.tables.setKeyState(P, this.revision, key, this.classNames.indexOf(className), row);
    }
    this.tables.setLiveProjection(P, { revision: this.revision, artefactId: 'a', classNames: this.classNames });
    this.tables.dropRevision(P, before);
  }

  /** What there is, by key and class. */
  get states(): Map<string, string | null> {
    return this.statesUpTo(Infinity);
  }

  /** The same of what did not change behind the sequence. */
  statesUpTo(upTo: number): Map<string, string | null> {
    const live = this.tables.liveProjection(P);
    return new Map(
      [...this.tables.keyStates(P, live?.revision ?? 0)]
        .filter(([, , { sequence }]) => sequence <= upTo)
        .map(([key, classIndex, { state }]) => [`${key} ${live?.classNames[classIndex]}`, state?.toString() ?? null]),
    );
  }

  #row(key: string, className: string): ReturnType<PartitionTables['keyState']> {
    return this.tables.keyState(P, this.revision, key, this.classNames.indexOf(className));
  }

  #put(revision: number, key: string, className: string, sequence: number, text: string | null): void {
    const state = text === null ? null : Buffer.from(text);
    const row = { state, sequence, lastModified: 1, fault: undefined, origin };
    this.tables.setKeyState(P, revision, key, this.classNames.indexOf(className), row);
  }

  #change(key: string, className: string, sequence: number, text: string | null): Change {
    return change(sequence, { key, className, state: text === null ? null : Buffer.from(text) });
  }
}

function storeOf(t: Pick<TestContext, 'after'>): LocalStore {
  const path = mkdtempSync(join(tmpdir(), 'statefold-snapshot-'));
  const store = new LocalStore({ path, logger: silentLogger });
  t.after(async () => {
    await store.close();
    rmSync(path, { recursive: true });
  });
  return store;
}

/** All that is told; `between` is called before each page. */
async function toldBy(
  owned: Owned,
  { keys, between, signal }: { keys?: Set<string>; between?: () => void; signal?: AbortSignal } = {},
): Promise<{ told: Change[]; upTo: number }> {
  const pages = owned.snapshots.of({ projectionId: P, keys, signal: signal ?? new AbortController().signal });
  const told: Change[] = [];
  for (;;) {
    between?.();
    const { done, value } = await pages.next();
    if (done === true) return { told, upTo: value };
    assert.ok(value.length > 0 && value.length <= 256);
    told.push(...value);
  }
}

const known = (changes: readonly Change[]): Map<string, string | null> =>
  new Map(changes.map(({ key, className, state }) => [`${key} ${className}`, state?.toString() ?? null]));
const isAscending = (changes: readonly Change[]): boolean =>
  changes.every(({ sequence }, i) => sequence >= (changes[i - 1]?.sequence ?? 0));

test('what is told first, and what the feed tells behind it, is all that there is, however it changes meanwhile', async (t) => {
  const store = storeOf(t);
  let world = 0;
  const key = fc.integer({ min: 0, max: 40 }).map((n) => `k${n}`);
  const step = fc.oneof(
    {
      weight: 10,
      arbitrary: fc.record({ what: fc.constant('set' as const), key, className: fc.constantFrom('A', 'B') }),
    },
    { weight: 2, arbitrary: fc.record({ what: fc.constantFrom('clear' as const, 'stop' as const), key }) },
    { weight: 1, arbitrary: fc.record({ what: fc.constant('swap' as const), nth: fc.integer({ min: 1, max: 3 }) }) },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 80 }),
      fc.array(fc.array(step, { maxLength: 6 }), { maxLength: 30 }),
      fc.option(fc.uniqueArray(key, { minLength: 1, maxLength: 10 }), { nil: undefined }),
      async (before, meanwhile, keys) => {
        const owned = new Owned(new PartitionTables(store.section(`t${++world}`)));
        const take = (steps: typeof before): void => {
          for (const one of steps)
            if (one.what === 'set') owned.set(one.key, one.className);
            else if (one.what === 'clear') owned.set(one.key, 'A', null);
            else if (one.what === 'stop') owned.stop(one.key);
            else if ('nth' in one) owned.swap((name) => Number(name.slice(1)) % one.nth === 0);
        };
        take(before);
        const wanted = keys && new Set(keys);
        const ofWanted = (states: Map<string, string | null>): Map<string, string | null> =>
          // A key that stopped at its first event has no state, and nobody is told so.
          new Map(
            [...states]
              .filter(([name, state]) => state !== null && wanted?.has(name.split(' ')[0] ?? '') !== false)
              .sort(),
          );
        const left = [...meanwhile];
        const { told, upTo } = await toldBy(owned, {
          ...(wanted && { keys: wanted }),
          between: () => take(left.shift() ?? []),
        });
        const asOfEnd = ofWanted(owned.statesUpTo(upTo));
        for (const [name, state] of asOfEnd) assert.equal(known(told).get(name), state, `${name} as of its end`);
        assert.ok(isAscending(told));
        assert.ok(told.every(({ sequence }) => sequence <= upTo));
        take(left.flat());
        const live = owned.feed.changes.filter(
          (one) => one.sequence > upTo && one.fault === undefined && wanted?.has(one.key) !== false,
        );
        assert.deepEqual(ofWanted(known([...told, ...live])), ofWanted(owned.states), 'with what comes behind it');
        assert.equal(owned.feed.listeners, 0);
      },
    ),
    { numRuns: 150 },
  );
});

test('states that share a sequence are told once each, also where they are more than are located at once', async (t) => {
  const owned = new Owned(new PartitionTables(storeOf(t).section('t')));
  for (let i = 0; i < 50; i++)
    owned.tables.setKeyState(P, 1, `k${i}`, 0, {
      state: Buffer.from(`${i}`),
      sequence: 3,
      lastModified: 1,
      fault: undefined,
      origin,
    });
  owned.feed.accept(change(9, { projectionId: 'another' }));
  const { told, upTo } = await toldBy(owned);
  assert.deepEqual(known(told), owned.states);
  assert.deepEqual([told.length, upTo], [50, 9]);
});

test('it begins when the rows have all that was told, and ends with the tenant or its reader', async (t) => {
  const owned = new Owned(new PartitionTables(storeOf(t).section('t')));
  for (let i = 0; i < 30; i++) owned.set(`k${i}`);
  owned.cursor.moveTo(0);
  const waiting = toldBy(owned);
  owned.set('k0');
  owned.cursor.moveTo(1);
  assert.deepEqual(known((await waiting).told), owned.states);

  owned.cursor.moveTo(0);
  const left = new AbortController();
  const abandoned = toldBy(owned, { signal: left.signal });
  left.abort();
  await assert.rejects(abandoned, { name: 'AbortError' });
  owned.cursor.moveTo(1);

  let pages = 0;
  const ending = toldBy(owned, { between: () => (owned.served = ++pages < 3) });
  await assert.rejects(ending, (error) => error instanceof NotOwnerError);
  assert.equal(owned.feed.listeners, 0);
});

test('readers that are slow hold no more than their share: others wait for it, and go on when they leave', async (t) => {
  const owned = new Owned(new PartitionTables(storeOf(t).section('t')), { ...BOUNDS, locatedOfTenant: 8 });
  for (let i = 0; i < 30; i++) owned.set(`k${i}`);
  const slow = owned.snapshots.of({ projectionId: P, keys: undefined, signal: new AbortController().signal });
  await slow.next();
  let pages = 0;
  const other = toldBy(owned, { between: () => void pages++ });
  // As often as it would take to tell all of them.
  for (let turn = 0; turn < 100; turn++) await nextTurn();
  assert.equal(pages, 1, 'it waits for its first one');
  await slow.return(0);
  assert.deepEqual(known((await other).told), owned.states);
});
