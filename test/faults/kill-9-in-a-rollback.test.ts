// Invariants 9, 11 and 12: the service dies while a projection goes back to an earlier revision, and while one is folded again
// from the start. What was told stays, each key is told once, and a store that is lost comes to the same.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Api, success, type Notification } from '../support/api.js';
import { totals } from '../support/csharp.js';
import type { CrashPoint } from '../support/faulty-service.js';
import { step } from '../support/load-scenario.js';
import {
  FAULTY_SERVICE,
  programOf,
  startService,
  temporaryDirectory,
  until,
  type Service,
} from '../support/service.js';

/** More than go in a produce, so that a swap can be cut off. */
const KEYS = 1500;
const BATCH = 500;

test('kill -9 in a rollback and a rebuild', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service: Service;
  let api!: Api;
  const start = async (fuse?: `${CrashPoint}:${number}`): Promise<void> => {
    service = await startService(t, { dataDirectory, program: programOf(FAULTY_SERVICE), env: { FUSE: fuse ?? '' } });
    api = new Api(service);
  };
  /** The process dies before it has answered, or after. */
  const dies = async (request: () => Promise<unknown>): Promise<void> => {
    process.kill(service.pid, 'SIGUSR2');
    await request().catch(() => undefined);
    await service.exited();
  };
  const key = (i: number): string => `k${String(i).padStart(4, '0')}`;
  const add = async (n: number): Promise<void> => {
    for (let at = 0; at < KEYS; at += BATCH)
      success(
        await api.post('/events/batch', {
          aggregateId: `a-${at}`,
          events: Array.from({ length: BATCH }, (_, i) => ({ eventType: 'Added', data: { key: key(at + i), n } })),
        }),
        201,
      );
  };
  let id = '';
  const states = async (): Promise<ReadonlyMap<string, number>> => {
    const found = new Map<string, number>();
    for (let cursor = ''; ;) {
      const page = await api.read<{ states: { key: string; state: { total: number } }[]; nextCursor?: string }>(
        `/projections/${id}/states?limit=1000${cursor}`,
      );
      for (const one of page.states) found.set(one.key, one.state.total);
      if (page.nextCursor === undefined) return found;
      cursor = `&cursor=${encodeURIComponent(page.nextCursor)}`;
    }
  };
  const told = async (): Promise<Notification[]> => {
    const all: Notification[] = [];
    for (;;) {
      const { notifications } = await api.read<{ notifications: Notification[] }>(
        `/projections/${id}/notifications?limit=1000&afterSequence=${all.at(-1)?.sequence ?? 0}`,
      );
      if (notifications.length === 0) return all;
      all.push(...notifications);
    }
  };
  const isLive = (revision: number): Promise<void> =>
    until(
      async () =>
        (await api.read<{ live?: { revision: number } }>(`/projections/${id}/status`)).live?.revision === revision,
      60_000,
    );
  const hasAll = async (total: number): Promise<void> => {
    await until(async () => [...(await states()).values()].every((one) => one === total), 60_000);
    assert.equal((await states()).size, KEYS);
  };
  /** In order, each content once, and what was told before is what it was. */
  let before: Notification[] = [];
  const onlyGrew = async (): Promise<Notification[]> => {
    const now = await told();
    assert.deepEqual(now.slice(0, before.length), before);
    now.forEach(({ sequence }, i) => assert.ok(i === 0 || sequence > (now[i - 1]?.sequence ?? 0)));
    const fresh = now.slice(before.length);
    before = now;
    return fresh;
  };
  const eachOnce = (fresh: readonly Notification[], cause: string, total: number): void => {
    assert.deepEqual(
      fresh.map((one) => one.key),
      Array.from({ length: KEYS }, (_, i) => key(i)),
    );
    for (const { state, cause: why } of fresh) assert.deepEqual([state, why], [{ total }, cause]);
  };

  await step(t, 'two revisions, the second one live', async () => {
    await start('in-swap:1');
    await add(1);
    id = await api.deployProjection({ 'Totals.cs': totals() });
    success(await api.upload('projections', { 'Totals.cs': totals('Totals', 3) }, { projectionId: id }), 202);
    await isLive(2);
    await add(1);
    await hasAll(6);
    before = await told();
  });

  await step(t, 'it dies in the swap of a rollback', async () => {
    await dies(() => api.post(`/projections/${id}/rollback`, { revision: 1 }));
    await start('before-changes-write:1');
    await isLive(3);
    await hasAll(2);
    eachOnce(await onlyGrew(), 'rollback', 2);
  });

  await step(t, 'it dies before the first of its changes is written', async () => {
    await dies(() => api.post(`/projections/${id}/rollback`, { revision: 2 }));
    await start('in-build:1');
    // The request again: its answer was lost.
    const { revision } = (await api.post(`/projections/${id}/rollback`, { revision: 2 })).json<{ revision: number }>();
    assert.equal(revision, 4);
    await isLive(4);
    await hasAll(6);
    eachOnce(await onlyGrew(), 'rollback', 6);
  });

  await step(t, 'it dies while the live revision is folded again: there is nothing to tell of it', async () => {
    await dies(() => api.post(`/projections/${id}/rebuild`));
    await start();
    await isLive(5);
    assert.deepEqual(await onlyGrew(), []);
    await add(1);
    await hasAll(9);
    assert.equal((await onlyGrew()).length, KEYS);
  });

  await step(t, 'a store that is lost comes to the same', async () => {
    const revisions = async (): Promise<unknown[]> =>
      (
        await api.read<{ revisions: { revision: number; status: string; changedKeys?: number }[] }>(
          `/projections/${id}/revisions`,
        )
      ).revisions.map(({ revision, status, changedKeys }) => [revision, status, changedKeys]);
    const known = await revisions();
    await service.kill();
    rmSync(join(dataDirectory, 'store'), { recursive: true });
    await start();
    await isLive(5);
    await hasAll(9);
    assert.deepEqual(await onlyGrew(), []);
    assert.deepEqual(await revisions(), known);
  });
});
