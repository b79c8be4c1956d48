import assert from 'node:assert/strict';
import test from 'node:test';
import { besideOurs, MAX_OWN_HEADERS, ownHeaderErrors } from '../../src/webhooks/own-headers.js';

const refused = (headers: Readonly<Record<string, string | null>>): string[] =>
  ownHeaderErrors(headers).map(({ pointer }) => pointer);

test('names that the service sends itself, or that are of the connection, are refused however they are spelt', () => {
  for (const name of [
    'webhook-id',
    'Webhook-Signature',
    'WEBHOOK-ANYTHING',
    'content-type',
    'User-Agent',
    'date',
    'host',
    'Content-Length',
    'transfer-encoding',
    'Connection',
    'upgrade',
    'te',
    'proxy-authorization',
  ])
    // Receivers that put headers into variables read _ as -.
    for (const spelt of [name, name.replaceAll('-', '_'), name.toUpperCase(), name.replace('-', '_').toUpperCase()])
      assert.deepEqual(refused({ [spelt]: 'x' }), [`/headers/${spelt}`], spelt);
});

test('names that only look like those are taken, a leading _ too', () => {
  for (const name of [
    'authorization',
    '_id',
    '_webhook-id',
    '__host',
    'x-webhook-id',
    'webhook',
    'hosts',
    'dated',
    'x_a',
  ])
    assert.deepEqual(refused({ [name]: 'x' }), [], name);
});

test('what is no name of a header, or none of its values, is refused at its place', () => {
  for (const name of ['', 'a b', 'a:b', 'ä', 'a\r\nb', 'n'.repeat(65)])
    assert.deepEqual(refused({ [name]: 'x' }), [`/headers/${name}`], name);
  assert.deepEqual(refused({ 'a/~b': 'x' }), ['/headers/a~1~0b']);
  for (const value of ['', ' a', 'a ', 'a\nb', 'a\r\nwebhook-id: forged', 'ä', 'v'.repeat(1_025)])
    assert.deepEqual(refused({ 'x-a': value }), ['/headers/x-a'], value);
  for (const value of ['a', 'a b\tc', 'v'.repeat(1_024), null]) assert.deepEqual(refused({ 'x-a': value }), []);
  assert.deepEqual(refused({ 'x-a': '1', 'X-A': '2', 'x-b': '3' }), ['/headers/X-A']);
  const many = Object.fromEntries(Array.from({ length: MAX_OWN_HEADERS + 1 }, (_, i) => [`x-${i}`, 'v']));
  assert.deepEqual(refused(many), ['/headers']);
});

test('ours count, in whatever case theirs are stored', () => {
  assert.deepEqual(
    besideOurs(
      { 'X-Team': 'orders', 'Webhook-Id': 'forged', traceParent: 'theirs', Authorization: 'Bearer t' },
      { traceparent: 'ours', 'webhook-id': 'msg_1' },
    ),
    { 'X-Team': 'orders', Authorization: 'Bearer t', traceparent: 'ours', 'webhook-id': 'msg_1' },
  );
  assert.deepEqual(besideOurs({ traceParent: 'theirs' }, { 'webhook-id': 'msg_1' }), {
    traceParent: 'theirs',
    'webhook-id': 'msg_1',
  });
});
