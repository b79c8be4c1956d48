import { UnreachableError } from './errors.js';
import type { Live } from './subscription.js';
import { parsed } from './transport.js';
import type { Notification } from './wire.js';

/** What a subscription needs of a WebSocket: what the platform's has, and that of the package `ws`. */
export interface WebSocketLike {
  addEventListener(type: 'open' | 'close' | 'error', listener: () => void): void;
  addEventListener(type: 'message', listener: (event: { readonly data: unknown }) => void): void;
  send(text: string): void;
  close(): void;
}

/** Opens a WebSocket with headers: `(url, headers) => new WebSocket(url, { headers })` of the package `ws`. */
export type WebSocketFactory = (url: string, headers: Readonly<Record<string, string>>) => WebSocketLike;

const OPEN_MS = 15_000;
/** The service pings every 30 s at most. */
const SILENT_MS = 75_000;
/** Past it the socket is closed until the loop has taken them: a WebSocket can't be told to wait. */
const MOST_QUEUED = 2_000;

/** Changes over a WebSocket. */
export const webSocketLive: Live = async function* ({ transport, path, signal, webSocket }) {
  const open = webSocket ?? platformSocket;
  const socket = open(transport.url.replace(/^http/, 'ws') + path, transport.headers('tenant'));
  const queue: Notification[] = [];
  let isOpen = false;
  let isOver = false;
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
  socket.addEventListener('close', over);
  socket.addEventListener('error', over);
  socket.addEventListener('message', ({ data }) => {
    if (isOver) return;
    alive();
    const message = parsed(String(data)) as { readonly type?: string } | undefined;
    if (message?.type === 'ping') socket.send('{"type":"pong"}');
    if (message?.type !== 'state_changed') return;
    const { type: _type, ...change } = message;
    queue.push(change as Notification);
    changed();
    if (queue.length >= MOST_QUEUED) close();
  });
  try {
    for (;;) {
      for (let change = queue.shift(); change !== undefined; change = queue.shift()) yield change;
      if (isOver) break;
      await new Promise<void>((resolve) => (wake = resolve));
    }
    if (!isOpen) throw new UnreachableError(transport.url, new Error('the WebSocket was not opened'));
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', close);
    socket.close();
  }
};

/** Of Node.js: it takes headers as an option, which the types of browsers don't know. */
function platformSocket(url: string, headers: Readonly<Record<string, string>>): WebSocketLike {
  const { WebSocket } = globalThis as unknown as {
    readonly WebSocket: new (
      url: string,
      options: { readonly headers: Readonly<Record<string, string>> },
    ) => WebSocketLike;
  };
  return new WebSocket(url, { headers });
}
