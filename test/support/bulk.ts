// A client of `POST /events/bulk` that writes and reads when the test says so.
import { once } from 'node:events';
import { request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http';
import { createInterface } from 'node:readline';

export interface BulkLine {
  readonly line: number;
  readonly status: number;
  readonly aggregateId?: string;
  readonly version?: number;
  readonly code?: string;
  readonly detail?: string;
  readonly pointer?: string;
  readonly [member: string]: unknown;
}

export class BulkClient {
  readonly #request: ClientRequest;
  readonly #answer: Promise<IncomingMessage>;
  #lines: AsyncIterator<string> | undefined;

  constructor(url: string, key: string, query = '', headers: Readonly<Record<string, string>> = {}) {
    this.#request = httpRequest(`${url}/events/bulk${query}`, {
      method: 'POST',
      agent: false,
      headers: { 'x-api-key': key, 'content-type': 'application/x-ndjson', ...headers },
    });
    this.#answer = once(this.#request, 'response').then(([answer]) => answer as IncomingMessage);
    this.#answer.catch(() => undefined);
    this.#request.on('error', () => undefined);
    this.#request.flushHeaders();
  }

  get request(): ClientRequest {
    return this.#request;
  }

  /** False: what is written waits in this process. */
  write(...lines: readonly (object | string)[]): boolean {
    return this.raw(lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''));
  }

  raw(text: string | Buffer): boolean {
    return this.#request.write(text);
  }

  end(): void {
    this.#request.end();
  }

  async status(): Promise<number> {
    return (await this.#answer).statusCode ?? 0;
  }

  /** Undefined: there are no more. */
  async next(): Promise<BulkLine | undefined> {
    this.#lines ??= createInterface({ input: await this.#answer, crlfDelay: Infinity })[Symbol.asyncIterator]();
    const { done, value } = (await this.#lines.next()) as { readonly done?: boolean; readonly value: string };
    return done === true ? undefined : (JSON.parse(value) as BulkLine);
  }

  async rest(): Promise<BulkLine[]> {
    const lines: BulkLine[] = [];
    for (let line = await this.next(); line !== undefined; line = await this.next()) lines.push(line);
    return lines;
  }
}

/** All lines in one body. */
export async function bulk(
  url: string,
  key: string,
  lines: readonly (object | string)[],
  query = '',
): Promise<BulkLine[]> {
  const client = new BulkClient(url, key, query);
  client.write(...lines);
  client.end();
  return client.rest();
}
