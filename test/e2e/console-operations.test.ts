// Pages of the console by which a tenant and the service are run: webhooks, history of a key, tenants, keys, and how the service does.
import assert from 'node:assert/strict';
import test from 'node:test';
import { needsChromium, openChromium } from '../support/chromium.js';
import { assertAccessible, opened } from '../support/console.js';
import { ADMIN_KEY, startService, until } from '../support/service.js';
import { verify, World, type Endpoint } from '../support/webhook-world.js';

test('the console runs webhooks', { skip: needsChromium }, async (t) => {
  const w = await World.open(t, { WEBHOOK_RETRY_SECONDS: '1' });
  const browser = await openChromium(t);
  const page = await opened(t, browser, w.service, { path: '/console/webhooks' });
  const button = (name: string): ReturnType<typeof page.getByRole> => page.getByRole('button', { name, exact: true });
  const only = async (): Promise<Endpoint> => {
    const [endpoint] = (await w.api.read<{ endpoints: Endpoint[] }>('/webhooks/endpoints')).endpoints;
    assert.ok(endpoint);
    return endpoint;
  };
  let secret = '';

  await t.test('an endpoint is made, and its secret is shown once', async () => {
    await page.getByRole('heading', { name: 'There are no webhook endpoints' }).waitFor();
    await button('New endpoint').click();
    await page.getByLabel('URL').fill(`${w.receiver.url}/hook`);
    await page.getByLabel('Follows').selectOption(w.projectionId);
    await page.getByLabel('Headers that go').fill('X-Team: orders');
    await assertAccessible(page);
    await button('Create').click();
    const shown = page.getByRole('dialog', { name: 'The endpoint’s secret' });
    secret = (await shown.locator('pre').innerText()).trim();
    await button('I have kept it').click();
    await page.getByRole('heading', { name: `${w.receiver.url}/hook` }).waitFor();
    assert.ok(!(await page.content()).includes(secret));
    await w.add('x');
    await until(() => w.receiver.of('/hook').length === 1);
    verify(w.receiver.of('/hook')[0], secret);
    assert.equal(w.receiver.of('/hook')[0]?.headers['x-team'], 'orders');
  });

  await t.test(
    'attempts are shown with what was sent and what was answered; what was given up is sent again',
    async () => {
      w.receiver.answers.set('/hook', () => ({ status: 500, text: 'out of ink' }));
      await w.add('y');
      await page.getByRole('heading', { name: '1 dead letter' }).waitFor();
      await page.getByLabel('Show').selectOption('failed');
      await page.getByRole('table', { name: 'Latest attempts' }).getByRole('row', { name: /500/ }).first().click();
      await page.getByRole('region', { name: 'Body of the answer' }).getByText('out of ink').waitFor();
      await page.getByRole('region', { name: 'Data of the message' }).getByText('"key": "y"').waitFor();
      await page.getByText('Attempts keep no bodies: the change is read again').waitFor();
      await assertAccessible(page);
      // Whoever opens the address sees the same attempt.
      await page.reload();
      await page.getByRole('region', { name: 'Body of the answer' }).getByText('out of ink').waitFor();
      await page.getByRole('button', { name: 'Close', exact: true }).click();
      await page.getByRole('region', { name: 'Body of the answer' }).waitFor({ state: 'detached' });
      w.receiver.answers.delete('/hook');
      await button('Send again').click();
      await page.getByRole('heading', { name: '1 dead letter' }).waitFor({ state: 'detached' });
      assert.equal((await only()).parked, 0);
    },
  );

  await t.test('it is tested, paused, resumed, changed, replayed, rotated and deleted', async () => {
    await button('Send a test').click();
    await page.getByText(/The test was delivered: 200/).waitFor();
    await button('Pause').click();
    await button('Resume').waitFor();
    assert.equal((await only()).state.status, 'paused');
    await button('Resume').click();
    await button('Pause').waitFor();

    await button('Edit').click();
    await page.getByLabel('Description').fill('for the press');
    await button('Save').click();
    await page.getByRole('definition').getByText('for the press').waitFor();
    assert.deepEqual((await only()).headerNames, ['x-team']);

    const before = w.receiver.of('/hook').length;
    await button('Replay').click();
    const from = page.getByLabel(/^From sequence/);
    await from.press('Enter');
    assert.equal(await from.evaluate((one: { validity: { valid: boolean } }) => one.validity.valid), false);
    await from.fill('1');
    await from.press('Enter');
    await page.getByText(/^All that the endpoint follows from sequence 1 to what was delivered last, \d+,/).waitFor();
    await assertAccessible(page);
    assert.equal(w.receiver.of('/hook').length, before);
    await button('Send them again').click();
    await page.getByText(/^Sends 1 to 2 again/).waitFor();
    await until(() => w.receiver.of('/hook').length === before + 2);

    await button('Rotate the secret').click();
    await button('Rotate').click();
    const rotated = (
      await page.getByRole('dialog', { name: 'The endpoint’s secret' }).locator('pre').innerText()
    ).trim();
    assert.notEqual(rotated, secret);
    await button('I have kept it').click();
    await w.add('z');
    await until(() => w.receiver.of('/hook').some(({ record }) => record.key === 'z'));
    verify(w.receiver.of('/hook').at(-1), rotated);

    await button('Delete').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('heading', { name: 'There are no webhook endpoints' }).waitFor();
    assert.deepEqual((await w.api.read<{ endpoints: unknown[] }>('/webhooks/endpoints')).endpoints, []);
  });
});

