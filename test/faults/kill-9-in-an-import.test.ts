// Invariants 1, 2 and 9: the service dies while a tenant is being imported. Nothing of it is ever served in part, the import is
// repeated, and the tenant is the one that was exported.
import assert from 'node:assert/strict';
import { request, type ClientRequest } from 'node:http';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { Api, newTenant, problem, success } from '../support/api.js';
import { reducerOf } from '../support/checker-model.js';
import type { CrashPoint } from '../support/faulty-service.js';
import {
  FAULTY_SERVICE,
  ADMIN_KEY,
  programOf,
  startService,
  temporaryDirectory,
  type Service,
} from '../support/service.js';
import { CLOUD_EVENTS, digestOf, exported, importLines } from '../support/transfer.js';

const EVENTS = 3_000;

function importing(service: Service, tenantId: string): ClientRequest {
  const sent = request(`${service.url}/admin/tenants/${tenantId}/import`, {
    method: 'POST',
    headers: { 'x-admin-key': ADMIN_KEY, 'content-type': CLOUD_EVENTS },
  });
  sent.on('error', () => undefined);
  return sent;
}

test('kill -9 in an import', async (t) => {
  const source = await startService(t);
  const key = await newTenant(source, { tenantId: 'whole' });
  const from = new Api(source, key);
  await from.deployReducer(reducerOf('ledger'));
  for (let n = 0; n < EVENTS; n += 100)
    success(
      await from.post('/events/batch', {
        aggregateId: `ledger-${(n / 100) % 11}`,
        events: Array.from({ length: 100 }, (_, i) => ({
          eventType: 'Added',
          data: { id: `e${n + i}`, lane: `lane-${i % 3}` },
        })),
      }),
      201,
    );
  const lines = await exported(source, key);
  assert.equal(lines.length, EVENTS);
  const original = await digestOf(source, key);

  for (const [fuse, partitions] of [
    ['before-log-write:5', 1],
    ['after-log-write:5', 1],
    ['after-ack:9', 3],
  ] as const satisfies readonly (readonly [`${CrashPoint}:${number}`, number])[])
    await t.test(`${fuse}, ${partitions} partitions`, async () => {
      const dataDirectory = temporaryDirectory(t);
      const start = (env: Record<string, string>): Promise<Service> =>
        startService(t, { dataDirectory, program: programOf(FAULTY_SERVICE), env });
      const first = await start({ FUSE: fuse });
      const there = await newTenant(first, { tenantId: 'moved', partitions });
      await new Api(first, there).deployReducer(reducerOf('ledger'));
      const sent = importing(first, 'moved');
      process.kill(first.pid, 'SIGUSR2');
      // Piece by piece, so that it takes many records.
      const pieces = Array.from(
        { length: EVENTS / 100 },
        (_, i) => `${lines.slice(100 * i, 100 * (i + 1)).join('\n')}\n`,
      );
      Readable.from(pieces).pipe(sent);
      await first.exited();

      const second = await start({ FUSE: '' });
      const to = new Api(second, there);
      // What is there in part is told to nobody.
      problem(await to.get('/feed'), 403, 'TENANT_SUSPENDED');
      problem(await to.post('/events', { aggregateId: 'a', eventType: 'E', data: {} }), 403, 'TENANT_SUSPENDED');
      success(await importLines(second, 'moved', lines), 200);
      assert.deepEqual(await digestOf(second, there), original);
      // And it stays so.
      await second.kill();
      const third = await start({ FUSE: '' });
      assert.deepEqual(await digestOf(third, there), original);
      await third.stop();
    });
});
