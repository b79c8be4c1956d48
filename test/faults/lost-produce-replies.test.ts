// Invariant 2: the broker takes produces, and their replies are lost on the way. kafkajs's idempotent producer then acknowledges
// a record that is not in the log; the fenced log on a plain producer loses nothing.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Kafka, logLevel } from 'kafkajs';
import { dumpLog, needsKafkaHome, needsKafkaTools } from '../support/kafka.js';
import { KafkaScenario } from '../support/kafka-scenario.js';
import { seeded } from '../support/load.js';
import { heldRequests, lossy, lostProduces, lostReplies } from '../support/nemesis.js';
import { until } from '../support/service.js';
import { PRODUCE, startKafkaBehindProxies } from '../support/tcp-proxy.js';

test(
  "why this service doesn't use kafkajs's idempotent producer: it acknowledges a record that is not in the log",
  { skip: needsKafkaTools, timeout: 60_000 },
  async (t) => {
    const cluster = await startKafkaBehindProxies(t);
    const [proxy] = cluster.proxies;
    assert.ok(proxy);
    process.env['KAFKAJS_NO_PARTITIONER_WARNING'] = '1';
    const kafka = new Kafka({
      clientId: 'lost-replies',
      brokers: [...cluster.brokers],
      requestTimeout: 500,
      logLevel: logLevel.NOTHING,
    });
    const admin = kafka.admin();
    await admin.connect();
    await admin.createTopics({ topics: [{ topic: 'words', numPartitions: 1 }], waitForLeaders: true });
    await admin.disconnect();
    const producer = kafka.producer({
      idempotent: true,
      maxInFlightRequests: 1,
      retry: { retries: 1, initialRetryTime: 50 },
    });
    await producer.connect();
    t.after(() => producer.disconnect());
    const send = async (value: string): Promise<number> => {
      const [result] = await producer.send({ topic: 'words', acks: -1, messages: [{ value }] });
      assert.equal(result?.errorCode, 0);
      return Number(result.baseOffset);
    };

    assert.equal(await send('first'), 0);
    proxy.judge(({ apiKey }) => (apiKey === PRODUCE ? 'lose reply' : 'pass'));
    await assert.rejects(send('unheard'));
    assert.equal(proxy.lost, 2, 'the send and its retry');
    await proxy.heal();
    const acknowledged = await send('acknowledged');
    const after = await send('after');

    // What is in the log, by Kafka's own tool.
    await cluster.nodes[0]?.stop();
    const dump = await dumpLog([`${cluster.directory}/broker-1/data/words-0/00000000000000000000.log`]);
    const logged = [...dump.matchAll(/offset: (\d+) .*payload: (\w+)/g)].map(
      ([, offset, value]) => `${offset} ${value}`,
    );
    assert.deepEqual(logged, ['0 first', '1 unheard', '2 after']);
    assert.deepEqual({ acknowledged, after }, { acknowledged: 1, after: 2 });
  },
);

test(
  '2: produces that are lost, unheard of or late lose and double nothing on the fenced log',
  { skip: needsKafkaHome, timeout: 120_000 },
  async (t) => {
    const scenario = await KafkaScenario.start(t, { seed: 41 });
    const [proxy] = scenario.cluster.proxies;
    assert.ok(proxy);
    const nothing = [lostReplies(proxy), lostProduces(proxy)];
    await scenario.nemesis(nothing, () => scenario.unanswered(5)).run();
    // Only some of them, or only on old connections: appends go on meanwhile, in one epoch after the other.
    const late = heldRequests(proxy);
    const some = [lossy(proxy, seeded(scenario.seed)), late];
    await scenario
      .nemesis(some, async (fault) => {
        const { lost } = proxy;
        if (fault !== late) await until(() => proxy.lost > lost + 1);
        await scenario.acknowledged(30);
      })
      .run();
    const { epochs, voids } = await scenario.prove();
    assert.ok(epochs > nothing.length + some.length, 'each fault ended an epoch');
    assert.ok(voids > 0, 'something came too late, and is void');
  },
);
