import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import test from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Api, newTenant, problem, success, type Listed } from '../support/api.js';
import { partitionOf } from '../../src/core/murmur2.js';
import { sample, startService, temporaryDirectory, until, type Answer } from '../support/service.js';

interface Transacted {
  readonly position: number;
  readonly timestamp: string;
  readonly appends: readonly {
    readonly aggregateId: string;
    readonly aggregateType: string;
    readonly startVersion: number;
    readonly endVersion: number;
    readonly eventIds: readonly string[];
    readonly state?: { readonly balance: number; readonly entries: number };
  }[];
}
type Errors = readonly { readonly pointer: string; readonly message: string }[];

const { 'AccountReducer.cs': reducer = '', 'Events.cs': events = '', 'Transfers.cs': transfers = '' } = sample('bank');

const part = (aggregateId: string, eventType: string, data: object = {}, rest: object = {}): object => ({
  aggregateId,
  events: [{ eventType, data }],
  ...rest,
});
/** From one account to another, in one request. */
const transfer = (transferId: string, from: string, to: string, cents: number, expected: object = {}): object => ({
  appends: [
    part(from, 'TransferSent', { transferId, from, to, cents }, expected),
    part(to, 'TransferReceived', { transferId, from, to, cents }),
  ],
  correlationId: `transfer-${transferId}`,
});

