// A broker of Kafka's protocol that says what a test has it say: what a real one says only when its cluster is in a bad way.
import { createServer, type AddressInfo, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { WireReader, WireWriter } from '../../src/kafka/wire.js';

export const API = { Fetch: 1, ListOffsets: 2, Metadata: 3, ApiVersions: 18 } as const;

/** What follows the head of a request; gives what follows the head of its answer. */
export type Answers = Partial<Record<keyof typeof API, (request: WireReader) => Buffer>>;

export interface FakeBroker {
  readonly host: string;
  readonly port: number;
  readonly address: string;
  /** Requests that came, and when, on the clock of `performance`. */
  readonly seen: { readonly api: keyof typeof API; readonly at: number }[];
  /** May be changed while it runs. */
  answers: Answers;
}

const versions = (): Buffer => {
  const keys = Object.values(API);
  const writer = new WireWriter().int16(0).int32(keys.length);
  for (const key of keys)
    writer
      .int16(key)
      .int16(0)
      .int16(key === API.ApiVersions ? 2 : 12);
  return writer.int32(0).take();
};

export async function startFakeBroker(t: Pick<TestContext, 'after'>, answers: Answers = {}): Promise<FakeBroker> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    let rest = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
        const size = 4 + rest.readInt32BE(0);
        socket.write(answer(rest.subarray(4, size)));
        rest = rest.subarray(size);
      }
    });
  });
  const answer = (frame: Buffer): Buffer => {
    const request = new WireReader(frame);
    const [key, , correlation] = [request.int16(), request.int16(), request.int32()];
    request.string(); // client id
    const api = (Object.keys(API) as (keyof typeof API)[]).find((name) => API[name] === key);
    if (api === undefined) throw new Error(`the test has no answer to a request ${key}`);
    broker.seen.push({ api, at: performance.now() });
    const body = api === 'ApiVersions' ? versions() : broker.answers[api]?.(request);
    if (body === undefined) throw new Error(`the test has no answer to ${api}`);
    return Buffer.concat([
      new WireWriter()
        .int32(4 + body.length)
        .int32(correlation)
        .take(),
      body,
    ]);
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const broker: FakeBroker = { host: '127.0.0.1', port, address: `127.0.0.1:${port}`, seen: [], answers };
  return broker;
}

/** An answer to Metadata, version 7, of one topic with one partition. */
export function metadataOf(
  brokers: readonly FakeBroker[],
  topic: string,
  { leader, epoch }: { readonly leader: number; readonly epoch: number },
): Buffer {
  const writer = new WireWriter().int32(0).int32(brokers.length);
  for (const [id, { host, port }] of brokers.entries()) writer.int32(id).string(host).int32(port).string(null);
  writer.string('cluster').int32(0);
  writer.int32(1).int16(0).string(topic).int8(0);
  writer.int32(1).int16(0).int32(0).int32(leader).int32(epoch);
  const ids = [...brokers.keys()];
  for (const replicas of [ids, ids, []]) {
    writer.int32(replicas.length);
    for (const id of replicas) writer.int32(id);
  }
  return writer.take();
}

/** An answer to Fetch, version 11, of one partition; without `records` one that a quota emptied. */
export function fetchedOf(
  topic: string,
  { throttleMs = 0, end = 0, records }: { throttleMs?: number; end?: number; records?: Buffer },
): Buffer {
  const head = new WireWriter().int32(throttleMs).int16(0).int32(0);
  if (records === undefined) return head.int32(0).take();
  head.int32(1).string(topic).int32(1).int32(0).int16(0).int64(end).int64(end).int64(0).int32(-1).int32(-1);
  return Buffer.concat([head.int32(records.length).take(), records]);
}
