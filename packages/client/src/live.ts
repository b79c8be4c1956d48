import type { Followed } from './followed.js';
import type { Transport } from './transport.js';
import type { FeedErasure } from './wire.js';

// What the ways to live items have in common.

/** What a subscription needs of a WebSocket: what the platform's has, and that of the package `ws`. */
export interface WebSocketLike {
  addEventListener(type: 'open' | 'error', listener: () => void): void;
  addEventListener(type: 'close', listener: (event: { readonly code: number; readonly reason: string }) => void): void;
  addEventListener(type: 'message', listener: (event: { readonly data: unknown }) => void): void;
  send(text: string): void;
  close(): void;
}

/** Opens a WebSocket with headers: `(url, headers) => new WebSocket(url, { headers })` of the package `ws`. */
export type WebSocketFactory = (url: string, headers: Readonly<Record<string, string>>) => WebSocketLike;

/** An item; an erasure, which has a place among them; or a number: how far all is told, also past what was not wanted. */
export type Told<T extends object> = T | FeedErasure | number;

/** No item has a type of its own. */
export const isErasure = (told: unknown): told is FeedErasure =>
  typeof told === 'object' && told !== null && 'type' in told && told.type === 'erased';

/** A way to live items: begins behind `after`, ends when its connection does, and throws where none comes about. */
export interface LiveOptions<T extends object> {
  readonly followed: Followed<T>;
  readonly transport: Transport;
  /** That say who asks; unless given, with the key. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly path: string;
  readonly signal: AbortSignal;
  readonly webSocket?: WebSocketFactory | undefined;
}
