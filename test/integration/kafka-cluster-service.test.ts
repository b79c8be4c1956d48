// Two processes of one service on a real Kafka, as their users and operators see them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { join } from 'node:path';
import { test } from 'node:test';
import { ClusterWorld } from '../support/cluster-world.js';
import { kafkaForTests, needsKafkaHome } from '../support/kafka.js';
import {
  AS_ADMIN,
  API_KEY,
  PROGRAM,
  programOf,
  ROOT,
  temporaryDirectory,
  until,
  type Service,
} from '../support/service.js';
import { Authority, needsOpenssl } from '../support/certificates.js';
import { MASTER_KEY } from '../support/peers.js';

const EVENT = { aggregateId: 'account-1', eventType: 'Opened', data: { owner: 'Ada' } };
const admin = AS_ADMIN;

test('two processes on one Kafka', { skip: needsKafkaHome }, async (t) => {
  const kafka = await kafkaForTests();
  // What they say to each other goes by TLS here; in the tests of faults it goes in clear.
  const folder = temporaryDirectory(t);
  const certificate = needsOpenssl ? undefined : new Authority(join(folder, 'authority')).sign(join(folder, 'tls'));
  const world = new ClusterWorld(t, {
    brokers: kafka.brokers,
    processes: 2,
    ...(certificate !== undefined && { env: { CLUSTER_TLS: certificate, LOG_LEVEL: 'info' } }),
  });
  await world.start();
  const both = [world.at(0), world.at(1)];
  const topics = async (): Promise<string[]> =>
    (await kafka.tool('kafka-topics', ['--list'])).split('\n').filter((topic) => topic.startsWith(`${world.prefix}.`));
  const newTenant = async (tenantId: string, through: Service): Promise<string> => {
    const answer = await through.post('/admin/tenants', { tenantId, name: tenantId }, admin);
    assert.equal(answer.status, 201, answer.text);
    return answer.json<{ apiKey: string }>().apiKey;
  };

  await t.test('either takes appends of one aggregate, and reads what the other answered', async () => {
    for (let version = 1; version <= 10; version++) {
      const [writer, reader] = [both[version % 2] as Service, both[(version + 1) % 2] as Service];
      const answer = await writer.post('/events', EVENT);
      assert.deepEqual([answer.status, answer.json()['version']], [201, version], answer.text);
      assert.equal((await reader.get('/events/account-1')).json<{ events: unknown[] }>().events.length, version);
    }
  });

  await t.test('a tenant made through one is served through the other at once, whoever owns it', async () => {
    const owners = new Set<number>();
    for (let i = 0; i < 12; i++) {
      const key = await newTenant(`tenant-${i}`, both[i % 2] as Service);
      const other = both[(i + 1) % 2] as Service;
      const answer = await other.post('/events', EVENT, { key });
      assert.deepEqual([answer.status, answer.json()['version']], [201, 1], answer.text);
      for (const [n, one] of both.entries())
        if ((await one.get('/events/account-1', { key, asPeer: true })).status === 200) owners.add(n);
    }
    assert.deepEqual([...owners].sort(), [0, 1], 'all tenants are one process’s: nothing is proved');
  });

  await t.test(
    'what they say to each other goes by TLS, to which both show a certificate',
    {
      skip: needsOpenssl,
    },
    async () => {
      const url = /"url":"(https:[^"]+)","msg":"the other processes/.exec(both[0]?.output ?? '')?.[1] ?? '';
      const [cert, key, ca] = ['tls.crt', 'tls.key', 'ca.crt'].map((file) =>
        readFileSync(join(certificate ?? '', file)),
      );
      const stranger = new Authority(join(folder, 'stranger')).sign(join(folder, 'strange'));
      const health = async (shown: object): Promise<number | undefined> => {
        const asked = request(`${url}/health`, { agent: false, ca, ...shown }).end();
        const [answer] = (await once(asked, 'response')) as [IncomingMessage];
        answer.resume();
        return answer.statusCode;
      };
      assert.equal(await health({ cert, key }), 200);
      await assert.rejects(health({}));
      const theirs = { cert: readFileSync(join(stranger, 'tls.crt')), key: readFileSync(join(stranger, 'tls.key')) };
      await assert.rejects(health(theirs));
      // A client of the tenant that says so is no process.
      const headers = { 'statefold-forwarded': '1' };
      assert.equal((await (both[0] as Service).get('/events/account-1', { headers })).status, 400);
    },
  );

  await t.test('an upload through either process waits for what the owner makes of it', async () => {
    for (const [n, entry] of both.entries()) {
      const type = `waited${n}`;
      const code = `[AggregateType("${type}")] public class R : IReducer<S> { public S? Apply(S? s, Event e) => new((s?.N ?? 0) + 1); } public record S(int N);`;
      const form = new FormData();
      form.append('file', new Blob([code]), 'R.cs');
      const answer = await entry.request('POST', '/reducers/upload?waitSeconds=30', { raw: form });
      assert.deepEqual([answer.status, answer.json()['status']], [202, 'compiled'], answer.text);
      for (const [i, through] of both.entries())
        assert.deepEqual((await through.post('/events', { ...EVENT, aggregateId: `${type}-${i}` })).json()['state'], {
          n: 1,
        });
      const projection = new FormData();
      projection.append(
        'file',
        new Blob([
          'public class P : IProjection<N> { public string? ResolveKey(Event e) => e.AggregateType; public N? Apply(N? n, Event e) => new((n?.Count ?? 0) + 1); } public record N(int Count);',
        ]),
        'P.cs',
      );
      const live = (await entry.request('POST', '/projections/upload?waitSeconds=30', { raw: projection })).json<{
        projectionId: string;
        status: string;
        live?: { revision: number };
      }>();
      assert.deepEqual([live.status, live.live?.revision], ['compiled', 1]);
      for (const through of both)
        assert.deepEqual(
          (await through.get(`/projections/${live.projectionId}/states/${type}`)).json<{
            states: { state: unknown }[];
          }>().states[0]?.state,
          { count: 2 },
        );
    }
  });

  await t.test('Kafka’s own tool shows how far each tenant is folded', async () => {
    const rowOf = async (topic: string): Promise<readonly string[]> =>
      (await kafka.tool('kafka-consumer-groups', ['--describe', '--group', `${world.prefix}-tasks`]))
        .split('\n')
        .map((line) => line.trim().split(/\s+/))
        .find((columns) => columns[1] === topic) ?? [];
    for (const topic of [`${world.prefix}.default.events`, `${world.prefix}.tenant-3.events`])
      await until(async () => {
        // GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG …
        const [, , , current, end, lag] = await rowOf(topic);
        return current !== undefined && current === end && Number(end) > 1 && lag === '0';
      }, 60_000);
  });

  await t.test('a tenant deleted through one is gone from the other, and its topics from Kafka', async () => {
    const key = await newTenant('leaving', both[0] as Service);
    assert.equal((await (both[1] as Service).post('/events', EVENT, { key })).status, 201);
    assert.ok((await topics()).some((topic) => topic.includes('.leaving.')));
    assert.equal((await (both[1] as Service).request('DELETE', '/admin/tenants/leaving', admin)).status, 204);
    await until(async () => (await (both[0] as Service).post('/events', EVENT, { key })).status === 401);
    await until(async () => (await topics()).every((topic) => !topic.includes('.leaving.')));
  });

  await t.test(
    'a tenant deleted and made again while a process was down is served by either, without what was',
    async () => {
      const ids = Array.from({ length: 6 }, (_, i) => `renewed-${i}`);
      // Each process has sections of those that it owns, and copies of the others.
      for (const id of ids) {
        const key = await newTenant(id, both[0] as Service);
        for (let n = 0; n < 3; n++)
          assert.equal((await (both[0] as Service).post('/events', EVENT, { key })).status, 201);
      }
      await world.endOne(1, 'SIGTERM');
      const keys = new Map<string, string>();
      for (const id of ids) {
        await until(async () => {
          const { status, text } = await world.at(0).request('DELETE', `/admin/tenants/${id}`, admin);
          assert.ok(status === 204 || status === 503, text);
          return status === 204;
        });
        const key = await newTenant(id, world.at(0));
        keys.set(id, key);
        await until(async () => {
          const { status, text } = await world.at(0).post('/events', { ...EVENT, expectedVersion: 0 }, { key });
          assert.ok(status === 201 || status === 503, text);
          return status === 201;
        });
      }
      await world.startOne(1);
      const served = async (through: Service): Promise<void> => {
        for (const [id, key] of keys)
          await until(async () => {
            const answer = await through.get('/events/account-1', { key });
            if (answer.status === 503) return false;
            assert.equal(answer.status, 200, `${id}: ${answer.text}`);
            assert.equal(answer.json<{ events: unknown[] }>().events.length, 1, id);
            return true;
          });
      };
      await served(world.at(1));
      // What it had of the former ones is all that it could serve them from, once it owns them.
      await world.endOne(0, 'SIGTERM');
      await served(world.at(1));
      await world.startOne(0);
      both[0] = world.at(0);
      both[1] = world.at(1);
    },
  );

  await t.test(
    'a process with another master key or number of slots, or a topic with other settings, does not start, and the sentence says what to do',
    async () => {
      const started = (env: Record<string, string>): ReturnType<typeof spawnSync> =>
        spawnSync(process.execPath, [programOf(PROGRAM), 'serve'], {
          cwd: ROOT,
          encoding: 'utf8',
          timeout: 60_000,
          env: {
            PATH: process.env['PATH'],
            PORT: '0',
            STATEFOLD_DATA_DIR: temporaryDirectory(t),
            STATEFOLD_API_KEY: API_KEY,
            KAFKA_BROKERS: kafka.brokers.join(','),
            KAFKA_TOPIC_PREFIX: world.prefix,
            ...env,
          },
        });
      const stranger = started({ STATEFOLD_MASTER_KEY: 'another-master-key-than-all-the-others-have' });
      assert.equal(stranger.status, 1);
      assert.match(String(stranger.stderr), /begun with another master key: set STATEFOLD_MASTER_KEY/);
      for (const slots of ['32', '128']) {
        const other = started({ STATEFOLD_MASTER_KEY: MASTER_KEY, SLOTS: slots });
        assert.equal(other.status, 1);
        assert.match(
          String(other.stderr),
          new RegExp(`^SLOTS is ${slots}, and this cluster has 64, .*: set SLOTS=64 in all of its processes\\.\n$`),
        );
      }
      await kafka.tool('kafka-configs', [
        '--alter',
        '--entity-type',
        'topics',
        '--entity-name',
        `${world.prefix}.catalog`,
        '--add-config',
        'cleanup.policy=delete,retention.ms=1000',
      ]);
      const careless = started({ STATEFOLD_MASTER_KEY: MASTER_KEY });
      assert.equal(careless.status, 1);
      assert.match(String(careless.stderr), new RegExp(`${world.prefix}\\.catalog.*cleanup\\.policy`));
    },
  );
});
