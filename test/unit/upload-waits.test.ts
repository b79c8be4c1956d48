import assert from 'node:assert/strict';
import { test } from 'node:test';
import type {
  Catalog,
  CatalogChange,
  Entities,
  EntityKind,
  ProjectionEntity,
  ReducerEntity,
} from '../../src/catalog/catalog.js';
import { NotOwnerError } from '../../src/core/errors.js';
import { revised } from '../../src/deployments/revisions.js';
import { UploadWaits, type LiveProjections } from '../../src/deployments/upload-waits.js';

const AT = '2026-01-01T00:00:00.000Z';
const REDUCER: ReducerEntity = {
  tenantId: 't',
  reducerId: 'r',
  artefactId: 'r',
  status: 'pending_compilation',
  createdAt: AT,
};
const PROJECTION: ProjectionEntity = {
  tenantId: 't',
  projectionId: 'p',
  artefactId: 'p',
  status: 'compiling',
  createdAt: AT,
  revision: 1,
  sse: false,
};

/** A catalog and a task that a test moves on by hand. */
class World {
  readonly entities = new Map<string, unknown>();
  readonly listeners = new Set<() => void>();
  live: number | undefined;
  moved = false;
  readonly #watchers: ((change: CatalogChange) => void)[] = [];
  readonly waits: UploadWaits;

  constructor() {
    const catalog = {
      get: (kind: EntityKind, id: string) =>
        this.entities.has(`${kind} ${id}`) ? { id, version: 1, value: this.entities.get(`${kind} ${id}`) } : undefined,
      onChange: (watcher: (change: CatalogChange) => void) => void this.#watchers.push(watcher),
    } as unknown as Catalog;
    const task: LiveProjections = {
      life: () => ({
        live: this.live === undefined ? undefined : { revision: this.live, artefactId: `a${this.live}` },
        building: undefined,
        kept: [],
        past: [],
        erasedSinceBuild: false,
      }),
      onLive: (listener) => {
        this.listeners.add(listener);
        return () => this.listeners.delete(listener);
      },
    };
    this.waits = new UploadWaits({
      catalog,
      projectionsOf: () => (this.moved ? Promise.reject(new NotOwnerError()) : Promise.resolve(task)),
    });
  }

  put<K extends EntityKind>(kind: K, id: string, value: Entities[K] | undefined): void {
    if (value === undefined) this.entities.delete(`${kind} ${id}`);
    else this.entities.set(`${kind} ${id}`, value);
    for (const watcher of this.#watchers) watcher({ kind, id, value, previous: undefined } as CatalogChange);
  }

  goLive(revision: number): void {
    this.live = revision;
    for (const listener of [...this.listeners]) listener();
  }
}

const never = new AbortController().signal;
const settled = () => new Promise((resolve) => setImmediate(resolve));
async function isOpen(work: Promise<unknown>): Promise<boolean> {
  let open = true;
  work.then(
    () => (open = false),
    () => (open = false),
  );
  await settled();
  return open;
}

test('a reducer is waited for until its compilation has an outcome, whoever wrote it', async () => {
  const world = new World();
  world.put('reducer', 'r', REDUCER);
  const waiting = world.waits.reducer(REDUCER, never);
  world.put('reducer', 'other', { ...REDUCER, reducerId: 'other', status: 'compiled' });
  assert.ok(await isOpen(waiting));
  world.put('reducer', 'r', { ...REDUCER, status: 'compiled' });
  assert.equal((await waiting).status, 'compiled');
});

test('a wait that is given up gives the status reached; of what was deleted meanwhile there is none', async () => {
  const world = new World();
  const clock = new AbortController();
  world.put('reducer', 'r', REDUCER);
  world.put('projection', 'p', PROJECTION);
  const waiting = [world.waits.reducer(REDUCER, clock.signal), world.waits.projection(PROJECTION, clock.signal)];
  const built = world.waits.projection(PROJECTION, never);
  clock.abort();
  assert.deepEqual(
    (await Promise.all(waiting)).map(({ status }) => status),
    ['pending_compilation', 'compiling'],
  );
  world.put('projection', 'p', undefined);
  await assert.rejects(built, { code: 'NOT_FOUND' });
});

test('a projection is waited for until its revision is live', async () => {
  const world = new World();
  world.put('projection', 'p', PROJECTION);
  const waiting = world.waits.projection(PROJECTION, never);
  world.put('projection', 'p', { ...PROJECTION, status: 'compiled' });
  assert.ok(await isOpen(waiting));
  world.goLive(1);
  assert.deepEqual(await waiting, {
    status: 'compiled',
    compilationError: undefined,
    diagnostics: undefined,
    live: { revision: 1, artefactId: 'a1' },
  });
  assert.equal(world.listeners.size, 0);
});

test('a revision that can’t become live any more is not waited for', async () => {
  const compiled: ProjectionEntity = { ...PROJECTION, status: 'compiled' };
  const next = revised(compiled, { artefactId: 'q', status: 'compiled', uploadedAt: AT }, AT, new Set());
  const ends: Record<string, (world: World) => void> = {
    'a newer one is to be live': (world) =>
      world.put(
        'projection',
        'p',
        revised(next, { artefactId: 'q2', status: 'compiled', uploadedAt: AT }, AT, new Set()),
      ),
    'it was called off': (world) => world.put('projection', 'p', { ...next, cancelledAt: AT }),
    'it has too many strikes': (world) =>
      world.put('artefact', 'p@2', { tenantId: 't', unitId: 'p@2', strikes: [], faultedAt: AT }),
    'the tenant is another process’s': (world) => {
      world.moved = true;
      for (const listener of [...world.listeners]) listener();
    },
  };
  for (const [why, end] of Object.entries(ends)) {
    const world = new World();
    world.put('projection', 'p', next);
    world.goLive(1);
    const waiting = world.waits.projection(next, never);
    assert.ok(await isOpen(waiting), why);
    end(world);
    const { status, live } = await waiting;
    assert.deepEqual([status, live, world.listeners.size], ['compiled', undefined, 0], why);
  }
});
