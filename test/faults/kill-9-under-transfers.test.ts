// Invariants 1 to 7, 9 and 11 of transactions: money moves between accounts while the service dies at named places; no transfer lands by
// half, none twice, none is lost that was answered, and no reader of the feed ever sees one side alone.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { ClusterWorld } from '../support/cluster-world.js';
import type { CrashPoint } from '../support/faulty-service.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { seeded } from '../support/load.js';
import { World, type Served } from '../support/load-world.js';
import { sample, until, type Answer, type Service } from '../support/service.js';

const POINTS: readonly CrashPoint[] = [
  'before-log-write',
  'after-log-write',
  'after-ack',
  'before-changes-write',
  'after-changes-write',
  'between-log-and-store',
];
const ACCOUNTS = Array.from({ length: 12 }, (_, i) => `account-${i}`);
const CENTS = 1000;
const WRITERS = 8;
/** Of what the point counts. */
const TIMES = 15;
const PAGE = 500;

interface FeedEvent {
  readonly position: number;
  readonly eventId: string;
  readonly aggregateId: string;
  readonly eventType: string;
  readonly data: { readonly transferId?: string; readonly cents: number };
}
interface Transfer {
  readonly transferId: string;
  readonly body: object;
  /** As it was answered; undefined: it was refused. */
  readonly answer: Answer | undefined;
}

/** What runs the service, and ends it. */
interface Bank {
  readonly served: Served;
  readonly service: () => Service;
  /** The process that serves the tenant dies at the point, and the service is there again. */
  crash(point: CrashPoint, during: () => Promise<void>): Promise<void>;
}

