// A tenant moves from the embedded log to Kafka while it is written to, and is the same there, and goes on.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { Api, newTenant, problem, success } from '../support/api.js';
import { reducerOf } from '../support/checker-model.js';
import { spawnStatefold, spawnStatefoldFed } from '../support/cli.js';
import { ClusterWorld } from '../support/cluster-world.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { startService, temporaryDirectory, until } from '../support/service.js';
import { commandEnv, digestOf, exported, importLines } from '../support/transfer.js';

test('from the embedded log to two processes on Kafka', { skip: needsKafka }, async (t) => {
  const folder = temporaryDirectory(t);
  const source = await startService(t);
  const kafka = await kafkaForTests();
  const world = new ClusterWorld(t, { brokers: kafka.brokers, processes: 2 });
  await world.start();
  const key = await newTenant(source, { tenantId: 'whole' });
  const from = new Api(source, key);
  await from.deployReducer(reducerOf('ledger'));
  let [written, ended] = [0, false];
  const producing = (async () => {
    while (!ended)
      success(
        await from.post('/events', {
          aggregateId: `ledger-${written % 7}`,
          eventType: 'Added',
          data: { id: `e${written++}`, lane: 'lane-1' },
        }),
        201,
      );
  })();

  // Through either process: one of them is not the owner.
  for (const [i, tenantId] of ['moved-0', 'moved-1'].entries())
    await t.test(`through process ${i}`, async () => {
      const target = world.at(i);
      const there = await newTenant(target, { tenantId });
      const exporting = spawnStatefold(commandEnv(source, key), folder, 'export', '-', '--follow');
      const importing = spawnStatefoldFed(commandEnv(target, there), folder, 'import', tenantId, '-');
      const [told, ending] = [text(importing.stderr), once(importing, 'close')];
      let passed = 0;
      exporting.stdout.on('data', (chunk: Buffer) => (passed += chunk.toString('latin1').split('\n').length - 1));
      exporting.stdout.pipe(importing.stdin);
      const begun = written;
      await until(() => passed > begun + 50);
      if (i === 1) {
        ended = true;
        await producing;
      }
      exporting.kill('SIGTERM');
      assert.deepEqual(await ending, [0, null], await told);
      const to = new Api(target, there);
      await to.deployReducer(reducerOf('ledger'));
      success(
        await to.post('/events', { aggregateId: 'ledger-0', eventType: 'Added', data: { id: 'x', lane: 'l' } }),
        201,
      );
    });

  await t.test('and the two compare equal', async () => {
    const target = world.at(0);
    const there = await newTenant(target, { tenantId: 'same' });
    const lines = await exported(source, key);
    const wrong = problem(await importLines(target, 'same', [...lines, lines[0] ?? '']), 400, 'INVALID_REQUEST');
    assert.equal(wrong['line'], lines.length + 1);
    success(await importLines(target, 'same', lines), 200);
    await new Api(target, there).deployReducer(reducerOf('ledger'));
    const original = await digestOf(source, key);
    assert.equal(original.events, written);
    assert.deepEqual(await digestOf(target, there), original);
    assert.deepEqual(await digestOf(world.at(1), there), original);
  });
});
