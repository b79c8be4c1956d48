// Child process: what one writes first with the same packages. express parses a body, kafkajs sends it as one record and the answer
// waits for that, a kafkajs consumer pushes what it reads to WebSockets. No versions, no folds, no read store. Arguments: topic,
// brokers. Prints its port.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { Kafka, logLevel } from 'kafkajs';
import { WebSocketServer } from 'ws';

const [topic = '', ...brokers] = process.argv.slice(2);
const kafka = new Kafka({ clientId: 'plain', brokers, logLevel: logLevel.NOTHING });
const producer = kafka.producer({ allowAutoTopicCreation: false, retry: { retries: 0 } });
const consumer = kafka.consumer({ groupId: `${topic}.plain`, maxWaitTimeInMs: 1000 });
await producer.connect();
await consumer.connect();
await consumer.subscribe({ topic, fromBeginning: false });

interface Body {
  readonly aggregateId: string;
  readonly events?: readonly object[];
}

const app = express();
app.use(express.json({ limit: '10mb' }));
app.post(['/events', '/events/batch'], async (request, response) => {
  const { aggregateId, events, ...event } = request.body as Body;
  const timestamp = new Date().toISOString();
  const stored = (events ?? [event]).map((one) => ({ eventId: randomUUID(), timestamp, ...one }));
  await producer.send({
    topic,
    acks: -1,
    messages: [{ key: aggregateId, value: JSON.stringify({ aggregateId, events: stored }) }],
  });
  response.status(201).json({ aggregateId, eventIds: stored.map(({ eventId }) => eventId), timestamp });
});
const server = createServer(app);
const sockets = new WebSocketServer({ server });
const joined = new Promise<void>((resolve) => consumer.on(consumer.events.FETCH_START, () => resolve()));
await consumer.run({
  autoCommit: false,
  eachMessage: ({ message }) => {
    for (const socket of sockets.clients) socket.send(message.value?.toString() ?? '');
    return Promise.resolve();
  },
});
await joined;
server.listen(0, '127.0.0.1', () => process.stdout.write(String((server.address() as AddressInfo).port)));
