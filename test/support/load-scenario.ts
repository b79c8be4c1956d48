import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import {
  check,
  type Evidence,
  type FollowedProjection,
  type ListedEvent,
  type Notification,
  type Rows,
  type StateAnswer,
} from './checker.js';
import { readLog, type LogContent } from './checker-log.js';
import { JOURNAL, LANES, reducerOf, type Chain, type ProjectionModel } from './checker-model.js';
import type { CrashPoint } from './faulty-service.js';
import { History } from './history.js';
import { Load, type LoadOptions } from './load.js';
import { caughtUp, notificationOf, PollingFollower, StreamFollower, WebhookReceiver } from './load-followers.js';
import { World, type Stage } from './load-world.js';
import { AS_ADMIN, until } from './service.js';
import { storedName } from './stored-name.js';

interface Followed {
  readonly projectionId: string;
  readonly model: ProjectionModel;
  readonly followers: readonly (StreamFollower | PollingFollower)[];
  readonly webhook: WebhookReceiver | undefined;
}

export interface ScenarioOptions extends LoadOptions {
  /** Look into the read store too. */
  readonly rows?: boolean;
  /** Of how many partitions the tenant's events are; 1 unless given. */
  readonly partitions?: number;
}

/** For scenarios that mostly wait for processes to start or to be missed, while others serve: some requests are always under way. */
export const STEADY: Pick<ScenarioOptions, 'restMs'> = { restMs: 60 };

/** The read store gives way to all else: on a busy machine its rows come late, and so does a crash between them. */
const ROWS_MS = 120_000;
const CRASH_MS = 90_000;
/** Before the file's time is over: whoever reads why it was must know where it stood. */
const SLOW_MS = 240_000;

/** A part of a test that the next ones rest on: when it fails they are not run. */
export async function step(t: TestContext, name: string, run: () => Promise<void>): Promise<void> {
  let passed = false;
  await t.test(name, async () => {
    await run();
    passed = true;
  });
  assert.ok(passed, `${name} failed: what rests on it was not run`);
}

/** A world under load with a reducer on `ledger`, two followed projections, and the proof at the end. */
export class Scenario<W extends Stage = World> {
  readonly world: W;
  readonly history = new History();
  readonly load: Load;
  readonly #t: TestContext;
  readonly #options: ScenarioOptions;
  readonly #boundSince = new Map<string, number>();
  readonly #projections: Followed[] = [];
  #unanswered: Pick<Followed, 'model' | 'webhook'> | undefined;
  #sharedSecret = '';
  /** What the tenant's topics are named after. */
  #storedAs = '';
  #earlier: LogContent | undefined;
  #doing = 'the scenario begins';

  constructor(t: TestContext, options: ScenarioOptions, world: W) {
    this.#t = t;
    this.#options = options;
    this.world = world;
    this.load = new Load(world, this.history, options);
    t.diagnostic(`seed ${options.seed}`);
    const slow = setTimeout(() => {
      const last = this.history.operations.slice(-5).map((operation) => JSON.stringify(operation).slice(0, 500));
      process.stderr.write(
        `after ${SLOW_MS} ms: ${this.#doing}; the last of ${this.history.operations.length} operations:\n${last.join('\n')}\n`,
      );
    }, SLOW_MS).unref();
    t.after(() => clearTimeout(slow));
  }

  /** In a service of one process, with the log in its data directory. */
  static alone(t: TestContext, options: ScenarioOptions & ConstructorParameters<typeof World>[1]): Scenario {
    return new Scenario(t, options, new World(t, options));
  }

  /** Starts the service, with a reducer on type `ledger` and two projections that have subscribers on every channel. */
  async begin(fuse?: `${CrashPoint}:${number}`): Promise<void> {
    const service = await this.#started(fuse);
    this.#storedAs = await storedName(service);
    await this.bind('ledger');
    await this.project(LANES, true);
    await this.project(JOURNAL, false);
    await this.built();
  }

