import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { Peers } from '../../src/http/gateway/peers.js';

const KEY = 'a master key that is long enough';
let now = Date.UTC(2026, 0, 1);
const peers = (masterKey = KEY): Peers => new Peers(masterKey, undefined, () => now);

const SENT = [
  'X-API-Key',
  'key',
  'Content-Type',
  'application/json',
  'X-Request-Id',
  'r-1',
  'Statefold-Command-Id',
  'c',
];
const received = (
  proof: string,
  changed: Partial<Pick<IncomingMessage, 'method' | 'url' | 'headers'>> = {},
): IncomingMessage =>
  ({
    method: 'POST',
    url: '/events?x=1',
    ...changed,
    headers: {
      'x-api-key': 'key',
      'content-type': 'application/json',
      'x-request-id': 'r-1',
      'statefold-command-id': 'c',
      'statefold-forwarded': proof,
      ...changed.headers,
    },
  }) as unknown as IncomingMessage;

test('what one process signs the other takes, and nobody else', () => {
  const proof = peers().proof('POST', '/events?x=1', SENT);
  assert.equal(peers().refusal(received(proof)), undefined);
  assert.equal(peers().refusal({ method: 'GET', url: '/', headers: {} } as unknown as IncomingMessage), undefined);
  for (const forged of [
    received('1'),
    received(''),
    received(proof.slice(0, -1)),
    received(proof.replace(/\d(?=\.[^.]*$)/, (digit) => String((Number(digit) + 1) % 10))),
    received(peers('another master key of the length').proof('POST', '/events?x=1', SENT)),
    received(proof, { method: 'GET' }),
    received(proof, { url: '/events?x=2' }),
    received(proof, { headers: { 'x-api-key': 'another' } }),
    received(proof, { headers: { 'x-request-id': 'r-2' } }),
    received(proof, { headers: { 'statefold-command-id': 'd' } }),
    received(proof, { headers: { 'x-forwarded-for': '1.2.3.4' } }),
    received(proof, { headers: { 'statefold-forwarded': [proof, proof] } }),
  ])
    assert.equal(peers().refusal(forged)?.code, 'INVALID_REQUEST');
});

test('a proof holds for a minute, and clocks that are further apart are told', () => {
  const proof = peers().proof('POST', '/events?x=1', SENT);
  for (const [ms, code] of [
    [60_000, undefined],
    [60_001, 'UNAVAILABLE'],
    [-60_001, 'UNAVAILABLE'],
  ] as const) {
    now += ms;
    assert.equal(peers().refusal(received(proof))?.code, code);
    now -= ms;
  }
});

test('a header that came twice is covered as it is read', () => {
  const twice = ['X-Forwarded-For', '1.1.1.1', 'X-Forwarded-For', '2.2.2.2'];
  const proof = peers().proof('GET', '/', twice);
  const headers = { 'x-forwarded-for': '1.1.1.1, 2.2.2.2', 'statefold-forwarded': proof };
  assert.equal(peers().refusal({ method: 'GET', url: '/', headers } as unknown as IncomingMessage), undefined);
});
