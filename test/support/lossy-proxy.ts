// A link between a client and a service that loses what the test says: requests, answers, or a connection in the middle of one.
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { connect } from 'node:net';
import type { TestContext } from 'node:test';

/** What becomes of a request. `lose answer`: the service has answered it. `cut answer`: half of the answer comes through. */
export type Fate = 'pass' | 'lose request' | 'lose answer' | 'cut answer';

export interface LossyProxy {
  readonly url: string;
  /** Of requests that begin from now on; the number counts them, from 0. */
  fate: (request: IncomingMessage, number: number) => Fate;
  /** Requests that came, as `METHOD path`. */
  readonly seen: string[];
  /** Cuts all connections that are open, tunnels too. */
  cut(): void;
}

export async function lossyProxy(t: Pick<TestContext, 'after'>, target: string): Promise<LossyProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const seen: string[] = [];
  const server = createServer((request, response) => {
    const number = seen.push(`${request.method} ${request.url}`) - 1;
    const fate = proxy.fate(request, number);
    if (fate === 'lose request') return void request.socket.destroy();
    pass(request, response, fate);
  });
  const pass = (request: IncomingMessage, response: ServerResponse, fate: Fate): void => {
    const forwarded = httpRequest(
      { hostname, port, method: request.method, path: request.url, headers: request.headers, agent: false },
      (answer) => {
        if (fate === 'pass') {
          response.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(response);
          answer.on('error', () => response.destroy());
          return;
        }
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('end', () => {
          if (fate === 'cut answer') {
            const body = Buffer.concat(chunks);
            response.writeHead(answer.statusCode ?? 502, answer.headers);
            response.write(body.subarray(0, body.length / 2), () => request.socket.destroy());
          } else request.socket.destroy();
        });
      },
    );
    forwarded.on('error', () => response.destroy());
    response.on('close', () => forwarded.destroy());
    request.pipe(forwarded);
  };
  server.on('upgrade', (request, socket: Socket, head) => {
    const number = seen.push(`UPGRADE ${request.url}`) - 1;
    if (proxy.fate(request, number) !== 'pass') return void socket.destroy();
    const upstream = connect(Number(port), hostname, () => {
      const lines = [`GET ${request.url} HTTP/1.1`];
      for (let i = 0; i + 1 < request.rawHeaders.length; i += 2)
        lines.push(`${request.rawHeaders[i]}: ${request.rawHeaders[i + 1]}`);
      upstream.write(`${lines.join('\r\n')}\r\n\r\n`);
      upstream.write(head);
      upstream.pipe(socket).pipe(upstream);
    });
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      one.on('error', () => other.destroy());
      one.on('close', () => other.destroy());
    }
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  t.after(() => {
    server.close();
    cut();
  });
  const proxy: LossyProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    fate: () => 'pass',
    seen,
    cut,
  };
  return proxy;
}
