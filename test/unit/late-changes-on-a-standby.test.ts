import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import type { Change } from '../../src/core/change.js';
import { silentLogger } from '../../src/core/logger.js';
import { ProjectionCursor } from '../../src/projections/projection-cursor.js';
import { StandbyProjections } from '../../src/projections/standby-projections.js';
import { goLive } from '../../src/projections/projection-swap.js';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import { temporaryDirectory } from '../support/service.js';

const SWAP = 5;
const origin = { eventId: 'e', aggregateId: 'a-1', aggregateType: 'a', version: 1 };
const swapOf = (
  revision: number,
): {
  projectionId: string;
  revision: number;
  artefactId: string;
  classNames: string[];
  cause: 'redeploy';
} => ({ projectionId: 'p', revision, artefactId: `p-${revision}`, classNames: ['C'], cause: 'redeploy' });
/** Of the first revision, of an input that the standby has passed. */
const late = (key: string): Change => ({
  ...origin,
  sequence: 9,
  projectionId: 'p',
  revision: 1,
  className: 'C',
  key,
  state: Buffer.from('late'),
  timestamp: 1,
  cause: undefined,
  fault: undefined,
});

function opening(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

interface Followed {
  readonly tables: PartitionTables;
  readonly standby: StandbyProjections;
  /** Resolves when the first row of the second revision is copied, and keeps the next one from being. */
  readonly copied: Promise<void>;
  readonly goOn: () => void;
  readonly live: Promise<void>;
  readonly shown: () => (string | undefined)[];
}

/** The first revision is live with two keys; the standby comes to the swap to the second one. */
function followed(t: TestContext): Followed {
  const store = new LocalStore({ path: temporaryDirectory(t), logger: silentLogger });
  t.after(() => store.close());
  const tables = new PartitionTables(store.section('t'));
  for (const key of ['a', 'b'])
    tables.setKeyState('p', 1, key, 0, {
      state: Buffer.from(key),
      sequence: 1,
      lastModified: 1,
      fault: undefined,
      origin,
    });
  goLive(tables, swapOf(1), undefined, 0, 2, 1);
  const cursor = new ProjectionCursor(SWAP);
  const swap = {
    kind: 'control' as const,
    control: { kind: 'ProjectionSwap' as const, value: swapOf(2) },
    offset: SWAP,
  };
  const copied = opening();
  const goOn = opening();
  const live = opening();
  cursor.onStored(() => live.open());
  tables.section.room = () => (copied.open(), goOn.opened);
  const standby = new StandbyProjections({
    tables,
    inputs: { read: () => Promise.resolve({ items: [swap], end: SWAP + 1 }) } as never,
    changes: {
      lastRecorded: () => SWAP + 1,
      recordedBetween: () => [],
      recordedPast: () => [],
      passed: () => undefined,
    } as never,
    builds: { forget: () => undefined } as never,
    code: { isHalted: () => false } as never,
    cursor,
    keptRevisions: 0,
    slice: { rows: 1, bytes: 1e6 },
    logger: silentLogger,
  });
  return {
    tables,
    standby,
    copied: copied.opened,
    goOn: () => goOn.open(),
    live: live.opened,
    shown: () => ['a', 'b'].map((key) => tables.keyState('p', 2, key, 0)?.state?.toString()),
  };
}

test('11: a change that is told late is of the revision too that took the place of its own', async (t) => {
  const { tables, standby, goOn, live, shown } = followed(t);
  goOn();
  standby.start();
  await live;
  assert.equal(tables.liveProjection('p')?.revision, 2);
  standby.recorded(late('a'), SWAP - 1);
  assert.deepEqual(shown(), ['late', 'b']);
  // Of a projection that was deleted, and made again under its name.
  goLive(tables, swapOf(2), undefined, SWAP, 0, 0);
  standby.recorded({ ...late('b'), sequence: 10 }, SWAP - 1);
  assert.deepEqual(shown(), ['late', 'b']);
});

for (const key of ['a', 'b'])
  test(`11: a change that is told late while rows are copied to the next revision is there too: ${key}`, async (t) => {
    const { standby, copied, goOn, live, shown } = followed(t);
    standby.start();
    await copied;
    standby.recorded(late(key), SWAP - 1);
    goOn();
    await live;
    assert.deepEqual(shown(), key === 'a' ? ['late', 'b'] : ['a', 'late']);
  });

test('11: a swap that was broken off begins anew where a change is told late', (t) => {
  const { tables, standby } = followed(t);
  tables.setSwap('p', {
    revision: 2,
    offset: SWAP,
    place: '2',
    from: 'changes',
    cursor: { phase: 0, after: ['a', 0], told: 0 },
  });
  standby.recorded(late('a'), SWAP - 1);
  assert.equal(tables.swap('p'), undefined);
});
