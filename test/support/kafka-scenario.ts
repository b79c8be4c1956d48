import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import { check, type ListedEvent } from './checker.js';
import { readLog, type LogContent } from './checker-log.js';
import { History } from './history.js';
import type { KafkaCluster, KafkaOptions } from './kafka.js';
import { Load } from './load.js';
import type { Served } from './load-world.js';
import { Nemesis, type Fault } from './nemesis.js';
import { until } from './service.js';
import { TaskWorld } from './task-world.js';
import { startKafkaBehindProxies, type TcpProxy } from './tcp-proxy.js';

const TENANT = 'acme';
/** Short, so that what is lost is noticed soon. */
const REQUEST_TIMEOUT_MS = 1_500;
const WAIT_MS = 60_000;

const openLog = (brokers: readonly string[]): KafkaLog =>
  new KafkaLog({
    brokers: [...brokers],
    clientId: 'faults',
    prefix: 'statefold',
    requestTimeoutMs: REQUEST_TIMEOUT_MS,
    logger: silentLogger,
  });

/** So many requests go to one owner before they go to the next. */
const REQUESTS_PER_TURN = 60;

/** Sends clients to one world, then to the next: what the former has under way goes on. */
class Turns implements Served {
  readonly #worlds: readonly TaskWorld[];
  #requests = 0;

  constructor(worlds: readonly TaskWorld[]) {
    this.#worlds = worlds;
  }

  get ended(): boolean {
    return this.#worlds.some(({ ended }) => ended);
  }

  up(): Promise<{ readonly url: string }> {
    const world = this.#worlds[Math.floor(this.#requests++ / REQUESTS_PER_TURN) % this.#worlds.length];
    assert.ok(world);
    return world.up();
  }
}

export interface KafkaScenarioOptions extends Omit<KafkaOptions, 'advertised' | 'ports'> {
  readonly seed: number;
  /** Processes that each take themselves for the tenant's owner: clients go to one, then to the next. 1 unless given. */
  readonly owners?: number;
}

/** A tenant's task on a Kafka behind proxies, clients that append all the time, and the proof that nothing broke. */
export class KafkaScenario {
  readonly history = new History();
  readonly load: Load;
  readonly #t: TestContext;

  private constructor(
    t: TestContext,
    readonly seed: number,
    readonly cluster: KafkaCluster & { readonly proxies: readonly TcpProxy[] },
    readonly worlds: readonly TaskWorld[],
  ) {
    this.#t = t;
    this.load = new Load(new Turns(worlds), this.history, { seed });
  }

  /** Everything runs, and appends are being acknowledged. */
  static async start(t: TestContext, { seed, owners = 1, ...options }: KafkaScenarioOptions): Promise<KafkaScenario> {
    const cluster = await startKafkaBehindProxies(t, options);
    const worlds: TaskWorld[] = [];
    for (let i = 0; i < owners; i++)
      worlds.push(await TaskWorld.start(t, { log: openLog(cluster.brokers), tenantId: TENANT }));
    const scenario = new KafkaScenario(t, seed, cluster, worlds);
    scenario.load.start();
    t.after(() => scenario.load.stop());
    await scenario.acknowledged(50);
    return scenario;
  }

  /** The one that serves the tenant, where there is no other. */
  get world(): TaskWorld {
    const [world] = this.worlds;
    assert.ok(world);
    return world;
  }

  /** Waits until so many more appends are acknowledged. */
  async acknowledged(more: number): Promise<void> {
    const from = this.history.acknowledged;
    await until(() => this.history.acknowledged >= from + more, WAIT_MS);
  }

  /** Waits until so many more requests were refused for now, or got no answer. */
  async unanswered(more: number): Promise<void> {
    const from = this.history.operations.length;
    const failed = (): number =>
      this.history.operations.slice(from).filter(({ outcome }) => outcome.kind === 'lost' || outcome.status === 503)
        .length;
    await until(() => failed() >= more, WAIT_MS);
  }

  nemesis(
    faults: readonly Fault[],
    during: (fault: Fault) => Promise<void>,
    after: (fault: Fault) => Promise<void> = () => this.acknowledged(30),
  ): Nemesis {
    return new Nemesis(this.#t, { seed: this.seed, faults, during, after });
  }

  /** Stops the clients, and holds what they were told against what is listed and what a cold reader folds. */
  async prove(): Promise<LogContent> {
    await this.load.stop();
    for (const other of this.worlds.slice(1)) await other.close();
    // Where another one claimed last this one is deposed and does not know it: it finds out with the next question, which it answers
    // 503, and takes the tenant again. From there on nobody contends, and nothing is answered 503.
    const asked = await fetch(`${this.world.url}/events/nothing-of-that-name`);
    if (asked.status !== 404) {
      assert.equal(asked.status, 503);
      this.#t.diagnostic(`the first question after the load: ${((await asked.json()) as { detail: string }).detail}`);
    }
    await until(
      () =>
        this.world.task().then(
          () => true,
          () => false,
        ),
      WAIT_MS,
    );
    const listed = new Map<string, readonly ListedEvent[]>();
    for (const aggregateId of new Set(this.history.operations.map(({ request }) => request.aggregateId))) {
      const answer = await fetch(`${this.world.url}/events/${aggregateId}`);
      if (answer.status === 404) continue;
      assert.equal(answer.status, 200, await answer.clone().text());
      listed.set(aggregateId, ((await answer.json()) as { events: ListedEvent[] }).events);
    }
    for (const world of this.worlds) await world.close();
    const log = await readLog(openLog(this.cluster.brokers), TENANT);
    const findings = check({
      history: this.history.operations,
      log,
      listed,
      states: new Map(),
      boundSince: new Map(),
      projections: [],
    });
    if (findings.length > 0) assert.fail(`${findings.join('\n')}\nseed ${this.seed}, history ${this.history.save()}`);
    const lost = this.history.operations.filter(({ outcome }) => outcome.kind === 'lost').length;
    const refused = this.history.operations.filter(
      ({ outcome }) => outcome.kind === 'answered' && outcome.status === 503,
    ).length;
    this.#t.diagnostic(
      `${this.history.acknowledged} appends acknowledged, ${refused} requests refused for now, ${lost} without an answer, ${log.epochs} epochs, ${log.voids} void records`,
    );
    return log;
  }
}