  /** With a tenant of several partitions: the default one is made anew, and given the key of the tests by the next start. */
  async #started(fuse?: `${CrashPoint}:${number}`): Promise<W['service']> {
    const { partitions } = this.#options;
    const service = await this.world.start(partitions === undefined ? fuse : undefined);
    if (partitions === undefined) return service;
    await until(async () => (await service.request('DELETE', '/admin/tenants/default', AS_ADMIN)).status === 204);
    const made = await service.post('/admin/tenants', { tenantId: 'default', partitions }, AS_ADMIN);
    assert.equal(made.status, 201, made.text);
    await this.world.end('SIGTERM');
    return this.world.start(fuse);
  }

  /** Uploads a reducer of the type; resolves when it is bound. */
  async bind(aggregateType: string): Promise<void> {
    await this.world.service.deploy('reducers', reducerOf(aggregateType));
    this.#boundSince.set(aggregateType, performance.now());
  }

  /** Uploads a projection and follows it by polling and WebSocket; by webhook too when asked. */
  async project(projection: typeof LANES, withWebhook: boolean): Promise<void> {
    const webhook = withWebhook ? await WebhookReceiver.start(this.#t) : undefined;
    if (webhook !== undefined) webhook.secret = this.#sharedSecret;
    const config = webhook === undefined ? {} : { config: JSON.stringify({ webhook: { url: webhook.url } }) };
    this.#unanswered = { model: projection, webhook };
    const answer = await this.world.service.upload('projections', projection.source, config);
    assert.equal(answer.status, 202, answer.text);
    const { projectionId, notifications } = answer.json<{
      projectionId: string;
      notifications?: { webhook?: { secret?: string } };
    }>();
    if (webhook !== undefined) webhook.secret = this.#sharedSecret = notifications?.webhook?.secret ?? '';
    this.#follow(projectionId);
  }

  /** Follows the projection whose upload was stored, but whose answer the crash took. */
  async findUnanswered(): Promise<void> {
    if (this.#unanswered === undefined) return;
    const { projections } = (await this.world.service.get('/projections?limit=100')).json<{
      projections: { id: string }[];
    }>();
    const known = new Set(this.#projections.map(({ projectionId }) => projectionId));
    const unknown = projections.filter(({ id }) => !known.has(id));
    assert.equal(
      unknown.length,
      1,
      `of the upload that was under way at the crash there should be one projection: ${JSON.stringify({ known: [...known], projections })}`,
    );
    this.#follow(unknown[0]?.id ?? '');
  }

  #follow(projectionId: string): void {
    if (this.#unanswered === undefined) return;
    const followers = [
      new StreamFollower(this.#t, this.world, projectionId),
      new PollingFollower(this.#t, this.world, projectionId),
    ];
    this.#projections.push({ projectionId, followers, ...this.#unanswered });
    this.#unanswered = undefined;
  }

  /** Loads until the fuse that was lit burns down, or `during` is through; then ends the load's process if it still runs. */
  async crash(how: 'SIGKILL' | 'its own', during: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    this.#doing = `a crash by ${how} is waited for`;
    this.load.start();
    try {
      if (how === 'its own') this.world.light();
      await during();
      await this.world.end(how, CRASH_MS);
    } catch (error) {
      void this.load.stop();
      throw error;
    }
  }

  /** After a crash: what the log held stays, as it was, in front of all that came later. */
  async logOnlyGrew(): Promise<LogContent> {
    const now = await readLog(await this.world.openLog(), this.#storedAs, this.#options.partitions);
    for (const part of ['commits', 'swaps', 'changes'] as const) {
      const before = this.#earlier?.[part] ?? [];
      assert.deepEqual(
        now[part].slice(0, before.length),
        before,
        `the log lost or changed ${part} that it had at the crash before`,
      );
    }
    this.#earlier = now;
    return now;
  }

  /**
   * Stops the load, waits until projections, followers and read store have everything, ends the service, and checks all
   * invariants. The service is down afterwards.
   */
  async prove(): Promise<Evidence> {
    this.#doing = 'the load is being stopped';
    await this.load.stop();
    const answers = await this.settle();
    this.#doing = 'all processes are being ended';
    await this.world.end('SIGTERM');
    const evidence = { ...answers, log: await this.logOnlyGrew() };
    this.judge(evidence);
    return evidence;
  }

  /** Fails with every invariant that does not hold. */
  judge(evidence: Evidence): void {
    const findings = check(evidence);
    if (findings.length > 0)
      assert.fail(`${findings.join('\n')}\nseed ${this.#options.seed}, history ${this.history.save()}`);
    assert.ok(this.history.acknowledged > 0, 'nothing was acknowledged: nothing is proved');
  }

  /** What the service answers once everything has caught up. */
  async settle(): Promise<Omit<Evidence, 'log'>> {
    const { service } = this.world;
    this.#doing = 'builds and followers are waited for';
    await this.built();
    const listed = await this.#listAll();
    const total = [...listed.values()].reduce((sum, events) => sum + events.length, 0);
    const journal = this.#projections.find(({ model }) => model === JOURNAL);
    await until(
      async () => ((await this.#statesOf(journal?.projectionId ?? '')).get('all')?.count ?? 0) >= total,
      60_000,
    );
    const states = new Map<string, StateAnswer>();
    for (const aggregateId of listed.keys()) {
      const [aggregateType = ''] = aggregateId.split('-');
      if (!this.#boundSince.has(aggregateType)) continue;
      const answer = await service.get(`/aggregate-types/${aggregateType}/${aggregateId}/state`);
      assert.equal(answer.status, 200, answer.text);
      states.set(aggregateId, answer.json<StateAnswer>());
    }
    const projections: FollowedProjection[] = [];
    for (const { projectionId, model, followers, webhook } of this.#projections) {
      const polled = await this.#poll(projectionId);
      const sequences = new Set(polled.map(({ sequence }) => sequence));
      await caughtUp(sequences, polled.at(-1)?.sequence ?? 0, followers, webhook);
      const received = followers.map((follower) => [...follower.received]);
      projections.push({
        projectionId,
        model,
        states: await this.#statesOf(projectionId),
        polled,
        followers: received,
        deliveries: webhook === undefined ? undefined : [...webhook.deliveries],
      });
    }
    const answers = { history: this.history.operations, listed, states, boundSince: this.#boundSince, projections };
    return this.#options.rows === true
      ? {
          ...answers,
          rows: await this.#rows(
            total,
            projections.reduce((sum, { polled }) => sum + polled.length, 0),
          ),
        }
      : answers;
  }

  /** Every projection is live. */
  async built(): Promise<void> {
    for (const { projectionId } of this.#projections)
      await until(async () => {
        const { status, build, compilationError } = (
          await this.world.service.get(`/projections/${projectionId}/status`)
        ).json<{ status: string; build?: object; compilationError?: string }>();
        if (status === 'failed') throw new Error(compilationError);
        return status === 'compiled' && build === undefined;
      }, 60_000);
  }

  async #listAll(): Promise<Map<string, readonly ListedEvent[]>> {
    const { service } = this.world;
    const listed = new Map<string, readonly ListedEvent[]>();
    for (let cursor: string | undefined = ''; cursor !== undefined;) {
      const answer = await service.get(
        `/aggregates?limit=100${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
      );
      assert.equal(answer.status, 200, answer.text);
      const { aggregates, nextCursor } = answer.json<{ aggregates: { aggregateId: string }[]; nextCursor?: string }>();
      for (const { aggregateId } of aggregates) listed.set(aggregateId, await this.#listOne(aggregateId));
      cursor = nextCursor;
    }
    return listed;
  }

  async #listOne(aggregateId: string): Promise<readonly ListedEvent[]> {
    const events: ListedEvent[] = [];
    for (let from: number | undefined = 1; from !== undefined;) {
      const answer = await this.world.service.get(`/events/${aggregateId}?fromVersion=${from}`);
      assert.equal(answer.status, 200, answer.text);
      const page = answer.json<{ events: ListedEvent[]; nextVersion?: number }>();
      events.push(...page.events);
      from = page.nextVersion;
    }
    return events;
  }

  async #statesOf(projectionId: string): Promise<Map<string, Chain>> {
    const states = new Map<string, Chain>();
    for (let cursor: string | undefined = ''; cursor !== undefined;) {
      const answer = await this.world.service.get(
        `/projections/${projectionId}/states?limit=1000${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
      );
      assert.equal(answer.status, 200, answer.text);
      const page = answer.json<{ states: { key: string; state: Chain }[]; nextCursor?: string }>();
      for (const { key, state } of page.states) states.set(key, state);
      cursor = page.nextCursor;
    }
    return states;
  }

  async #poll(projectionId: string): Promise<Notification[]> {
    const polled: Notification[] = [];
    for (;;) {
      const answer = await this.world.service.get(
        `/projections/${projectionId}/notifications?afterSequence=${polled.at(-1)?.sequence ?? 0}&limit=1000`,
      );
      assert.equal(answer.status, 200, answer.text);
      const { notifications } = answer.json<{ notifications: Record<string, unknown>[] }>();
      if (notifications.length === 0) return polled;
      polled.push(...notifications.map(notificationOf));
    }
  }

  /** Waits until the read store has as many rows as are due, and its watermarks are past them; the checker says which are wrong. */
  async #rows(events: number, notifications: number): Promise<Rows> {
    const watermark = (stream: string): string =>
      `(SELECT max(log_offset) % ${2 ** 40} FROM watermarks WHERE stream = '${stream}')`;
    const lastCommit = '(SELECT max(log_offset) FROM events)';
    const conditions = [
      `(SELECT count() FROM events FINAL) >= ${events}`,
      `(SELECT count() FROM notifications FINAL) >= ${notifications}`,
      `${watermark('events')} > ${lastCommit}`,
      `${watermark('states')} > ${lastCommit}`,
      `${watermark('changes')} > (SELECT max(sequence) FROM notifications)`,
    ];
    await until(async () => {
      const [row] = await this.sql<{ complete: number }>(
        `SELECT ${conditions.join(' AND ')} AS complete FORMAT JSONEachRow`,
      ).catch(() => []);
      return row?.complete === 1;
    }, ROWS_MS).catch(() => undefined);
    const state = `if(state_raw IS NULL, 'null', state_raw)`;
    const parse = <R extends { readonly state: unknown }>(
      rows: readonly R[],
    ): (Omit<R, 'state'> & { state: Chain })[] =>
      rows.map((row) => ({ ...row, state: JSON.parse(String(row.state)) as Chain }));
    type Text<T> = T extends { state: Chain } ? Omit<T, 'state'> & { state: string } : T;
    const events_ = await this.sql<{ aggregate_id: string; version: string; event_id: string; data_raw: string }>(
      `SELECT aggregate_id, version, event_id, data_raw FROM events FINAL FORMAT JSONEachRow`,
    );
    return {
      events: events_.map(({ aggregate_id, version, event_id, data_raw }) => ({
        aggregate_id,
        version: Number(version),
        event_id,
        mark: (JSON.parse(data_raw) as { id: string }).id,
      })),
      aggregateStates: parse(
        await this.sql<Text<Rows['aggregateStates'][number]>>(
          `SELECT aggregate_id, version, ${state} AS state FROM aggregate_states FINAL FORMAT JSONEachRow`,
        ),
      ),
      notifications: parse(
        await this.sql<Text<Rows['notifications'][number]>>(
          `SELECT projection_id, sequence, key, event_id, ${state} AS state FROM notifications FINAL FORMAT JSONEachRow`,
        ),
      ),
      projectionStates: parse(
        await this.sql<Text<Rows['projectionStates'][number]>>(
          `SELECT projection_id, key, ${state} AS state FROM projection_states FINAL FORMAT JSONEachRow`,
        ),
      ),
    };
  }

  /** Runs a statement in the read store as its owner. */
  async sql<R>(statement: string): Promise<R[]> {
    const access = await this.world.service.get('/admin/read-store', AS_ADMIN);
    if (access.status !== 200) throw new Error(access.text);
    const { url, user, password, database } = access.json<{
      url: string;
      user: string;
      password: string;
      database: string;
    }>();
    const answer = await fetch(`${url}/?database=${database}`, {
      method: 'POST',
      body: statement,
      headers: { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': password },
      signal: AbortSignal.timeout(20_000),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    return text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as R);
  }
}
