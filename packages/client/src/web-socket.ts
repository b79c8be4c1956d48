import { RefusedError, UnreachableError } from './errors.js';
import { isErasure, type LiveOptions, type Told, type WebSocketLike } from './live.js';

const OPEN_MS = 15_000;
/** The service pings every 30 s at most. */
const SILENT_MS = 75_000;
/** Past it the socket is closed until the loop has taken them: a WebSocket can't be told to wait. */
const MOST_QUEUED = 2_000;
const MOST_QUEUED_CHARACTERS = 8 * 1024 * 1024;

/** Of a close: a page is told of it by this alone. */
const CURSOR_EXPIRED = 4410;

/** As a poll is refused. */
function cursorExpired(reason: string): RefusedError {
  const oldest = /oldestSequence (\d+)$/.exec(reason)?.[1];
  return new RefusedError({
    ...{ type: 'about:blank', title: 'Cursor expired', status: 410, code: 'CURSOR_EXPIRED', detail: reason },
    requestId: '',
    ...(oldest !== undefined && { oldestSequence: Number(oldest) }),
  });
}

/** Items over a WebSocket. */
export async function* webSocketLive<T extends object>({
  followed,
  transport,
  headers = transport.headers('tenant'),
  path,
  signal,
  webSocket,
}: LiveOptions<T>): AsyncGenerator<Told<T>, void, undefined> {
  if (signal.aborted) throw signal.reason as Error;
  const open = webSocket ?? platformSocket;
  const socket = open(transport.url.replace(/^http/, 'ws') + path, headers);
  let queue: Told<T>[] = [];
  let characters = 0;
  let isOpen = false;
  let isOver = false;
  let expired: string | undefined;
  let wake: (() => void) | undefined;
  const changed = (): void => {
    wake?.();
    wake = undefined;
  };
  const close = (): void => {
    isOver = true;
    socket.close();
    changed();
  };
  let timer = setTimeout(close, OPEN_MS);
  const alive = (): void => {
    clearTimeout(timer);
    timer = setTimeout(close, SILENT_MS);
  };
  const over = (): void => {
    isOver = true;
    changed();
  };
  signal.addEventListener('abort', close, { once: true });
  socket.addEventListener('open', () => {
    isOpen = true;
    alive();
  });
  socket.addEventListener('close', ({ code, reason }) => {
    if (code === CURSOR_EXPIRED) expired = reason;
    over();
  });
  socket.addEventListener('error', over);
  socket.addEventListener('message', ({ data }) => {
    if (isOver) return;
    alive();
    const text = String(data);
    const message = transport.parse(text) as
      { readonly type?: string; readonly position?: number; readonly sequence?: number } | undefined;
    if (message?.type === 'ping') socket.send('{"type":"pong"}');
    if (message?.type === followed.type) {
      const { type: _type, ...item } = message;
      queue.push(item as T);
    } else if (isErasure(message)) queue.push(message);
    else if (message?.type === 'position' && message.position !== undefined) queue.push(message.position);
    else if (message?.type === 'snapshot_end' && message.sequence !== undefined) queue.push(message.sequence);
    else return;
    characters += text.length;
    changed();
    if (queue.length >= MOST_QUEUED || characters >= MOST_QUEUED_CHARACTERS) close();
  });
  try {
    for (;;) {
      while (queue.length > 0) {
        const taken = queue;
        queue = [];
        characters = 0;
        yield* taken;
      }
      if (isOver) break;
      await new Promise<void>((resolve) => (wake = resolve));
    }
    if (expired !== undefined) throw cursorExpired(expired);
    if (!isOpen) throw new UnreachableError(transport.url, new Error('the WebSocket was not opened'));
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', close);
    socket.close();
  }
}

/** That of Node.js takes headers as an option, which the types of browsers don't know; these take none, and need none with a ticket. */
function platformSocket(url: string, headers: Readonly<Record<string, string>>): WebSocketLike {
  const { WebSocket } = globalThis as unknown as {
    readonly WebSocket: new (
      url: string,
      options?: { readonly headers: Readonly<Record<string, string>> },
    ) => WebSocketLike;
  };
  return Object.keys(headers).length === 0 ? new WebSocket(url) : new WebSocket(url, { headers });
}
