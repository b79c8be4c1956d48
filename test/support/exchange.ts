// One request and its whole answer, by Node's own client: a test makes a thousand of them, and `fetch` with its streams takes twice as long.
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';

export type Payload = string | Buffer | FormData;

export interface Exchanged {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Rejects when the connection ends before the answer has. */
export async function exchange(
  method: string,
  url: string,
  headers: Readonly<Record<string, string>>,
  payload?: Payload,
  signal?: AbortSignal,
): Promise<Exchanged> {
  const { type, body } = await encoded(payload);
  const sent = request(url, {
    method,
    // Told always: with some methods Node leaves it out.
    headers: {
      ...(type === undefined ? {} : { 'content-type': type }),
      ...(body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
      ...headers,
    },
    ...(signal === undefined ? {} : { signal }),
  });
  // Past the beginning of the answer it is the answer that fails.
  sent.on('error', () => undefined).end(body);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: answer.statusCode ?? 0, headers: headersOf(answer), text: await text(answer) };
}

async function encoded(payload: Payload | undefined): Promise<{ type?: string | undefined; body?: string | Buffer }> {
  if (payload === undefined) return {};
  if (!(payload instanceof FormData)) return { body: payload };
  const form = new Response(payload);
  return { type: form.headers.get('content-type') ?? undefined, body: Buffer.from(await form.arrayBuffer()) };
}

function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) headers.append(rawHeaders[at] ?? '', rawHeaders[at + 1] ?? '');
  return headers;
}
