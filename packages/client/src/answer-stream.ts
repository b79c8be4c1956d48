import { textOf } from './body.js';
import { UnexpectedAnswerError, UnreachableError } from './errors.js';
import { refusalOf, type Transport } from './transport.js';

/** The service says something at least every 20 s. */
const SILENT_MS = 45_000;
const OPEN_MS = 15_000;

export interface AnswerStreamOptions {
  readonly transport: Transport;
  /** That say who asks; unless given, with the key. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly path: string;
  readonly accept: string;
  /** Between two parts. */
  readonly separator: string;
  readonly signal: AbortSignal;
  /** Instead of being over, an answer that breaks off throws. */
  readonly mustEnd?: boolean;
}

/**
 * The parts of an answer that goes on, read as fast as the loop takes them, so none gathers here. A part that broke off is none.
 * @throws ClientError where no such answer comes
 */
export async function* answerStream(options: AnswerStreamOptions): AsyncGenerator<string, void, undefined> {
  const { transport, headers: asking, path, accept, separator, signal, mustEnd = false } = options;
  const ended = new AbortController();
  const end = (): void => ended.abort();
  if (signal.aborted) end();
  signal.addEventListener('abort', end, { once: true });
  let timer = setTimeout(end, OPEN_MS);
  try {
    const response = await transport.open(path, { accept, asking, signal: ended.signal });
    const { status, headers, body } = response;
    if (status !== 200)
      throw refusalOf(transport.url, { status, headers, text: await transport.textOf(response, ended.signal) });
    if (body === null || !(headers.get('content-type') ?? '').startsWith(accept)) {
      body?.cancel().catch(() => undefined);
      throw new UnexpectedAnswerError(transport.url, status, `something else than ${accept}`);
    }
    const pieces = textOf(body, ended.signal);
    let rest = '';
    for (;;) {
      clearTimeout(timer);
      timer = setTimeout(end, SILENT_MS);
      const { done, value } = await pieces.next().catch((error: unknown) => {
        if (mustEnd) throw new UnreachableError(transport.url, error);
        return { done: true, value: undefined } as const;
      });
      if (done === true) return;
      clearTimeout(timer);
      const parts = (rest + value).split(separator);
      rest = parts.pop() ?? '';
      yield* parts;
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
    ended.abort();
  }
}
