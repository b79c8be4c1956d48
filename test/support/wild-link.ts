// A link that drops, delays and cuts what passes, by a seed, and leads to wherever the service is just now.
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { TestContext } from 'node:test';

export interface WildLinkOptions {
  /** From 0 to 1, of each connection; the rest of them pass as they are. */
  readonly wild: number;
  readonly random: () => number;
  /** Where connections lead that are opened now; undefined: nowhere. */
  readonly target: () => string | undefined;
}

export interface WildLink {
  readonly url: string;
  /** How many connections it has cut, how many it let fall silent before that, and how many chunks it held up. */
  readonly done: { cut: number; dropped: number; delayed: number };
  /** Lets everything pass from now on. */
  calm(): void;
}

const MOST_BYTES = 40_000;
const MOST_DELAY_MS = 60;
/** What is dropped is noticed by its end: an end that no reader can tell from a slow link. */
const SILENT_MS = 400;

export async function wildLink(
  t: Pick<TestContext, 'after'>,
  { wild, random, target }: WildLinkOptions,
): Promise<WildLink> {
  const sockets = new Set<Socket>();
  const done = { cut: 0, dropped: 0, delayed: 0 };
  let isCalm = false;
  const server = createServer((client) => {
    sockets.add(client);
    client.on('error', () => undefined).once('close', () => sockets.delete(client));
    const to = target();
    if (to === undefined) return void client.destroy();
    const { hostname, port } = new URL(to);
    const service = connect(Number(port), hostname);
    sockets.add(service);
    service.on('error', () => undefined).once('close', () => sockets.delete(service));
    const both = (): void => {
      client.destroy();
      service.destroy();
    };
    client.once('close', both);
    service.once('close', both);
    const isWild = !isCalm && random() < wild;
    let left = isWild ? random() * MOST_BYTES : Infinity;
    const falls = random() < 0.5;
    const pass = async (from: Socket, into: Socket): Promise<void> => {
      for await (const chunk of from as AsyncIterable<Buffer>) {
        left -= chunk.length;
        if (left < 0 && !isCalm) {
          if (falls) {
            // Half of it came through, and no more is heard.
            into.write(chunk.subarray(0, chunk.length / 2));
            left = -Infinity;
            done.dropped++;
            await new Promise((resolve) => setTimeout(resolve, SILENT_MS).unref());
          }
          done.cut++;
          return both();
        }
        if (isWild && random() < 0.3) {
          done.delayed++;
          await new Promise((resolve) => setTimeout(resolve, random() * MOST_DELAY_MS).unref());
        }
        if (!into.write(chunk)) await new Promise((resolve) => into.once('drain', resolve).once('close', resolve));
      }
      into.end();
    };
    for (const [from, into] of [
      [client, service],
      [service, client],
    ] as const)
      pass(from, into).catch(both);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    done,
    calm: () => {
      isCalm = true;
      for (const socket of sockets) socket.destroy();
    },
  };
}