test('transactions over several aggregates', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { readStore: true, dataDirectory });
  let api = new Api(service);
  const transact = (body: object | string, headers: Record<string, string> = {}): Promise<Answer> =>
    typeof body === 'string'
      ? api.request('POST', '/events/transaction', {
          raw: body,
          headers: { 'content-type': 'application/json', ...headers },
        })
      : api.post('/events/transaction', body, { headers });
  const versionsOf = async (id: string): Promise<number> => {
    const answer = await api.get(`/events/${id}`);
    return answer.status === 404 ? 0 : success(answer, 200).json<Listed>().events.length;
  };
  let projection = '';
  let first: Answer | undefined;

  await t.test(
    'a transfer is one request: both balances are in its answer, and its events are next to each other',
    async () => {
      await api.deployReducer({ 'AccountReducer.cs': reducer, 'Events.cs': events });
      projection = await api.deployProjection({ 'Transfers.cs': transfers, 'Events.cs': events });
      success(
        await transact({
          appends: [
            {
              aggregateId: 'account-ann',
              expectedVersion: 0,
              events: [opened('Ann'), { eventType: 'Deposited', data: { cents: 5000 } }],
            },
            part('account-bob', 'Opened', { owner: 'Bob' }, { expectedVersion: 'none' }),
          ],
        }),
        201,
      );
      first = success(
        await transact(transfer('t-1', 'account-ann', 'account-bob', 300, { expectedVersion: 2 }), {
          'idempotency-key': 'k-1',
        }),
        201,
      );
      const { position, appends, timestamp } = first.json<Transacted>();
      assert.deepEqual(
        appends.map(({ aggregateId, aggregateType, startVersion, endVersion, state }) => [
          aggregateId,
          aggregateType,
          startVersion,
          endVersion,
          state?.balance,
        ]),
        [
          ['account-ann', 'account', 3, 3, 4700],
          ['account-bob', 'account', 2, 2, 300],
        ],
      );
      assert.equal(first.headers.get('statefold-position'), String(position));
      const { events: told } = await api.read<{
        events: {
          position: number;
          eventId: string;
          aggregateId: string;
          version: number;
          timestamp: string;
          correlationId: string;
        }[];
      }>(`/feed?after=${position - 2}&waitFor=${position}`);
      assert.deepEqual(
        told.map((event) => [
          event.position,
          event.eventId,
          event.aggregateId,
          event.version,
          event.timestamp,
          event.correlationId,
        ]),
        [
          [position - 1, appends[0]?.eventIds[0], 'account-ann', 3, timestamp, 'transfer-t-1'],
          [position, appends[1]?.eventIds[0], 'account-bob', 2, timestamp, 'transfer-t-1'],
        ],
      );
      const { states } = await api.read<{ states: { state: { complete: boolean } }[] }>(
        `/projections/${projection}/states/t-1?waitFor=${position}`,
      );
      assert.equal(states[0]?.state.complete, true);
      // A page of the feed may end between them; what is behind it goes on there.
      const one = await api.read<{ events: { position: number }[]; position: number }>(
        `/feed?after=${position - 2}&limit=1`,
      );
      assert.deepEqual([one.events.length, one.position], [1, position - 1]);
    },
  );

  await t.test('one aggregate that is elsewhere refuses all; each that is is named', async () => {
    const refused = problem(
      await transact({
        appends: [
          part('account-ann', 'Deposited', { cents: 1 }, { expectedVersion: 3 }),
          part('account-bob', 'Deposited', { cents: 1 }, { expectedVersion: 7 }),
          part('account-cid', 'Opened', { owner: 'Cid' }, { expectedVersion: 'exists' }),
        ],
      }),
      409,
      'VERSION_CONFLICT',
    );
    assert.deepEqual(refused['mismatches'], [
      { aggregateId: 'account-bob', expectedVersion: 7, currentVersion: 2 },
      { aggregateId: 'account-cid', expectedVersion: 'exists', currentVersion: 0 },
    ]);
    const mismatch = problem(
      await transact({
        appends: [
          part('account-cid', 'Opened', { owner: 'Cid' }),
          part('account-ann', 'Closed', {}, { aggregateType: 'till' }),
        ],
      }),
      409,
      'AGGREGATE_TYPE_MISMATCH',
    );
    assert.equal(mismatch['aggregateId'], 'account-ann');
    assert.deepEqual(
      [await versionsOf('account-ann'), await versionsOf('account-bob'), await versionsOf('account-cid')],
      [3, 2, 0],
    );
    problem(await api.get('/events/account-cid'), 404, 'NOT_FOUND');
  });

  await t.test(
    'a key names one transaction of the tenant, whatever aggregates it is of; keys of appends are other ones',
    async () => {
      const again = (): Promise<Answer> =>
        transact(transfer('t-1', 'account-ann', 'account-bob', 300, { expectedVersion: 2 }), {
          'idempotency-key': 'k-1',
        });
      assert.equal(success(await again(), 201).text, first?.text);
      problem(
        await transact({ appends: [part('account-dan', 'Opened', { owner: 'Dan' })] }, { 'idempotency-key': 'k-1' }),
        409,
        'IDEMPOTENCY_KEY_REUSED',
      );
      await api.append('account-dan', 'Opened', { owner: 'Dan' }, {}, { 'idempotency-key': 'k-1' });
      assert.equal(success(await again(), 201).text, first?.text);
      // Many at once are one.
      const body = transfer('t-2', 'account-ann', 'account-dan', 100);
      const answers = await Promise.all(Array.from({ length: 8 }, () => transact(body, { 'idempotency-key': 'k-2' })));
      const ids = new Set(answers.map((answer) => success(answer, 201).json<Transacted>().appends[0]?.eventIds.join()));
      assert.equal(ids.size, 1);
      assert.deepEqual([await versionsOf('account-ann'), await versionsOf('account-dan')], [4, 2]);
      // The same for one with another body, which is refused.
      problem(
        await transact(transfer('t-2', 'account-ann', 'account-dan', 101), { 'idempotency-key': 'k-2' }),
        409,
        'IDEMPOTENCY_KEY_REUSED',
      );
    },
  );

  await t.test('bodies are strict, each fault with its place', async () => {
    const faults = async (body: object | string): Promise<Record<string, string>> =>
      Object.fromEntries(
        (problem(await transact(body), 400, 'INVALID_REQUEST')['errors'] as Errors).map(({ pointer, message }) => [
          pointer,
          message,
        ]),
      );
    assert.deepEqual(await faults({ appends: [part('strict-1', 'A'), part('strict-2', 'A'), part('strict-1', 'B')] }), {
      '/appends/2/aggregateId': 'is named at /appends/0 already: put all events of an aggregate into one element',
    });
    assert.deepEqual(await faults({ appends: [part('strict-1', 'A', {}, { expectedversion: 0 })], events: [] }), {
      '/appends/0/expectedversion': 'is not a known member; did you mean "expectedVersion"?',
      '/events': 'is of each aggregate: put it into the elements of appends',
    });
    const many = (count: number): object[] => Array.from({ length: count }, (_, i) => part(`strict-${i}`, 'A'));
    assert.deepEqual(await faults({ appends: many(101) }), {
      '/appends': 'must have at most 100 elements, and has 101',
    });
    const event = { eventType: 'A', data: {} };
    assert.deepEqual(
      await faults({
        appends: [0, 1].map((i) => ({ aggregateId: `strict-${i}`, events: Array.from({ length: 501 }, () => event) })),
      }),
      { '/appends': 'must have at most 1000 events in all, and has 1002' },
    );
    problem(await api.post('/events/transaction?includeConflicts=true', { appends: many(1) }), 400, 'INVALID_REQUEST');
    assert.equal(await versionsOf('strict-1'), 0);
    assert.equal(success(await transact({ appends: many(100) }), 201).json<Transacted>().appends.length, 100);
  });

  await t.test('an aggregate may be called transaction', async () => {
    await api.append('transaction', 'Noted');
    assert.equal((await api.read<Listed>('/events/transaction')).events.length, 1);
  });

  await t.test('concurrent transfers between a few accounts lose and make no money', async () => {
    const accounts = ['account-ann', 'account-bob', 'account-dan'];
    const before = await Promise.all(accounts.map(balanceOf));
    const pick = (n: number): string => accounts[n % accounts.length] ?? '';
    const answers = await Promise.all(
      Array.from({ length: 120 }, (_, n) =>
        transact(
          transfer(`many-${n}`, pick(n), pick(n + 1 + (n % 2)), 1 + (n % 7), n % 5 === 0 ? { expectedVersion: 1 } : {}),
        ),
      ),
    );
    assert.deepEqual(
      answers.map(({ status }) => status),
      Array.from({ length: 120 }, (_, n) => (n % 5 === 0 ? 409 : 201)),
    );
    const sum = (of: readonly number[]): number => of.reduce((a, b) => a + b, 0);
    const after = await Promise.all(accounts.map(balanceOf));
    assert.equal(sum(after), sum(before));
    assert.ok(after.some((balance, i) => balance !== before[i]));
  });

  async function balanceOf(account: string): Promise<number> {
    return (await api.read<{ state: { balance: number } }>(`/aggregate-types/account/${account}/state`)).state.balance;
  }

  await t.test('rows of the read store', async () => {
    const rows = async (): Promise<string> => {
      const access = await api.readStoreAccess();
      const answer = await fetch(`${access.url}/?database=${access.database}`, {
        method: 'POST',
        body: "SELECT concat(aggregate_id, '@', toString(version), ' ', toString(log_offset = min(log_offset) OVER ())) FROM events FINAL WHERE correlation_id = 'transfer-t-1' ORDER BY aggregate_id",
        headers: { authorization: `Basic ${Buffer.from(`${access.user}:${access.password}`).toString('base64')}` },
      });
      return (await answer.text()).trim();
    };
    await until(async () => (await rows()).split('\n').length === 2);
    assert.equal(await rows(), 'account-ann@3 1\naccount-bob@2 1');
  });

  await t.test('a tenant of several partitions has transactions within one of them', async () => {
    const wide = new Api(service, await newTenant(service, { tenantId: 'wide', name: 'Wide', partitions: 4 }));
    const of = (partition: number): string[] =>
      Array.from({ length: 40 }, (_, i) => `note-${i}`).filter((id) => partitionOf(id, 4) === partition);
    const [[here = ''], [there = '', beside = '']] = [of(1), of(2)];
    const crossed = problem(
      await wide.post('/events/transaction', { appends: [part(here, 'Noted'), part(there, 'Noted')] }),
      422,
      'CROSS_PARTITION',
    );
    assert.deepEqual(crossed['aggregateIds'], [here, there]);
    problem(await wide.get(`/events/${here}`), 404, 'NOT_FOUND');
    const { appends, position } = success(
      await wide.post('/events/transaction', { appends: [part(beside, 'Noted'), part(there, 'Noted')] }),
      201,
    ).json<Transacted>();
    assert.deepEqual(
      appends.map(({ aggregateId, endVersion }) => [aggregateId, endVersion]),
      [
        [beside, 1],
        [there, 1],
      ],
    );
    const { events: told } = await wide.read<{ events: { position: number; aggregateId: string }[] }>(
      `/feed?waitFor=${position}`,
    );
    assert.deepEqual(
      told.map(({ position: at, aggregateId }) => [at, aggregateId]),
      [
        [position - 1, beside],
        [position, there],
      ],
    );
  });

  await t.test('after a kill, and after the local store is gone, it is answered as before', async () => {
    const { position } = await api.read<{ position: number }>('/feed?limit=1000');
    const accounts = ['account-ann', 'account-bob', 'account-dan'];
    const listed = async (): Promise<Record<string, unknown>> => ({
      events: await Promise.all(accounts.map(async (id) => (await api.read<Listed>(`/events/${id}`)).events)),
      balances: await Promise.all(accounts.map(balanceOf)),
      feed: await api.read('/feed?limit=1000'),
      states: await api.read(`/projections/${projection}/states?limit=1000&waitFor=${position}&waitSeconds=20`),
    });
    const same = (now: Record<string, unknown>, then: Record<string, unknown>): void => {
      for (const [name, value] of Object.entries(then))
        assert.ok(isDeepStrictEqual(now[name], value), `${name} are other ones`);
    };
    const before = await listed();
    await service.kill();
    service = await startService(t, { dataDirectory });
    api = new Api(service);
    same(await listed(), before);
    const { state: _state, ...sent } = first?.json<Transacted>().appends[0] ?? ({} as Transacted['appends'][0]);
    const again = success(
      await transact(transfer('t-1', 'account-ann', 'account-bob', 300, { expectedVersion: 2 }), {
        'idempotency-key': 'k-1',
      }),
      201,
    ).json<Transacted>();
    // The accounts have gone on since: a state of then is kept no longer.
    assert.deepEqual(again.appends[0], { ...sent, stateStatus: 'superseded' });
    assert.equal(again.position, first?.json<Transacted>().position);
    const verified = await api.post('/aggregate-types/account/verify', {});
    assert.ok(verified.status === 200, verified.text);
    await service.kill();
    rmSync(`${dataDirectory}/store`, { recursive: true });
    service = await startService(t, { dataDirectory });
    api = new Api(service);
    await until(
      async () =>
        (await api.get('/aggregate-types/account')).json<{ catchUp: { status: string } }>().catchUp.status === 'done',
    );
    same(await listed(), before);
  });
});

const opened = (owner: string): object => ({ eventType: 'Opened', data: { owner } });
