// A process on data to which a newer version of the service has written records of schemas that this one does not know.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Fence } from '../../src/core/records.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import type { PartitionRef } from '../../src/log/log.js';
import { changesTopic, eventsTopic } from '../../src/log/topics.js';
import { Api, newTenant, problem, success } from '../support/api.js';
import { totals } from '../support/csharp.js';
import { codecs } from '../support/ground.js';
import { startService, temporaryDirectory } from '../support/service.js';

const UNKNOWN_ID = 4_711;
const fence: Fence = { epoch: 9, owner: 'newer', recordId: 'newer:1', expectedOffset: 0, previous: '' };

/** Appends a whole record of a schema that is not known here; resolves with its offset. */
async function writtenByNewer(dataDirectory: string, to: PartitionRef): Promise<number> {
  const value = codecs.events.encode(fence, { kind: 'Claim', value: { rules: 1 } });
  value.writeUInt32BE(UNKNOWN_ID, 1);
  const log = new LmdbLog({ path: join(dataDirectory, 'log') });
  try {
    return (await log.append(to, [{ key: Buffer.from('newer#1'), value }])).baseOffset;
  } finally {
    await log.close();
  }
}

for (const [what, topicOf] of [
  ['events', eventsTopic],
  ['changes', changesTopic],
] as const)
  test(`a tenant with ${what} of a schema that is not known is not served; the others are, and nothing is lost`, async (t) => {
    const dataDirectory = temporaryDirectory(t);
    let service = await startService(t, { dataDirectory });
    const keyOf = (tenantId: string): Promise<string> => newTenant(service, { tenantId });
    const [newer, other] = [await keyOf('newer'), await keyOf('other')];
    const projectionIds = new Map<string, string>();
    for (const key of [newer, other]) {
      const api = new Api(service, key);
      projectionIds.set(key, await api.deployProjection({ 'Totals.cs': totals() }));
      await api.append('a-1', 'Added', { key: 'x', n: 1 });
      await api.notifications(projectionIds.get(key) ?? '', 1);
    }
    await service.stop();
    const partition = { topic: topicOf('newer'), partition: 0 };
    const offset = await writtenByNewer(dataDirectory, partition);

    service = await startService(t, { dataDirectory });
    const of = (key: string): Api => new Api(service, key);
    for (let i = 0; i < 30; i++)
      for (const path of ['/events/a-1', '/aggregates', '/projections', '/feed'])
        problem(await of(newer).get(path), 503, 'UNAVAILABLE');
    problem(await of(newer).post('/events', { aggregateId: 'a-1', eventType: 'Added', data: {} }), 503, 'UNAVAILABLE');
    assert.equal((await of(other).append('a-1', 'Added', { key: 'x', n: 2 })).version, 2);
    await of(other).notifications(projectionIds.get(other) ?? '', 2);
    assert.deepEqual((await of(newer).read<{ tenantId: string }>('/auth/whoami')).tenantId, 'newer');
    const said = new RegExp(`schema id ${UNKNOWN_ID}, this process knows [^"]*a newer version of the service`);
    const lines = service.output.split('\n').filter((line) => said.test(line));
    assert.ok(lines.length >= 1 && lines.length <= 20, `${lines.length} lines of log`);
    success(await new Api(service, null).get('/health/ready'), 200);
    await service.stop();

    const log = new LmdbLog({ path: join(dataDirectory, 'log') });
    const { records } = await log.read(partition, offset, 1 << 20);
    assert.deepEqual(
      records.map(({ key }) => key.toString()),
      ['newer#1'],
      'nothing was written behind it',
    );
    await log.close();
  });
