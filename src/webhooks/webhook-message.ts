import { Webhook } from 'standardwebhooks';
import type { Change } from '../core/change.js';
import { isoTimestamp } from '../core/event.js';
import { notificationBytes } from '../feed/notification-record.js';
import { changesOf } from '../feed/sources.js';
import type { Source } from '../feed/tenant-feeds.js';

/** An item of a feed on its way to an endpoint. */
export interface Message {
  /** Of the item in the feed. */
  readonly position: number;
  /** Messages of one key are delivered one after the other. */
  readonly key: string;
  /** About what the item takes in memory. */
  readonly bytes: number;
  /** What a receiver tells repeated deliveries by: `webhook-id`. */
  readonly id: string;
  /** The same on every attempt. */
  body(): Buffer;
}

/** What an endpoint delivers: the items of a feed, and the message of each. Another feed is another of these. */
export interface MessageFeed<T> {
  readonly source: Source<T>;
  messageOf(item: T): Message;
}

export const changeMessages = (projectionId: string): MessageFeed<Change> => ({
  source: changesOf(projectionId),
  messageOf: (change) => ({
    position: change.sequence,
    key: change.key,
    bytes: RECORD_BYTES + (change.state?.length ?? 0),
    id: `msg_${change.projectionId}_${change.sequence}`,
    body: () => changeBody(change),
  }),
});

const RECORD_BYTES = 512;

function changeBody(change: Change): Buffer {
  const head = `{"type":"projection.state_changed","timestamp":"${isoTimestamp(change.timestamp)}","data":`;
  return Buffer.concat([Buffer.from(head), notificationBytes(change).record, Buffer.from('}')]);
}

/** Headers of one attempt (Standard Webhooks 1.0); `secrets`: newest first. */
export function webhookHeaders(id: string, at: Date, body: Buffer, secrets: readonly string[]): Record<string, string> {
  return {
    'content-type': 'application/json',
    'user-agent': 'Statefold-Webhooks/1',
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
    'webhook-signature': secrets.map((secret) => new Webhook(secret).sign(id, at, body)).join(' '),
  };
}