test('the console sends all dead letters again, and attempts a message now', { skip: needsChromium }, async (t) => {
  const w = await World.open(t, { WEBHOOK_RETRY_SECONDS: '0' });
  const browser = await openChromium(t);
  const endpoint = await w.create('/hook');
  const path = `/console/webhooks/${endpoint.endpointId}`;
  const received = (): number => w.receiver.of('/hook').length;

  await t.test('all of them, or those since a time', async () => {
    w.receiver.answers.set('/hook', () => ({ status: 500 }));
    await w.add('p');
    await w.add('q');
    await until(async () => (await w.get(endpoint)).parked === 2);
    const page = await opened(t, browser, w.service, { path });
    const button = (name: string): ReturnType<typeof page.getByRole> => page.getByRole('button', { name, exact: true });
    await page.getByRole('heading', { name: '2 dead letters' }).waitFor();
    const before = received();
    await button('Send all again').click();
    await page.getByLabel(/^Given up at, or after/).fill('2999-01-01T00:00:00');
    await assertAccessible(page);
    await button('Send them again').click();
    await page.getByText('There are none to send again.').waitFor();
    assert.equal(received(), before);
    w.receiver.answers.delete('/hook');
    await button('Send all again').click();
    await button('Send them again').click();
    await page.getByText('Sends 2 dead letters again.').waitFor();
    await page.getByRole('heading', { name: '2 dead letters' }).waitFor({ state: 'detached' });
    await until(() => received() === before + 2);
    assert.equal((await w.get(endpoint)).parked, 0);
    // A page that is open goes on asking, and the service is about to stop.
    await page.context().close();
  });

  await t.test('a message that waits for its next attempt, after a question', async () => {
    await w.service.stop();
    await w.start({ WEBHOOK_RETRY_SECONDS: '3600' });
    w.receiver.answers.set('/hook', () => ({ status: 503 }));
    await w.add('r');
    await until(async () => (await w.attempts(endpoint))[0]?.status === 503);
    const page = await opened(t, browser, w.service, { path });
    const button = (name: string): ReturnType<typeof page.getByRole> => page.getByRole('button', { name, exact: true });
    await page.getByRole('table', { name: 'Latest attempts' }).getByRole('row', { name: /503/ }).first().click();
    await button('Attempt it now').click();
    await page.getByRole('heading', { name: 'Attempt the message now?' }).waitFor();
    await assertAccessible(page);
    const before = received();
    await button('Cancel').click();
    assert.equal(received(), before);
    w.receiver.answers.delete('/hook');
    await button('Attempt it now').click();
    await button('Attempt it').click();
    await until(async () => (await w.get(endpoint)).pending === 0);
    assert.equal(received(), before + 1);
    await button('Attempt it now').waitFor({ state: 'detached' });
  });
});

