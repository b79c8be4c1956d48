import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { StatefoldError } from '../../src/core/errors.js';
import { rateLimited } from '../../src/core/quotas.js';
import { Dues, REQUEST_COST, strangerOf } from '../../src/http/dues.js';

const past = (): StatefoldError => rateLimited('requestsPerSecond', 1, 'too many', 1);
const refusal = new StatefoldError('NOT_FOUND', 'there is nothing');

function world({ known = true, suspended = false, room = Infinity } = {}) {
  const taken: string[] = [];
  const entered: (readonly [string, number])[] = [];
  const dues = new Dues({
    authenticator: {
      find: () => (known ? { tenantId: 'acme', keyId: 'k' } : undefined),
      isClosed: () => suspended,
    },
    requests: {
      take: (tenantId) => {
        if (taken.length >= room) throw past();
        taken.push(tenantId);
      },
    },
    turns: { enter: (name, cost) => void entered.push([name, cost]) },
  });
  const refuse = (request: IncomingMessage, thrown: unknown = refusal): void => {
    dues.count(request, thrown);
    void dues.turn(request);
  };
  return { dues, taken, entered, refuse };
}

const from = (remoteAddress: string): IncomingMessage => ({ socket: { remoteAddress } }) as unknown as IncomingMessage;

test('a refusal costs one off the pace and a turn, once, and nothing that was paid before', () => {
  const { dues, taken, entered, refuse } = world();
  const request = from('192.0.2.1');
  refuse(request);
  refuse(request);
  assert.deepEqual([taken, entered], [['acme'], [['acme', REQUEST_COST]]]);
  const paid = from('192.0.2.1');
  dues.counted(paid);
  dues.turned(paid);
  refuse(paid);
  assert.deepEqual([taken.length, entered.length], [1, 1]);
  // It was refused for its pace itself.
  refuse(from('192.0.2.1'), past());
  assert.deepEqual([taken.length, entered.length], [1, 2]);
});

test('past the pace that is what is answered, but to who is suspended', () => {
  const { dues } = world({ room: 0 });
  assert.throws(
    () => dues.count(from('192.0.2.1'), refusal),
    (error: unknown) => error instanceof StatefoldError && error.code === 'RATE_LIMITED',
  );
  world({ room: 0, suspended: true }).refuse(from('192.0.2.1'));
});

test('who shows no key has a turn by the address, of a few shares however many addresses there are', () => {
  const { taken, entered, refuse } = world({ known: false });
  for (let i = 0; i < 20_000; i++)
    refuse(from(i % 2 === 0 ? `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}` : `2001:db8::${i.toString(16)}`));
  assert.equal(taken.length, 0);
  assert.equal(entered.length, 20_000);
  const shares = new Set(entered.map(([name]) => name));
  assert.ok(shares.size > 8 && shares.size <= 16, `${shares.size} shares`);
  // An id of a tenant has no space.
  for (const name of shares) assert.match(name, / /);
  assert.equal(strangerOf('192.0.2.1'), strangerOf('192.0.2.1'));
  assert.ok(shares.has(strangerOf(undefined)));
  // Who has one address of an IPv6 network has all of them.
  assert.equal(strangerOf('2001:db8::1'), strangerOf('2001:db8::ffff:1'));
});
