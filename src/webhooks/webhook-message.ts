import type { KeyObject } from 'node:crypto';
import type { EndpointSource } from '../catalog/catalog.js';
import type { Change } from '../core/change.js';
import { isoTimestamp } from '../core/event.js';
import { erasureRecord } from '../feed/event-record.js';
import { isErasure, type FeedItem, type PositionedErasure, type PositionedEvent } from '../feed/feed-item.js';
import { notificationBytes } from '../feed/notification-record.js';
import { ALL_EVENTS, changesOf } from '../feed/sources.js';
import type { Source } from '../feed/tenant-feeds.js';
import type { Filtered } from './endpoint-filter.js';
import { signatureOf } from './signature.js';

/** An item of a feed on its way to an endpoint. */
export interface Message extends Filtered {
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
  /** What an endpoint may choose the item by. */
  filtered(item: T): Filtered;
  messageOf(item: T): Message;
  /** The same for one that is kept until it is delivered: it holds no more than its bytes, and nothing of the record that the item was read with. */
  keptOf(item: T): Message;
}

/** The feed that an endpoint follows, as far as only its positions count. */
export const sourceOf = (source: EndpointSource): Source<unknown> => messagesOf(source).source;

/** The messages of what an endpoint follows. */
export const messagesOf = (source: EndpointSource): MessageFeed<unknown> =>
  'feed' in source ? EVENT_MESSAGES : changeMessages(source.projectionId);

export const changeMessages = (projectionId: string): MessageFeed<Change> => ({
  source: changesOf(projectionId),
  filtered: (change) => change,
  messageOf: messageOfChange,
  // A change is a record of its own, whose state is apart from it.
  keptOf: messageOfChange,
});

const messageOfChange = (change: Change): Message => ({
  position: change.sequence,
  key: change.key,
  aggregateType: change.aggregateType,
  bytes: RECORD_BYTES + (change.state?.length ?? 0),
  id: `msg_${change.projectionId}_${change.sequence}`,
  body: () => changeBody(change),
});

/** All events of the tenant, and which aggregates were erased; those of an aggregate in order. */
export const EVENT_MESSAGES: MessageFeed<FeedItem> = {
  source: ALL_EVENTS,
  // Who chose some types of events is told of erasures too: it may have copies.
  filtered: (item) => ({
    key: item.aggregateId,
    aggregateType: item.aggregateType,
    ...(isErasure(item) ? {} : { eventType: item.eventType }),
  }),
  messageOf: (item) => (isErasure(item) ? messageOfErasure(item) : messageOfEvent(item)),
  keptOf: (item) => (isErasure(item) ? messageOfErasure(item) : messageOfEvent(apart(item))),
};

/** An event of a batch keeps all of the batch, and what the log has in one piece with it. */
function apart(event: PositionedEvent): PositionedEvent {
  const { position, eventId, aggregateId, aggregateType, eventType, version, timestamp } = event;
  const { correlationId, causationId, data, metadata } = event;
  return {
    ...{ position, eventId, aggregateId, aggregateType, eventType, version, timestamp, correlationId, causationId },
    data: Buffer.from(data),
    metadata: metadata && Buffer.from(metadata),
  };
}

const messageOfErasure = (erasure: PositionedErasure): Message => ({
  position: erasure.position,
  key: erasure.aggregateId,
  aggregateType: erasure.aggregateType,
  bytes: RECORD_BYTES,
  id: `msg_erased_${erasure.position}`,
  body: () =>
    Buffer.from(
      JSON.stringify({
        type: 'aggregate.erased',
        timestamp: isoTimestamp(erasure.timestamp),
        data: erasureRecord(erasure),
      }),
    ),
});

function messageOfEvent(event: PositionedEvent): Message {
  return {
    position: event.position,
    key: event.aggregateId,
    aggregateType: event.aggregateType,
    eventType: event.eventType,
    bytes: RECORD_BYTES + event.data.length + (event.metadata?.length ?? 0),
    id: `msg_${event.eventId}`,
    body: () => eventBody(event),
  };
}

const RECORD_BYTES = 512;

/** The record is spliced of the bytes that were appended: numbers keep their digits. */
function eventBody(event: PositionedEvent): Buffer {
  const { position, eventId, aggregateId, aggregateType, eventType, version, timestamp, data, metadata } = event;
  const { correlationId, causationId } = event;
  const time = isoTimestamp(timestamp);
  const more = (name: string, value: string | undefined): string =>
    value === undefined ? '' : `,"${name}":${JSON.stringify(value)}`;
  return Buffer.concat([
    Buffer.from(
      `{"type":"event.appended","timestamp":"${time}","data":{"position":${position},"eventId":${JSON.stringify(eventId)}` +
        `,"aggregateId":${JSON.stringify(aggregateId)},"aggregateType":${JSON.stringify(aggregateType)}` +
        `,"eventType":${JSON.stringify(eventType)},"data":`,
    ),
    data,
    Buffer.from(
      `,"version":${version},"timestamp":"${time}"${more('correlationId', correlationId)}${more('causationId', causationId)}`,
    ),
    ...(metadata === undefined ? [] : [Buffer.from(',"metadata":'), metadata]),
    Buffer.from('}}'),
  ]);
}

function changeBody(change: Change): Buffer {
  const head = `{"type":"projection.state_changed","timestamp":"${isoTimestamp(change.timestamp)}","data":`;
  return Buffer.concat([Buffer.from(head), notificationBytes(change).record, Buffer.from('}')]);
}

/** Headers of one attempt (Standard Webhooks 1.0); `at`: milliseconds since the epoch; `keys`: those that sign, newest first. */
export function webhookHeaders(
  id: string,
  at: number,
  body: Buffer,
  keys: readonly KeyObject[],
): Record<string, string> {
  const seconds = Math.floor(at / 1_000);
  return {
    'content-type': 'application/json',
    'user-agent': 'Statefold-Webhooks/1',
    'webhook-id': id,
    'webhook-timestamp': `${seconds}`,
    'webhook-signature': keys.map((key) => signatureOf(key, id, seconds, body)).join(' '),
  };
}
