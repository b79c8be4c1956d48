// Where an entry of the audit log is made, and whose address it has, where one process sends a request on to another.
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { test } from 'node:test';
import type { AuditBegun, AuditEnded, AuditTrail } from '../../src/audit/audit-entry.js';
import { StatefoldError } from '../../src/core/errors.js';
import { addressOf, Auditing, CHANGES_AT_ONCE, CHANGES_PER_SECOND } from '../../src/http/audited.js';
import { Call } from '../../src/http/route.js';

const requestOf = (headers: IncomingMessage['headers'], url = '/'): IncomingMessage =>
  ({ headers, url, method: 'POST', socket: { remoteAddress: '10.0.0.9' } }) as unknown as IncomingMessage;
const FORWARDED = { 'statefold-forwarded': 'a proof that the edge has checked' };

function world(): {
  readonly auditing: Auditing;
  readonly begun: AuditBegun[];
  readonly ended: AuditEnded[];
  readonly order: string[];
  readonly clock: { ms: number };
  readonly callOf: (request: IncomingMessage) => Call;
} {
  const clock = { ms: 0 };
  const [begun, ended, order]: [AuditBegun[], AuditEnded[], string[]] = [[], [], []];
  const trail: AuditTrail = {
    begin: (one) => {
      begun.push(one);
      order.push('begun');
      return Promise.resolve({
        end: (how) => {
          ended.push(how);
          order.push('ended');
          return Promise.resolve();
        },
      });
    },
    list: () => assert.fail('nothing is read'),
  };
  const response = {
    writeHead: () => {
      order.push('answered');
      return { end: () => undefined };
    },
  } as unknown as ServerResponse;
  const settings = {} as ConstructorParameters<typeof Call>[3]['settings'];
  const callOf = (request: IncomingMessage): Call =>
    new Call({}, request, response, { parameters: {}, requestId: 'q-1', settings });
  return {
    auditing: new Auditing(trail, { get: () => undefined }, () => clock.ms),
    begun,
    ended,
    order,
    clock,
    callOf,
  };
}

const REVOKE = { path: '/admin/tenants/{id}/keys/{keyId}', operationId: 'revokeKey', credentials: 'admin' } as const;
const IMPORT = { path: '/admin/tenants/{id}/import', operationId: 'importEvents', credentials: 'admin' } as const;

test('the address is that of who connected to the first process, and is not what a client says', () => {
  assert.equal(addressOf(requestOf({ 'x-forwarded-for': '203.0.113.7' })), '10.0.0.9');
  assert.equal(addressOf(requestOf({ ...FORWARDED, 'x-forwarded-for': '203.0.113.7, 192.0.2.4' })), '192.0.2.4');
  assert.equal(addressOf(requestOf(FORWARDED)), '10.0.0.9');
});

test('an answer leaves when its entry is whole', async () => {
  const { auditing, begun, ended, order, callOf } = world();
  const call = callOf(requestOf({}));
  await auditing.serve(REVOKE, call, { id: 'acme', keyId: 'k-1' }, () => {
    order.push('served');
    call.done();
  });
  assert.deepEqual(order, ['begun', 'served', 'ended', 'answered']);
  assert.deepEqual([begun[0]?.object, begun[0]?.tenantId], [{ tenantId: 'acme', keyId: 'k-1' }, 'acme']);
  assert.deepEqual([ended[0]?.outcome, ended[0]?.status], ['done', 204]);
});

test('what is thrown is told, and thrown on', async () => {
  const { auditing, ended, order, callOf } = world();
  const thrown = new StatefoldError('UNAVAILABLE', 'away');
  const call = callOf(requestOf({}));
  await assert.rejects(
    auditing.serve(REVOKE, call, { id: 'acme', keyId: 'k-1' }, () => Promise.reject(thrown)),
    thrown,
  );
  assert.deepEqual(order, ['begun', 'ended']);
  assert.deepEqual([ended[0]?.outcome, ended[0]?.status, ended[0]?.code], ['failed', 503, 'UNAVAILABLE']);
});

test('where it can not be recorded nothing is served', async () => {
  const refusing: AuditTrail = {
    begin: () => Promise.reject(new StatefoldError('UNAVAILABLE', 'full')),
    list: () => assert.fail('nothing is read'),
  };
  const auditing = new Auditing(refusing, { get: () => undefined }, () => 0);
  await assert.rejects(
    auditing.serve(REVOKE, world().callOf(requestOf({})), {}, () => assert.fail('it was served')),
    { code: 'UNAVAILABLE' },
  );
});

test('an import is recorded where it came, and not once more where it is done', async () => {
  const { auditing, begun, callOf } = world();
  for (const headers of [{}, FORWARDED]) {
    const call = callOf(requestOf(headers));
    await auditing.serve(IMPORT, call, { id: 'acme' }, () => call.done(200));
  }
  assert.equal(begun.length, 1);
});

test('a tenant that repeats what is refused leaves no more entries than its pace; the admin and other tenants have none of it', async () => {
  const { auditing, begun, clock, callOf } = world();
  const bind = { path: '/reducers/{aggregateType}', operationId: 'bindReducer', credentials: 'tenant' } as const;
  const refused = new StatefoldError('NOT_FOUND', 'no such reducer');
  const change = (keyId: string, tenantId: string): Promise<void> => {
    const call = callOf(requestOf({}));
    call.admit({ keyId, tenantId });
    return auditing.serve(bind, call, { aggregateType: 'account' }, () => Promise.reject(refused));
  };
  for (let i = 0; i < CHANGES_AT_ONCE; i += 1) await assert.rejects(change(`k-${i % 2}`, 'acme'), refused);
  await assert.rejects(change('k-0', 'acme'), { code: 'RATE_LIMITED', retryAfterSeconds: 1 });
  assert.equal(begun.length, CHANGES_AT_ONCE);
  await assert.rejects(change('k-9', 'globex'), refused);
  await auditing.serve(REVOKE, callOf(requestOf({})), { id: 'acme', keyId: 'k-1' }, () => undefined);
  clock.ms += 10_000;
  for (let i = 0; i < 10 * CHANGES_PER_SECOND; i += 1) await assert.rejects(change('k-0', 'acme'), refused);
  await assert.rejects(change('k-0', 'acme'), { code: 'RATE_LIMITED' });
});
