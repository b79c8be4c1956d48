// What an endpoint holds until it is delivered.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EVENT_MESSAGES } from '../../src/webhooks/webhook-message.js';

test('a message of an event holds nothing of the record that it was read with', () => {
  const record = Buffer.from('{"n":1}{"by":"a"}'.padEnd(100_000));
  const event = {
    ...{ position: 7, eventId: 'e', aggregateId: 'a-1', aggregateType: 'a', eventType: 'E', version: 1, timestamp: 1 },
    ...{ correlationId: 'c', causationId: undefined, data: record.subarray(0, 7), metadata: record.subarray(7, 17) },
  };
  const [seen, kept] = [EVENT_MESSAGES.messageOf(event), EVENT_MESSAGES.keptOf(event)];
  const body = seen.body().toString();
  assert.equal(kept.bytes, seen.bytes);
  assert.equal(kept.id, seen.id);
  record.fill(0x20);
  assert.equal(kept.body().toString(), body);
});
