// A tab of the console that is open while the process that serves its tenant is killed goes on by itself; the page of operations tells.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openChromium, needsChromium } from '../support/chromium.js';
import { ClusterWorld } from '../support/cluster-world.js';
import { opened } from '../support/console.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { ADMIN_KEY, AS_ADMIN, until } from '../support/service.js';

const GATEWAY = 0;

test('pages open through a takeover', { skip: needsKafka || needsChromium }, async (t) => {
  const { brokers } = await kafkaForTests();
  const world = new ClusterWorld(t, {
    brokers,
    processes: 3,
    entry: GATEWAY,
    envOf: (process) =>
      process === GATEWAY ? { ROLES: 'gateway', FORWARD_DEADLINE_MS: '15000' } : { ROLES: 'tasks,notifier' },
  });
  const service = await world.start();
  const append = async (eventType: string): Promise<void> => {
    const body = { aggregateId: 'order-1', eventType, data: {} };
    assert.equal((await service.post('/events', body)).status, 201);
  };
  await append('Before');
  const browser = await openChromium(t);
  const feed = await opened(t, browser, service, { path: '/console/feed', refusals: [503], breaks: true });
  await feed.getByRole('cell', { name: 'Before' }).waitFor();
  const operations = await opened(t, browser, service, {
    key: ADMIN_KEY,
    path: '/console/operations',
    refusals: [503],
    breaks: true,
  });
  const shares = operations.getByRole('region', { name: 'Processes' }).getByRole('button');
  await until(async () => (await shares.count()) === 3);

  const killed = await world.owner();
  await world.endOne(killed, 'SIGKILL');
  await append('After');
  await feed.getByRole('cell', { name: 'After' }).waitFor();
  const next = await world.owner();
  assert.notEqual(next, killed);
  await until(async () => (await shares.count()) === 2);
  await operations.getByRole('button', { name: new RegExp(`^${world.at(next).url}`) }).click();
  const moves = operations.getByRole('table', { name: 'Tenants that came and went' });
  await moves.getByRole('row', { name: /default.*(taken over by the standby|restored) here/ }).waitFor();

  const { processes } = (await service.get('/admin/processes', AS_ADMIN)).json<{
    processes: { url: string; self?: true; owned: number }[];
  }>();
  assert.deepEqual(
    processes.map(({ url, self, owned }) => [url === world.at(next).url, self ?? false, owned > 0]).sort(),
    [
      [false, true, false],
      [true, false, true],
    ],
  );
  const elsewhere = await service.get('/admin/processes/activity?url=http%3A%2F%2F127.0.0.1%3A1', AS_ADMIN);
  assert.equal(elsewhere.status, 404);
});
