// What is answered without a key waits for the turn of its address, as what is refused does: a stranger can't fill the event loop.
// Who watches the process waits for none of the others, nor does who has the admin key.
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { ADMIN, Dues, strangerOf, watcherOf } from '../../src/http/dues.js';
import { isAdminBy } from '../../src/http/admin-auth.js';
import { Requests, type RequestsOptions } from '../../src/http/requests.js';

const ADDRESS = '192.0.2.1';

/** Requests whose turn comes when the test says so. */
function world() {
  const entered: string[] = [];
  const answered: string[] = [];
  let begin = (): void => undefined;
  const promise = new Promise<void>((resolve) => (begin = resolve));
  const requests = new Requests({
    dependencies: { draining: () => false },
    dues: new Dues({
      authenticator: { find: () => undefined, isClosed: () => false },
      requests: { take: () => assert.fail('it is of no tenant') },
      turns: { enter: (who) => (entered.push(who), promise) },
    }),
    origins: { allow: (_request: unknown, _response: unknown, next: () => void) => next() },
    refusal: () => undefined,
    isAdmin: isAdminBy('secret'),
    console: {
      isAsked: (_request: IncomingMessage, path: string) => path === '/console',
      answer: () => answered.push('console'),
    },
    router: () => answered.push('router'),
  } as unknown as RequestsOptions);
  const socket = { remoteAddress: ADDRESS, destroyed: false };
  const ask = (url: string, headers: Readonly<Record<string, string>> = {}): void =>
    requests.request(
      { method: 'GET', url, headers, socket } as unknown as IncomingMessage,
      { once: () => undefined } as unknown as ServerResponse,
    );
  return { entered, answered, socket, ask, begin };
}

test('what needs no key of a tenant has its turn before it is answered', async () => {
  for (const [url, share, headers = {}] of [
    ['/health', watcherOf(ADDRESS)],
    ['/health/ready', watcherOf(ADDRESS)],
    ['/metrics', watcherOf(ADDRESS)],
    ['/openapi.json', strangerOf(ADDRESS)],
    ['/asyncapi.json', strangerOf(ADDRESS)],
    ['/console', strangerOf(ADDRESS)],
    ['/nothing', strangerOf(ADDRESS)],
    ['/admin/tenants', strangerOf(ADDRESS)],
    ['/admin/tenants', strangerOf(ADDRESS), { 'x-admin-key': 'guessed' }],
    ['/admin/tenants', ADMIN, { 'x-admin-key': 'secret' }],
  ] as const) {
    const { entered, answered, ask, begin } = world();
    ask(url, headers);
    assert.deepEqual([entered, answered], [[share], []], url);
    begin();
    await setImmediate();
    assert.deepEqual(answered, [url === '/console' ? 'console' : 'router'], url);
  }
});

test('who has gone by its turn is not served', async () => {
  const { answered, socket, ask, begin } = world();
  ask('/nothing');
  socket.destroyed = true;
  begin();
  await setImmediate();
  assert.deepEqual(answered, []);
});
