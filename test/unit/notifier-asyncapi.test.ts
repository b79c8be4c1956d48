import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { findProjectRoot } from '../../src/config/project-root.js';
import { CLOSE } from '../../src/http/websocket/connection.js';
import { eventBytes } from '../../src/feed/event-record.js';
import type { PositionedEvent } from '../../src/feed/feed-item.js';
import { notificationBytes } from '../../src/feed/notification-record.js';
import { changeMessages, EVENT_MESSAGES } from '../../src/webhooks/webhook-message.js';
import { feedOf, ListedInputs } from '../support/listed-inputs.js';
import { change } from '../support/notifier-world.js';

const document = JSON.parse(readFileSync(join(findProjectRoot(), 'schemas', 'asyncapi.json'), 'utf8')) as {
  channels: { stream: { description: string } };
  components: { messages: Record<string, unknown> };
};

const listed = new ListedInputs(Infinity);
listed.commit(1);

test('what the channels carry is what the AsyncAPI document says, field by field', () => {
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  ajv.addSchema(document, 'asyncapi');
  const validate = (message: string, bytes: Buffer): void => {
    const check = ajv.getSchema(`asyncapi#/components/messages/${message}/payload`);
    assert.ok(check, message);
    assert.ok(check(JSON.parse(bytes.toString('utf8'))), `${message}: ${ajv.errorsText(check.errors)}`);
  };
  for (const one of [change(1), change(2, { cause: 'redeploy', state: null })]) {
    validate('state_changed', notificationBytes(one).message);
    validate('event', notificationBytes(one).record);
    validate('delivery', changeMessages(one.projectionId).messageOf(one).body());
  }
  const [input] = feedOf(listed).recent(1, {})?.items ?? [];
  const sent = { correlationId: 'c', causationId: 'd', metadata: Buffer.from('{"m":[1]}') };
  const { position, eventId, aggregateId, aggregateType, eventType, data, version, timestamp } =
    input as PositionedEvent;
  const withContext = { position, eventId, aggregateId, aggregateType, eventType, data, version, timestamp, ...sent };
  for (const event of [input as PositionedEvent, withContext]) {
    validate('feedEvent', eventBytes(event).message);
    validate('feedServerSentEvent', eventBytes(event).record);
    validate('feedLine', eventBytes(event).line);
    validate('eventAppended', EVENT_MESSAGES.messageOf(event).body());
  }
  for (const more of [{ reason: 'asked for' }, { reason: undefined }]) {
    const erased = { position: 7, erased: true, aggregateId: 'a', aggregateType: 't', timestamp: 1, ...more } as const;
    const { message, line, serverSentEvent } = eventBytes(erased);
    for (const bytes of [message, line]) validate('feedErased', bytes);
    validate('feedErasedEvent', Buffer.from(/^data: (.*)$/m.exec(serverSentEvent.toString())?.[1] ?? ''));
    assert.match(serverSentEvent.toString(), /^id: 7\nevent: erased\n/);
    validate('aggregateErased', EVENT_MESSAGES.messageOf(erased).body());
  }
  const whole = eventBytes(withContext).record.toString();
  const { feedRecord } = (document as unknown as { components: { schemas: { feedRecord: { properties: object } } } })
    .components.schemas;
  assert.deepEqual(Object.keys(JSON.parse(whole) as object).sort(), Object.keys(feedRecord.properties).sort());
  validate('position', Buffer.from('{"type":"position","position":0}'));
  validate('ping', Buffer.from('{"type":"ping"}'));
  assert.throws(() => validate('state_changed', notificationBytes(change(3)).record), /type/);
  const fields = Object.keys(JSON.parse(notificationBytes(change(1, { cause: 'build' })).record.toString()) as object);
  const documented = (document as unknown as { components: { schemas: { record: { properties: object } } } }).components
    .schemas.record.properties;
  assert.deepEqual(fields.sort(), Object.keys(documented).sort());
});

test('every code with which a socket is closed is documented', () => {
  for (const code of Object.values(CLOSE))
    assert.ok(document.channels.stream.description.includes(`${code} `), String(code));
});

test('each message has an example, which is as its schema says; what nobody refers to is not there', () => {
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  ajv.addSchema(document, 'asyncapi');
  const text = JSON.stringify(document);
  for (const [name, message] of Object.entries(document.components.messages)) {
    const { examples = [], headers } = message as {
      readonly examples?: readonly { readonly payload: unknown; readonly headers?: unknown }[];
      readonly headers?: object;
    };
    assert.ok(examples.length > 0, name);
    assert.ok(text.includes(`"#/components/messages/${name}"`), name);
    for (const example of examples) {
      const check = ajv.getSchema(`asyncapi#/components/messages/${name}/payload`);
      assert.ok(check?.(example.payload), `${name}: ${ajv.errorsText(check?.errors)}`);
      if (headers === undefined) continue;
      const of = ajv.compile({ $ref: `asyncapi#/components/messages/${name}/headers` });
      assert.ok(of(example.headers), `${name}: ${ajv.errorsText(of.errors)}`);
    }
  }
});
