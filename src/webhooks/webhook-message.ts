import { Webhook } from 'standardwebhooks';
import type { Change } from '../core/change.js';
import { isoTimestamp } from '../core/event.js';
import { notificationBytes } from '../feed/notification-record.js';

/** The body of a delivery, the same on every attempt. */
export function webhookBody(change: Change): Buffer {
  const head = `{"type":"projection.state_changed","timestamp":"${isoTimestamp(change.timestamp)}","data":`;
  return Buffer.concat([Buffer.from(head), notificationBytes(change).record, Buffer.from('}')]);
}

/** What a receiver tells repeated deliveries by. */
export const webhookId = (change: Change): string => `msg_${change.projectionId}_${change.sequence}`;

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
