// How a tenant begins in the console, and where keys of few scopes get on.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, newTenant, success } from '../support/api.js';
import { needsChromium, openChromium, type Page } from '../support/chromium.js';
import { assertAccessible, opened } from '../support/console.js';
import { tally } from '../support/csharp.js';
import { ADMIN_KEY, AS_ADMIN, startService } from '../support/service.js';

test('the first steps in the console', { skip: needsChromium }, async (t) => {
  const service = await startService(t, { env: { WEBHOOK_ALLOW_PRIVATE: 'true' } });
  const browser = await openChromium(t);
  const keyOf = async (api: Api, scopes: readonly string[]): Promise<string> => {
    const { tenantId } = await api.read<{ tenantId: string }>('/auth/whoami');
    const made = success(await service.post(`/admin/tenants/${tenantId}/keys`, { scopes }, AS_ADMIN), 201);
    return made.json<{ apiKey: string }>().apiKey;
  };
  const tabs = (page: Page): Promise<string[]> => page.getByRole('navigation').getByRole('link').allInnerTexts();

  await t.test('they stay while they are taken, until they are closed, and are found again', async (t) => {
    const key = await newTenant(service, { name: 'Beginner' });
    const api = new Api(service, key);
    const page = await opened(t, browser, service, { key });
    const steps = page.getByRole('region', { name: 'First steps' });
    const done = (text: string): ReturnType<typeof page.getByText> =>
      steps.getByRole('listitem').filter({ hasText: text }).getByText('done', { exact: true });
    await steps.getByRole('heading', { name: 'Append an event' }).waitFor();
    assert.equal(await steps.getByText('done', { exact: true }).count(), 0);
    await api.append('account-1', 'Opened', { owner: 'Ada' });
    await done('Append an event').waitFor();
    await page.getByRole('row', { name: /^Opened account 1/ }).waitFor();
    await assertAccessible(page);
    await page.setViewportSize({ width: 380, height: 800 });
    const over = await page
      .getByRole('main')
      .evaluate((main: { scrollWidth: number; clientWidth: number }) => main.scrollWidth - main.clientWidth);
    assert.equal(over, 0);
    await page.setViewportSize({ width: 1280, height: 800 });
    await api.deployReducer({ 'Tally.cs': tally('account') });
    await done('Upload a reducer').waitFor();
    await steps.getByRole('link', { name: 'Feed' }).click();
    await page.getByRole('heading', { name: 'Feed', level: 1 }).waitFor();
    await page.goBack();
    await done('Upload a reducer').waitFor();
    await page.reload();
    await done('Upload a reducer').waitFor();
    await steps.getByRole('button', { name: 'Close the first steps' }).click();
    await steps.waitFor({ state: 'detached' });
    await page.reload();
    await page.getByRole('row', { name: /^Opened account 1/ }).waitFor();
    assert.equal(await steps.count(), 0);
    await page.getByRole('button', { name: 'First steps' }).click();
    await done('Append an event').waitFor();
  });

  await t.test('a tenant that is past them is led by none', async (t) => {
    const key = await newTenant(service, { name: 'Old hand' });
    const api = new Api(service, key);
    await api.append('account-1', 'Opened', {});
    await api.deployReducer({ 'Tally.cs': tally('account') });
    const page = await opened(t, browser, service, { key });
    await page.getByRole('button', { name: 'First steps' }).waitFor();
    assert.equal(await page.getByRole('region', { name: 'First steps' }).count(), 0);
  });

  await t.test('a key that reads nothing is shown the way to what it may do', async (t) => {
    const api = new Api(service, await newTenant(service, { name: 'Narrow' }));
    const page = await opened(t, browser, service, { key: await keyOf(api, ['append', 'webhooks', 'audit']) });
    await page.getByRole('heading', { name: 'This key reads nothing' }).waitFor();
    await page.getByRole('region', { name: 'Append an event' }).getByText('curl -s').waitFor();
    await assertAccessible(page);
    await page.getByRole('main').getByRole('link', { name: 'Webhooks' }).click();
    await page.getByRole('heading', { name: 'There are no webhook endpoints' }).waitFor();
    assert.deepEqual(await tabs(page), ['Overview', 'Webhooks', 'Audit log']);
  });

  await t.test('where there is no read store nothing of it is offered', async (t) => {
    const key = await newTenant(service, { name: 'No SQL' });
    const { tenantId } = await new Api(service, key).read<{ tenantId: string }>('/auth/whoami');
    const page = await opened(t, browser, service, { key, path: '/console/sql' });
    await page.getByRole('heading', { name: 'The service runs without a read store' }).waitFor();
    await assertAccessible(page);
    assert.equal((await tabs(page)).includes('SQL'), false);
    const owner = await opened(t, browser, service, { key: ADMIN_KEY, path: `/console?tenant=${tenantId}` });
    await owner.getByRole('button', { name: 'Set quotas' }).waitFor();
    assert.equal(await owner.getByRole('button', { name: 'Rebuild its rows for SQL' }).count(), 0);
    await owner.getByRole('link', { name: 'Operations' }).click();
    const store = owner.getByRole('region', { name: 'Read store' });
    await store.getByText('The service runs without one').waitFor();
    assert.equal(await store.getByRole('button').count(), 0);
  });

  await t.test('a key that only deploys, or only runs webhooks, is led nowhere that it may not go', async (t) => {
    const api = new Api(service, await newTenant(service, { name: 'Deployer' }));
    const page = await opened(t, browser, service, { key: await keyOf(api, ['deploy']) });
    await page.getByRole('main').getByRole('link', { name: 'Code' }).click();
    await page.getByRole('button', { name: 'Deploy', exact: true }).click();
    await page.waitForURL(/kind=projections&id=/);
    await page
      .getByRole('status')
      .getByText(/^Revision|projection/)
      .first()
      .waitFor();
    assert.equal(await page.getByRole('link', { name: 'Go to the projection' }).count(), 0);
    await page.reload();
    await page.getByRole('heading', { name: 'Your key may not see the code of this projection' }).waitFor();
    await assertAccessible(page);

    const { projections } = await api.read<{ projections: { id: string }[] }>('/projections');
    const body = { url: 'http://127.0.0.1:9/hook', source: { projectionId: projections[0]?.id } };
    const { endpointId } = success(await api.post('/webhooks/endpoints', body), 201).json<{ endpointId: string }>();
    const other = await opened(t, browser, service, {
      key: await keyOf(api, ['webhooks']),
      path: `/console/webhooks/${endpointId}`,
    });
    await other.getByRole('definition').filter({ hasText: 'projection' }).first().waitFor();
    assert.equal(await other.getByRole('main').getByRole('link').count(), 0);
  });
});
