// Invariants 1 to 8 and 20: leaders are elected again and again while a follower lags, and produces are refused, under two owners that take each other for dead. `BROKER_FAULTS` says how many faults, one every few seconds.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alterConfigsCall, metadataCall } from '../../src/kafka/calls.js';
import { Cluster } from '../../src/kafka/cluster.js';
import { needsKafkaHome, type KafkaNode } from '../support/kafka.js';
import { KafkaScenario } from '../support/kafka-scenario.js';
import type { Fault } from '../support/nemesis.js';
import { until } from '../support/service.js';

/** Each fault once at least. */
const ROUNDS = Math.max(4, Number(process.env['BROKER_FAULTS'] ?? 4));
const SEED = Number(process.env['FAULT_SEED'] ?? 12);
const EVENTS = 'statefold.acme.events';

test(
  '8, 20: a new leader that does not know yet how far the log goes makes no owner answer for what is void',
  { skip: needsKafkaHome, timeout: 90_000 + ROUNDS * 40_000 },
  async (t) => {
    const scenario = await KafkaScenario.start(t, {
      seed: SEED,
      owners: 2,
      brokers: 3,
      properties: {
        'broker.heartbeat.interval.ms': 300,
        'broker.session.timeout.ms': 1_500,
        'replica.lag.time.max.ms': 2_000,
      },
    });
    const { nodes, brokers } = scenario.cluster;
    // A broker that is paused answers nothing: the next one is asked soon.
    const cluster = new Cluster({ brokers, clientId: 'faults', connectTimeoutMs: 500, requestTimeoutMs: 1000 });
    t.after(() => cluster.close());
    const events = async (): Promise<{ readonly leader: number; readonly isr: readonly number[] } | undefined> => {
      const metadata = await cluster.ask('query', () => metadataCall([EVENTS]), 1000).catch(() => undefined);
      return metadata?.topicMetadata[0]?.partitionMetadata[0];
    };
    const whole = async (): Promise<boolean> => (await events())?.isr.length === 3;
    const led = new Set<number>();
    const nodeOf = (id: number): KafkaNode => nodes.find((node) => node.id === id) ?? assert.fail(`no broker ${id}`);
    let [lagging, former]: (KafkaNode | undefined)[] = [];

    /** A follower stands still while appends go on; it runs again in the moment in which the leader is gone. */
    const election = (how: 'SIGKILL' | 'SIGSTOP'): Fault => ({
      name: `an election (${how}) beside a follower that lags`,
      inflict: async () => {
        const partition = await events();
        assert.ok(partition !== undefined);
        const follower = partition.isr.find((id) => id !== partition.leader) ?? assert.fail('a follower in sync');
        led.add(partition.leader);
        [lagging, former] = [nodeOf(follower), nodeOf(partition.leader)];
        await lagging.kill('SIGSTOP');
      },
      heal: async () => {
        await lagging?.kill('SIGCONT');
        await former?.kill(how);
        await until(async () => ![undefined, -1, former?.id].includes((await events())?.leader), 30_000);
        if (how === 'SIGSTOP') await former?.kill('SIGCONT');
        else await former?.start();
      },
    });
    /** Certain not to be stored: three copies must have an append, and one of them stands still. */
    const refused: Fault = {
      name: 'refused produces',
      inflict: async () => {
        await needed(3);
        const partition = await events();
        lagging = nodeOf(partition?.isr.find((id) => id !== partition.leader) ?? assert.fail('a follower in sync'));
        await lagging.kill('SIGSTOP');
        await until(async () => (await events())?.isr.length === 2, 30_000);
      },
      heal: async () => {
        await needed(2);
        await lagging?.kill('SIGCONT');
      },
    };
    const needed = (copies: number): Promise<void> =>
      until(async () => {
        const answer = await cluster
          .askAdmin(() => Promise.resolve(alterConfigsCall(EVENTS, { 'min.insync.replicas': String(copies) })), 5000)
          .catch(() => undefined);
        return answer?.[0]?.code === 0;
      });
    await until(whole);
    await scenario
      .nemesis(
        [election('SIGSTOP'), election('SIGKILL'), election('SIGSTOP'), refused],
        // Until it is felt: an append that waits for the follower is under way, or given up.
        () => scenario.unanswered(10),
        async () => {
          await scenario.acknowledged(60);
          await until(whole, 60_000);
        },
      )
      .run(ROUNDS);
    await scenario.acknowledged(60);
    const log = await scenario.prove();
    assert.ok(log.epochs > 4 && log.voids > 0, 'the owners contended');
    assert.ok(led.size > 1, 'leaders changed');
    for (const { stops } of scenario.worlds)
      for (const error of stops) assert.ok(!/lost data/.test(error.message), error.message);
  },
);
