// Child process: a bare express handler that parses a JSON body and answers. Prints its port.
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import express from 'express';

const app = express();
app.use(express.json());
app.post('/events', (request, response) => {
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
