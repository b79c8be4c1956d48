// Appends to an embedded log for as long as it lives and prints what was acknowledged: "<partition> <base offset> <number of records> <client>.<append>".
// It is killed by the test that starts it.
import { randomBytes } from 'node:crypto';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';

const log = new LmdbLog({ path: process.argv[2] ?? '' });
await log.ensureTopics([{ topic: 'events', partitions: 2, cleanup: { policy: 'tombstones' } }]);

async function client(partition: number, id: number): Promise<never> {
  for (let i = 0; ; i++) {
    const count = 1 + (i % 4);
    const records = Array.from({ length: count }, (_, j) => ({
      key: Buffer.from(`${id}.${i}.${j}`),
      value: randomBytes(10 + (i % 700)),
    }));
    const { baseOffset } = await log.append({ topic: 'events', partition }, records);
    process.stdout.write(`${partition} ${baseOffset} ${count} ${id}.${i}\n`);
  }
}

await Promise.all(Array.from({ length: 16 }, (_, id) => client(id % 2, id)));