test('the console makes and revokes keys of a tenant', { skip: needsChromium }, async (t) => {
  const service = await startService(t, { readStore: true });
  const page = await opened(t, await openChromium(t), service, { key: ADMIN_KEY, path: '/console/audit' });
  await page.getByRole('link', { name: 'Tenants' }).click();
  await page
    .getByRole('row', { name: /default/ })
    .first()
    .click();
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByLabel('Name of the key').fill('reader');
  for (const scope of ['append', 'deploy', 'erase', 'sql', 'webhooks', 'audit']) await page.getByLabel(scope).uncheck();
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Create' }).click();
  const shown = page.getByRole('dialog', { name: 'The new key' }).locator('pre');
  const apiKey = (await shown.innerText()).trim();
  // All of it is in sight, and stays so on the page that Back leads to.
  for (const width of [380, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    assert.ok(
      await shown.evaluate((box: { scrollWidth: number; clientWidth: number }) => box.scrollWidth <= box.clientWidth),
    );
  }
  await page.goBack();
  await page.getByRole('heading', { name: 'Audit log', level: 1, includeHidden: true }).waitFor();
  assert.equal((await shown.innerText()).trim(), apiKey);
  await page.getByRole('button', { name: 'I have kept it' }).click();
  await page.goForward();
  await page.getByRole('button', { name: 'New key' }).waitFor();
  assert.equal(await page.getByRole('dialog').count(), 0);
  const who = (): Promise<Response> => fetch(`${service.url}/auth/whoami`, { headers: { 'x-api-key': apiKey } });
  const known = (await (await who()).json()) as { scopes: string[]; keyName: string };
  assert.deepEqual([known.keyName, known.scopes], ['reader', ['read']]);
  await page.getByRole('listitem').filter({ hasText: 'reader' }).getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('button', { name: 'Revoke it' }).click();
  await page.getByRole('listitem').filter({ hasText: 'reader' }).getByText('revoked').waitFor();
  await until(async () => (await who()).status === 401);
});

test('the console shows the owner how the service does, and where to look', { skip: needsChromium }, async (t) => {
  const w = await World.open(t);
  await w.add('x');
  const page = await opened(t, await openChromium(t), w.service, { key: ADMIN_KEY, path: '/console/operations' });
  await page
    .getByRole('button', { name: /answers here/ })
    .and(page.locator('[aria-pressed=true]'))
    .waitFor();
  const parts = page.getByRole('list', { name: 'Parts' });
  await parts.getByText('log up').waitFor();
  await parts.getByText('The log of events takes and gives records.').waitFor();
  await parts.getByText('Code of tenants is run').waitFor();
  await page.getByRole('row', { name: /default.*restored here/ }).waitFor();
  const figures = page.getByLabel('The last 15 seconds');
  await figures.getByText('Events a second').waitFor();
  await page
    .getByRole('img', { name: /^Events folded a second, by tenant/ })
    .locator('canvas')
    .waitFor();
  await page
    .getByRole('img', { name: /^Events folded a second, by tenant/ })
    .getByText('default')
    .waitFor();
  await assertAccessible(page);
  await page.setViewportSize({ width: 380, height: 800 });
  const over = await page.evaluate(() => {
    const { document } = globalThis as unknown as {
      document: { documentElement: { scrollWidth: number; clientWidth: number } };
    };
    return document.documentElement.scrollWidth - document.documentElement.clientWidth;
  });
  assert.equal(over, 0);
  const names = page.getByRole('table', { name: 'Tenants served here' }).getByRole('row').getByRole('link');
  await page.getByLabel('Sort by').selectOption('Name');
  await page.waitForURL(/sort=name/);
  assert.deepEqual(await names.allTextContents(), (await names.allTextContents()).sort());
  await page
    .getByRole('row', { name: /default.*restored here/ })
    .getByRole('link')
    .click();
  await page.getByRole('heading', { name: 'default' }).waitFor();
});
