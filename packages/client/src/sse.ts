import { UnexpectedAnswerError, UnreachableError } from './errors.js';
import type { Live } from './subscription.js';
import { parsed, refusalOf } from './transport.js';
import type { Notification } from './wire.js';

/** The service sends something at least every 20 s. */
const SILENT_MS = 45_000;
const OPEN_MS = 15_000;

/** Changes as server-sent events: read as fast as the loop takes them, so none gathers here. */
export const sseLive: Live = async function* ({ transport, path, signal }) {
  const ended = new AbortController();
  const end = (): void => ended.abort();
  signal.addEventListener('abort', end, { once: true });
  let timer = setTimeout(end, OPEN_MS);
  try {
    const response = await fetch(transport.url + path, {
      headers: { ...transport.headers('tenant'), Accept: 'text/event-stream' },
      redirect: 'error',
      signal: ended.signal,
    }).catch((error: unknown) => {
      throw new UnreachableError(transport.url, error);
    });
    const { status, headers, body } = response;
    if (status !== 200) throw refusalOf(transport.url, { status, headers, text: await response.text() });
    if (body === null || !(headers.get('content-type') ?? '').startsWith('text/event-stream'))
      throw new UnexpectedAnswerError(transport.url, status, 'no event stream');
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      clearTimeout(timer);
      timer = setTimeout(end, SILENT_MS);
      const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }) as const);
      if (done) return;
      clearTimeout(timer);
      const events = (rest + value).split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) {
        const change = changeOf(event);
        if (change !== undefined) yield change;
      }
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
    ended.abort();
  }
};

function changeOf(event: string): Notification | undefined {
  const lines = event.split('\n');
  if (!lines.includes('event: state_changed')) return undefined;
  const data = lines.filter((line) => line.startsWith('data: ')).map((line) => line.slice(6));
  return parsed(data.join('\n')) as Notification | undefined;
}
