// Invariants 1 to 14: one process faces the clients, one folds, one notifies; the one that notifies is killed, and the one that folds.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterWorld } from '../support/cluster-world.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { Scenario, STEADY, step } from '../support/load-scenario.js';
import { AS_ADMIN, until } from '../support/service.js';

const ROLES = ['gateway', 'tasks', 'notifier'];
const [GATEWAY, TASKS, NOTIFIER] = [0, 1, 2];

test('roles apart', { skip: needsKafka }, async (t) => {
  const { brokers } = await kafkaForTests();
  const world = new ClusterWorld(t, {
    brokers,
    processes: 3,
    entry: GATEWAY,
    envOf: (process) => ({ ROLES: ROLES[process] ?? '', FORWARD_DEADLINE_MS: '15000' }),
  });
  const scenario = new Scenario(t, { seed: 5010, ...STEADY }, world);
  const { history, load } = scenario;
  /** The sum of a metric over its labels. */
  const metric = async (process: number, name: string): Promise<number> => {
    const { text } = await world.at(process).get('/metrics', AS_ADMIN);
    const lines = text.split('\n').filter((line) => new RegExp(`^${name}(\\{|\\s)`).test(line));
    return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  };
  const acknowledged = (more: number): Promise<unknown> => {
    const before = history.acknowledged;
    return until(() => history.acknowledged > before + more);
  };
  await scenario.begin();
  load.start();

  await step(t, 'webhooks and streams are the notifier’s, folding is the owner’s', async () => {
    await acknowledged(50);
    await until(
      async () =>
        (await metric(NOTIFIER, 'statefold_webhook_attempt_duration_seconds_count')) > 0 &&
        (await metric(NOTIFIER, 'statefold_websocket_connections')) === 2,
    );
    for (const process of [GATEWAY, TASKS]) {
      assert.equal(await metric(process, 'statefold_webhook_attempt_duration_seconds_count'), 0);
      assert.equal(await metric(process, 'statefold_websocket_connections'), 0);
    }
    for (const process of [GATEWAY, NOTIFIER]) assert.equal(await metric(process, 'statefold_active_tenants'), 0);
    assert.equal(await metric(TASKS, 'statefold_active_tenants'), 1);
    for (const process of [TASKS, NOTIFIER]) {
      const refused = await world.at(process).get('/projections');
      assert.equal(refused.status, 503);
      assert.match(refused.json<{ detail: string }>().detail, /takes no requests of clients/);
    }
  });

  await step(t, 'what needs the owner itself is done by it, though it takes no requests of clients', async () => {
    const schema = { schema: { type: 'object' } };
    const set = await world.at(GATEWAY).request('PUT', '/event-types/Checked', { body: schema });
    assert.equal(set.status, 200, set.text);
    const tasks = encodeURIComponent(world.at(TASKS).url);
    const activity = await world.at(GATEWAY).get(`/admin/processes/activity?url=${tasks}`, AS_ADMIN);
    assert.equal(activity.status, 200, activity.text);
    assert.deepEqual(activity.json<{ roles: string[] }>().roles, ['tasks']);
    // There is no read store here, and it says so itself.
    const rebuilt = await world.at(GATEWAY).post('/admin/read-store/rebuild', {}, AS_ADMIN);
    assert.match(rebuilt.text, /answered 503: (?!this process takes no requests of clients)/);
    const cancelled = await world.at(GATEWAY).request('DELETE', `/admin/read-store/rebuild?url=${tasks}`, AS_ADMIN);
    // Several processes write to the one server that the settings name.
    assert.equal(cancelled.status, 409, cancelled.text);
    assert.match(cancelled.text, /answered 409: .* in their place/);
  });

  for (const how of ['SIGKILL', 'SIGTERM', 'SIGKILL'] as const)
    await step(t, `the notifier is ended by ${how}`, async () => {
      await acknowledged(20);
      await world.endOne(NOTIFIER, how);
      await acknowledged(50);
      await world.startOne(NOTIFIER);
      await until(async () => (await metric(NOTIFIER, 'statefold_webhook_attempt_duration_seconds_count')) > 0);
    });
  await step(t, 'the owner is killed', async () => {
    await acknowledged(20);
    await world.endOne(TASKS, 'SIGKILL');
    await world.startOne(TASKS);
    await acknowledged(20);
  });
  await step(t, 'both are killed', async () => {
    await Promise.all([TASKS, NOTIFIER].map((process) => world.endOne(process, 'SIGKILL')));
    await Promise.all([TASKS, NOTIFIER].map((process) => world.startOne(process)));
    await acknowledged(20);
  });
  const { log, projections } = await scenario.prove();
  const deliveries = projections.flatMap(({ deliveries: its = [] }) => its).length;
  assert.ok(deliveries > 0);
  t.diagnostic(
    `${history.acknowledged} appends acknowledged, ${deliveries} deliveries, ${log.epochs} epochs, ${log.voids} void records`,
  );
});