/** Sends until an answer is definite: what is repeated has one key. */
async function definite(served: Served, path: string, body: object, key: string): Promise<Answer> {
  for (;;) {
    const service = (await served.up()) as Service;
    const answer = await service
      .request('POST', path, { body, headers: { 'idempotency-key': key } })
      .catch(() => undefined);
    if (answer !== undefined && answer.status < 500) return answer;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

class Writers {
  readonly transfers: Transfer[] = [];
  readonly #served: Served;
  readonly #done: Promise<void>[];
  #stopped = false;

  constructor(served: Served, seed: number) {
    this.#served = served;
    this.#done = Array.from({ length: WRITERS }, (_, i) => this.#write(i, seeded(seed + i)));
  }

  get acknowledged(): number {
    return this.transfers.filter(({ answer }) => answer !== undefined).length;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#done);
  }

  async #write(writer: number, random: () => number): Promise<void> {
    const below = (n: number): number => Math.floor(random() * n);
    for (let n = 0; !this.#stopped; n++) {
      const from = below(ACCOUNTS.length);
      const to = (from + 1 + below(ACCOUNTS.length - 1)) % ACCOUNTS.length;
      const transferId = `t-${writer}-${n}`;
      const data = { transferId, from: ACCOUNTS[from], to: ACCOUNTS[to], cents: 1 + below(50) };
      const body = {
        appends: [
          // Some rest on a version that others have passed: they are refused, whole.
          {
            aggregateId: data.from,
            ...(random() < 0.2 ? { expectedVersion: 2 + below(40) } : {}),
            events: [{ eventType: 'TransferSent', data }],
          },
          { aggregateId: data.to, events: [{ eventType: 'TransferReceived', data }] },
        ],
      };
      const answer = await definite(this.#served, '/events/transaction', body, transferId);
      assert.ok(answer.status === 201 || answer.status === 409, answer.text);
      this.transfers.push({ transferId, body, answer: answer.status === 201 ? answer : undefined });
    }
  }
}

/** Reads the feed while it grows: where a page ends because there is no more, no transfer has one side alone. */
class Auditor {
  readonly seen: FeedEvent[] = [];
  readonly #served: Served;
  readonly #done: Promise<void>;
  #stopped = false;
  pages = 0;

  constructor(served: Served) {
    this.#served = served;
    this.#done = this.#read();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#done;
  }

  async #read(): Promise<void> {
    let after = 0;
    for (;;) {
      const last = this.#stopped;
      const service = (await this.#served.up()) as Service;
      const answer = await service.get(`/feed?after=${after}&limit=${PAGE}&waitSeconds=1`).catch(() => undefined);
      if (answer?.status !== 200) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        continue;
      }
      const page = answer.json<{ events: FeedEvent[]; position: number }>();
      after = page.position;
      this.seen.push(...page.events);
      if (page.events.length > 0) this.pages++;
      if (page.events.length === PAGE) continue;
      assert.notEqual(this.seen.at(-1)?.eventType, 'TransferSent', 'a reader saw a transfer sent and not received');
      if (last) return;
    }
  }
}

/** Each transfer that was answered is there once, its two sides next to each other; none that was refused is. */
function judgeFeed(events: readonly FeedEvent[], transfers: readonly Transfer[]): void {
  const moved = events.filter(({ data }) => data.transferId !== undefined);
  const sides = new Map<string, FeedEvent[]>();
  for (const event of moved)
    sides.set(event.data.transferId ?? '', [...(sides.get(event.data.transferId ?? '') ?? []), event]);
  for (const { transferId, answer } of transfers) {
    const of = sides.get(transferId) ?? [];
    sides.delete(transferId);
    if (answer === undefined) {
      assert.deepEqual(of, [], `${transferId} was refused`);
      continue;
    }
    const { appends } = answer.json<{ appends: { aggregateId: string; eventIds: string[] }[] }>();
    assert.deepEqual(
      of.map(({ aggregateId, eventId, eventType }) => [aggregateId, eventId, eventType]),
      [
        [appends[0]?.aggregateId, appends[0]?.eventIds[0], 'TransferSent'],
        [appends[1]?.aggregateId, appends[1]?.eventIds[0], 'TransferReceived'],
      ],
      `${transferId} was answered`,
    );
    assert.equal((of[0]?.position ?? 0) + 1, of[1]?.position);
  }
  assert.deepEqual([...sides.keys()], [], 'transfers that nobody sent');
}

const balances = (service: Service): Promise<number[]> =>
  Promise.all(
    ACCOUNTS.map(async (account) => {
      const answer = await service.get(`/aggregate-types/account/${account}/state`);
      assert.equal(answer.status, 200, answer.text);
      return answer.json<{ state: { balance: number } }>().state.balance;
    }),
  );
const sum = (of: readonly number[]): number => of.reduce((a, b) => a + b, 0);

async function prove(t: TestContext, bank: Bank): Promise<readonly number[]> {
  const { served } = bank;
  const {
    'AccountReducer.cs': reducer = '',
    'Events.cs': shapes = '',
    'Transfers.cs': projection = '',
  } = sample('bank');
  await bank.service().deploy('reducers', { 'AccountReducer.cs': reducer, 'Events.cs': shapes });
  const projectionId = await bank.service().deploy('projections', { 'Transfers.cs': projection, 'Events.cs': shapes });
  const opened = await definite(
    served,
    '/events/transaction',
    {
      appends: ACCOUNTS.map((aggregateId) => ({
        aggregateId,
        expectedVersion: 0,
        events: [
          { eventType: 'Opened', data: { owner: aggregateId } },
          { eventType: 'Deposited', data: { cents: CENTS } },
        ],
      })),
    },
    'open',
  );
  assert.equal(opened.status, 201, opened.text);

  const writers = new Writers(served, Number(process.env['FAULT_SEED'] ?? 14));
  const auditor = new Auditor(served);
  for (const point of POINTS) {
    const before = writers.acknowledged;
    await bank.crash(point, () => until(() => writers.acknowledged > before, 60_000));
    const after = writers.acknowledged;
    await until(() => writers.acknowledged > after + WRITERS, 60_000);
  }
  await writers.stop();
  await auditor.stop();
  const { transfers } = writers;
  judgeFeed(auditor.seen, transfers);
  const refused = transfers.filter(({ answer }) => answer === undefined).length;
  assert.ok(refused > 0 && writers.acknowledged > POINTS.length * WRITERS, 'transfers were stored, and refused');

  // Every answer stands, the state of then aside.
  const stateless = ({ text }: Answer): unknown =>
    JSON.parse(text, (name, value: unknown) => (name === 'state' || name === 'stateStatus' ? undefined : value));
  for (const { transferId, body, answer } of transfers) {
    if (answer === undefined) continue;
    const again = await definite(served, '/events/transaction', body, transferId);
    assert.equal(again.status, 201, `${transferId}: ${again.text}`);
    assert.deepEqual(stateless(again), stateless(answer));
  }
  const service = (await served.up()) as Service;
  const now = await balances(service);
  assert.equal(sum(now), ACCOUNTS.length * CENTS, 'money was lost, or made');
  const { position = 0 } = auditor.seen.at(-1) ?? {};
  const states = await service.get(`/projections/${projectionId}/states?limit=1000&waitFor=${position}&waitSeconds=30`);
  assert.equal(states.status, 200, states.text);
  const told = states.json<{ states: { key: string; state: { complete: boolean } }[]; nextCursor?: string }>();
  assert.deepEqual(
    told.states.filter(({ state }) => !state.complete),
    [],
    'a projection has one side of a transfer',
  );
  if (told.nextCursor === undefined) assert.equal(told.states.length, writers.acknowledged);
  t.diagnostic(`${writers.acknowledged} transfers, ${refused} refused, ${auditor.pages} pages of the feed`);
  return now;
}

test('kill -9 under transfers, on the embedded log', { timeout: 300_000 }, async (t) => {
  const world = new World(t);
  const fuse = (point: CrashPoint | undefined): `${CrashPoint}:${number}` | undefined => point && `${point}:${TIMES}`;
  await world.start(fuse(POINTS[0]));
  const warm = await prove(t, {
    served: world,
    service: () => world.service,
    crash: async (point, during) => {
      await during();
      world.light();
      await world.end('its own');
      await world.start(fuse(POINTS[POINTS.indexOf(point) + 1]));
    },
  });
  // A cold replay gives the same.
  await world.end('SIGKILL');
  rmSync(join(world.dataDirectory, 'store'), { recursive: true });
  assert.deepEqual(await balances(await world.start()), warm);
});

test('kill -9 of owners under transfers, on Kafka', { skip: needsKafka, timeout: 600_000 }, async (t) => {
  const { brokers } = await kafkaForTests();
  const world = new ClusterWorld(t, { brokers, processes: 2 });
  await world.start();
  await prove(t, {
    served: world,
    service: () => world.service,
    crash: async (point, during) => {
      const owner = await world.owner();
      const dying = world.at(owner);
      await during();
      world.lightOne(owner, `${point}:${TIMES}`);
      await dying.exited();
      assert.notEqual(await world.owner(), owner);
      await world.startOne(owner);
    },
  });
});
