// A tenant's own loop, through the command line as a process: deploy, change, history, rollback.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type CliOutcome, statefold } from '../support/cli.js';
import { API_KEY, startService, temporaryDirectory } from '../support/service.js';

function edit(path: string, from: string, to: string): void {
  const text = readFileSync(path, 'utf8');
  assert.ok(text.includes(from), `${path} has '${from}'`);
  writeFileSync(path, text.replace(from, to));
}

test('a project is deployed, changed, looked back at and rolled back', async (t) => {
  const cwd = temporaryDirectory(t);
  const service = await startService(t);
  const run = (...args: string[]): Promise<CliOutcome> =>
    statefold({ STATEFOLD_URL: service.url, STATEFOLD_API_KEY: API_KEY }, cwd, ...args);
  const ok = async (...args: string[]): Promise<string> => {
    const { code, out, err } = await run(...args);
    assert.equal(code, 0, out + err);
    return out;
  };
  const append = async (aggregateId: string, eventType: string, data: object): Promise<void> =>
    assert.equal((await service.post('/events', { aggregateId, eventType, data })).status, 201);
  const order = async (): Promise<unknown> =>
    (await service.get('/aggregate-types/order/order-1/state')).json()['state'];
  const customer = async (id: string): Promise<unknown> =>
    (await service.get(`/projections/${id}/states/Ada`)).json<{ states: { state: unknown }[] }>().states[0]?.state;
  const folder = join(cwd, 'shop');
  await ok('new', 'shop');
  await append('order-1', 'Placed', { customer: 'Ada' });
  await append('order-1', 'LineAdded', { product: 'tea', quantity: 2, price: 350 });
  await append('order-2', 'Placed', { customer: 'Ada' });
  // No order can be paid that was not placed: the reducer stops there.
  await append('order-3', 'Paid', {});

  await t.test('the plan says what would change, and changes nothing', async () => {
    const { code, out } = await run('deploy', 'shop', '--plan');
    assert.equal(code, 1, 'an aggregate would stop');
    assert.match(out, /^order +- +Shop\.OrderReducer +folds 3 aggregates$/m);
    assert.match(out, /^projection Shop\.Customers\n {2}a new one, which is built over the history$/m);
    assert.match(out, /^Shop\.OrderReducer +3 +0 +1 +2 +0 +1 \(before: 0\)$/m, 'tried over the stored history');
    assert.match(
      out,
      /^ {2}OrderReducer\.cs\(\d+\): order-3 stops at version 1 of order-3: InvalidOperationException: Paid on an order that was never placed\.$/m,
    );
    assert.match(
      out,
      /\nShop\.OrderReducer stops 1 aggregate at an event of the history \(none is stopped now\)\.\nNothing was deployed\. Mend it, or say --force to deploy it all the same\.\n$/,
    );
    assert.equal((await run('deploy', 'shop', '--plan', '--force')).code, 0);
    assert.equal((await run('deploy', 'shop', '--yes')).code, 1);
    assert.equal((await service.get('/aggregate-types/order')).status, 404);
    assert.deepEqual((await service.get('/reducers')).json(), { reducers: [] });
    assert.deepEqual((await service.get('/projections')).json(), { projections: [] });
    const unasked = await run('deploy', 'shop', '--no-dry-run');
    assert.deepEqual([unasked.code, unasked.err], [1, 'Nobody is here to be asked: say --yes.\n']);
    assert.equal((await service.get('/aggregate-types/order')).status, 404);
  });

  let projectionId = '';
  await t.test('a deployment ends when all is caught up', async () => {
    const deployed = JSON.parse(await ok('--json', 'deploy', 'shop', '--yes', '--no-dry-run')) as {
      projectionId: string;
      reducerId: string;
      deployed: boolean;
    };
    assert.equal(deployed.deployed, true);
    ({ projectionId } = deployed);
    assert.deepEqual(await order(), {
      customer: 'Ada',
      status: 'Open',
      total: 700,
      lines: [{ product: 'tea', quantity: 2, price: 350 }],
    });
    assert.equal(((await customer(projectionId)) as { orders: number }).orders, 2);
    assert.equal((await service.get('/aggregate-types/order')).json()['reducerId'], deployed.reducerId);
  });

  await t.test('a change is planned against what is bound and live, and redeploys the same projection', async () => {
    edit(join(folder, 'OrderReducer.cs'), 'line.Quantity * line.Price', 'line.Quantity * line.Price * 2');
    edit(join(folder, 'Customers.cs'), '?? 0) + 1', '?? 0) + 10');
    const failing = await run('deploy', 'shop', '--yes', '--no-dry-run');
    assert.equal(failing.code, 1);
    assert.match(
      failing.out,
      /\n2 fixtures of 3 failed; `statefold test` shows why:\n {2}fixtures\/customers\.json: a customer's orders are counted across aggregates\n {2}fixtures\/order\.json: an order adds up its lines\nNothing was deployed\./,
    );
    const out = await ok('deploy', 'shop', '--yes', '--force');
    assert.match(out, /^order +Shop\.OrderReducer since 20\S+ +Shop\.OrderReducer +folds 3 aggregates$/m);
    assert.match(
      out,
      new RegExp(`^projection Shop\\.Customers\\n {2}${projectionId}: revision 2 is built beside the live one`, 'm'),
    );
    assert.match(out, /^Shop\.OrderReducer +3 +1 +2 +0 +0 +1$/m);
    assert.match(out, /^Shop\.Customers +1 +1 +0 +0 +0 +0$/m);
    assert.match(
      out,
      /\nShop\.OrderReducer stops 1 aggregate at an event of the history \(1 are stopped now\)\.\n[\s\S]*\nprojection: revision 2 is live\n[\s\S]*\norder: caught up, 1 aggregate stopped by an event: see \/aggregate-types\/order\/faults\n$/,
    );
    assert.equal(((await order()) as { total: number }).total, 1400);
    assert.equal(((await customer(projectionId)) as { orders: number }).orders, 20);
  });

  await t.test('the same again is unchanged, and makes no revision', async () => {
    const out = await ok('deploy', 'shop', '--yes', '--force', '--no-dry-run');
    assert.match(out, /^order +Shop\.OrderReducer since 20\S+ +Shop\.OrderReducer +unchanged$/m);
    assert.match(out, new RegExp(`^  ${projectionId}: unchanged, the code is that of revision 2$`, 'm'));
    assert.equal((await service.get('/reducers')).json<{ reducers: unknown[] }>().reducers.length, 2);
    assert.equal((await service.get(`/projections/${projectionId}/status`)).json()['revision'], 2);
  });

  await t.test('what does not compile is not uploaded', async () => {
    edit(join(folder, 'Events.cs'), 'string Customer', 'strin Customer');
    const { code, out } = await run('deploy', 'shop', '--yes');
    assert.equal(code, 2);
    assert.match(
      out,
      /^Events\.cs\(4,\d+\): error CS0246: .*\n {4}4 \| public sealed record Placed\(strin Customer\);\n {6}\| +\^\n1 error\n$/,
    );
    edit(join(folder, 'Events.cs'), 'strin Customer', 'string Customer');
    assert.equal((await service.get('/reducers')).json<{ reducers: unknown[] }>().reducers.length, 2);
  });

  await t.test('history tells what there was', async () => {
    const all = await ok('history');
    assert.equal(await ok('history', 'Shop.OrderReducer'), await ok('history', 'order'));
    assert.match(all, /^order +Shop\.OrderReducer +20\S+ +\S+$/m);
    assert.match(all, new RegExp(`^Shop\\.Customers +2 +compiled +${projectionId}$`, 'm'));
    assert.match(
      await ok('history', 'order'),
      /^GENERATION[^\n]*\n2 +bound +Shop\.OrderReducer +20\S+ +\S+\n1 +kept +Shop\.OrderReducer +20\S+ +\S+\n$/,
    );
    assert.match(await ok('history', 'Customers'), /^REVISION[^\n]*\n2 +live +upload[^\n]*\n1 +kept +upload[^\n]*\n$/);
    assert.equal((JSON.parse(await ok('--json', 'history', projectionId)) as unknown[]).length, 2);
    const unknown = await run('history', 'nothing');
    assert.deepEqual(
      [unknown.code, /neither an aggregate type with a reducer nor a projection/.test(unknown.err)],
      [1, true],
    );
  });

  await t.test('rollback goes back to what was before, and ends when that is caught up', async () => {
    assert.match(
      await ok('rollback', 'order', '--yes'),
      /^order: back to Shop\.OrderReducer of 20[\s\S]*order: caught up, 1 aggregate stopped by an event: \S+ \S+\n$/,
    );
    assert.equal(((await order()) as { total: number }).total, 700);
    assert.match(await ok('rollback', 'Customers', '--yes'), /is live/);
    assert.equal(((await customer(projectionId)) as { orders: number }).orders, 2);
    // The code before is there still: it is bound again, and goes on from the states that were kept.
    const forward = JSON.parse(await ok('--json', 'deploy', 'shop', '--yes', '--force', '--no-dry-run')) as {
      reducerId: string;
    };
    assert.equal((await service.get('/reducers')).json<{ reducers: unknown[] }>().reducers.length, 2);
    assert.equal((await service.get('/aggregate-types/order')).json()['reducerId'], forward.reducerId);
    assert.equal(((await order()) as { total: number }).total, 1400);
    assert.match(
      await ok('rollback', 'OrderReducer', '--to', 'Shop.OrderReducer', '--yes'),
      /^order: back to Shop\.OrderReducer/,
    );
    assert.equal(((await order()) as { total: number }).total, 700);
    const unknown = await run('rollback', 'order', '--to', 'nothing', '--yes');
    assert.deepEqual([unknown.code, /was never bound to order/.test(unknown.err)], [1, true]);
  });

  await t.test('a key that is refused is told', async () => {
    const { code, err } = await statefold(
      { STATEFOLD_URL: service.url, STATEFOLD_API_KEY: 'not-a-key-of-this-service' },
      cwd,
      'history',
    );
    assert.deepEqual([code, /refuses the API key: set STATEFOLD_API_KEY/.test(err)], [1, true]);
  });
});
