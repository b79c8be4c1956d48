// Child process: a bare express handler that parses a JSON body and answers. Argument: a file that the body is in, on the disk, before the
// answer; what comes while it is written shares the next write. Prints its port.
import { randomUUID } from 'node:crypto';
import { open } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { Gathered } from '../../src/core/gathered.js';

const [path] = process.argv.slice(2);
const file = path === undefined ? undefined : await open(path, 'a');
const lines: string[] = [];
const written = new Gathered(async () => {
  await file?.appendFile(lines.splice(0).join(''));
  await file?.datasync();
});

const app = express();
app.use(express.json());
app.post('/events', async (request, response) => {
  if (file !== undefined) {
    lines.push(`${JSON.stringify(request.body)}\n`);
    await written.asked();
  }
  const { aggregateId } = request.body as { aggregateId: string };
  response.status(201).json({
    eventId: randomUUID(),
    aggregateId,
    aggregateType: 'counter',
    version: 1,
    timestamp: new Date().toISOString(),
    state: { total: 1, entries: 1 },
  });
});
const server = app.listen(0, '127.0.0.1', () => process.stdout.write(String((server.address() as AddressInfo).port)));
