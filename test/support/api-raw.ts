import { connect } from 'node:net';

export interface RawAnswer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/**
 * Sends bytes as they are over a connection of their own and gives the first answer, once the service has closed it or the
 * answer is whole. `after` writes more when the connection is open.
 */
export function rawRequest(url: string, bytes: Buffer | string, deadlineMs = 20_000): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    const chunks: Buffer[] = [];
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`no whole answer within ${deadlineMs} ms: ${Buffer.concat(chunks).toString()}`));
    }, deadlineMs);
    const done = (): void => {
      clearTimeout(timer);
      socket.destroy();
      const answer = parsed(Buffer.concat(chunks));
      if (answer === undefined) reject(new Error(`closed without a whole answer: ${Buffer.concat(chunks).toString()}`));
      else resolve(answer);
    };
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      if (parsed(Buffer.concat(chunks)) !== undefined) done();
    });
    socket.on('close', done);
    // A reset after the answer is no news.
    socket.on('error', () => undefined);
    socket.write(bytes);
  });
}

function parsed(bytes: Buffer): RawAnswer | undefined {
  const text = bytes.toString();
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const head = text.slice(0, end);
  const body = text.slice(end + 4);
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
  return Buffer.byteLength(body) < length ? undefined : { status: Number(head.split(' ')[1]), head, body };
}

/** A request as its bytes; `Content-Length` is added unless the headers say how long the body is. */
export function requestBytes(
  method: string,
  path: string,
  headers: readonly (readonly [string, string])[],
  body: Buffer | string = '',
): Buffer {
  const content = Buffer.from(body as string);
  const named = headers.map(([name]) => name.toLowerCase());
  const length =
    named.includes('content-length') || named.includes('transfer-encoding') || content.length === 0
      ? []
      : [['Content-Length', String(content.length)] as const];
  const host = named.includes('host') ? [] : [['Host', 'statefold'] as const];
  const lines = [...host, ...headers, ...length].map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines}\r\n`, 'latin1'), content]);
}
