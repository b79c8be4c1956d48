// Pages by which an owner looks after tenants, and by which people see who changed what; and what is done to one aggregate for good.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, success } from '../support/api.js';
import { needsChromium, openChromium } from '../support/chromium.js';
import { assertAccessible, opened } from '../support/console.js';
import { tally } from '../support/csharp.js';
import { ADMIN_KEY, AS_ADMIN, startService, until } from '../support/service.js';

test('the console in the hands of an owner', { skip: needsChromium }, async (t) => {
  const service = await startService(t, { readStore: true });
  const browser = await openChromium(t);
  const refusals = [400, 404, 409];
  const owner = await opened(t, browser, service, { key: ADMIN_KEY, refusals });
  const dialog = owner.getByRole('dialog');
  const button = (name: string): ReturnType<typeof owner.getByRole> => owner.getByRole('button', { name, exact: true });
  let key = '';

  await t.test('a tenant is made, and its first key is shown once', async () => {
    await button('New tenant').click();
    await dialog.getByLabel('Name', { exact: true }).fill('Shop');
    await dialog.getByLabel(/^Id,/).fill('default');
    await dialog.getByText('Quotas of its own').click();
    await dialog.getByLabel('Connections').fill('7');
    await assertAccessible(owner);
    await button('Create').click();
    await dialog.getByRole('alert').getByText('ALREADY_EXISTS').waitFor();
    await dialog.getByLabel(/^Id,/).fill('shop');
    await button('Create').dblclick();
    const shown = owner.getByRole('dialog', { name: 'The first key of Shop' });
    key = (await shown.locator('pre').innerText()).trim();
    await assertAccessible(owner);
    await button('I have kept it').click();
    await owner.waitForURL(/tenant=shop$/);
    await owner.getByRole('heading', { name: 'Shop' }).waitFor();
    assert.equal((await new Api(service, key).read<{ tenantId: string }>('/auth/whoami')).tenantId, 'shop');
    await owner.getByText(/^\d+ of 7 \(its own\)$/).waitFor();

    const page = await opened(t, browser, service, { key });
    await page.getByRole('heading', { name: 'Begin here' }).waitFor();
    await page
      .getByRole('region', { name: 'Usage' })
      .getByText(/^\d+ of 7$/)
      .waitFor();
    await assertAccessible(page);
    // It would ask on while the tenant is suspended.
    await page.context().close();
  });

  await t.test('it is renamed, gets quotas and loses them, is suspended and resumed', async () => {
    const api = new Api(service, key);
    const path = '/admin/tenants/shop';
    const tenant = async (): Promise<{ name: string; quotas?: Record<string, number>; suspended?: true }> =>
      (await service.get(path, AS_ADMIN)).json();
    await button('Rename').click();
    await dialog.getByLabel('Name', { exact: true }).fill('Book shop');
    await dialog.getByRole('button', { name: 'Rename' }).click();
    await owner.getByRole('heading', { name: 'Book shop' }).waitFor();
    await owner.getByRole('row', { name: /^Book shop shop/ }).waitFor();

    await button('Set quotas').click();
    await dialog.getByLabel(/^Projections/).fill('3');
    await dialog.getByLabel(/^Events a second/).fill('50');
    await assertAccessible(owner);
    await button('Save').click();
    await owner.getByRole('listitem').filter({ hasText: 'Projections' }).getByText('0 of 3').waitFor();
    assert.deepEqual((await tenant()).quotas, { projections: 3, eventsPerSecond: 50, connections: 7 });
    await button('Set quotas').click();
    await dialog.getByLabel(/^Projections/).fill('');
    await button('Save').click();
    await dialog.waitFor({ state: 'detached' });
    assert.deepEqual((await tenant()).quotas, { eventsPerSecond: 50, connections: 7 });

    await button('Suspend').click();
    await assertAccessible(owner);
    await dialog.getByRole('button', { name: 'Suspend' }).click();
    await owner.getByRole('row', { name: /^Book shop shop suspended/ }).waitFor();
    assert.equal((await api.get('/aggregates')).status, 403);
    await button('Resume').click();
    await button('Suspend').waitFor();
    await until(async () => (await api.get('/aggregates')).status === 200);
  });

  await t.test('what was changed is in the audit log, of the owner and of the tenant', async () => {
    await owner.getByRole('link', { name: 'Audit log' }).click();
    await owner.getByLabel('Tenant', { exact: true }).fill('shop');
    await owner.keyboard.press('Enter');
    await owner.waitForURL(/audit\?tenant=shop$/);
    const entries = owner.getByRole('table', { name: 'Entries of the audit log' });
    const entry = owner.getByRole('region', { name: 'The entry' });
    await entries
      .getByRole('row', { name: /tenant\.change/ })
      .first()
      .click();
    await owner.waitForURL(/audit\?tenant=shop&entry=/);
    await entry.getByText('The change was made.').waitFor();
    await assertAccessible(owner);
    await owner.reload();
    await entry.getByRole('region', { name: 'What was asked for' }).getByText('"suspended": false').waitFor();
    const [id, address] = [new URL(owner.url()).searchParams.get('entry'), '127.0.0.1'];
    for (const one of [id, address, 'admin']) await entry.getByText(String(one), { exact: true }).first().waitFor();
    const at = await entry.locator('time').getAttribute('title');
    const answer = await service.get('/admin/audit?tenant=shop&limit=100', AS_ADMIN);
    const told = answer.json<{ entries: { id: string; at: string; requestId: string }[] }>().entries;
    const same = told.find((one) => one.id === id);
    assert.equal(at, same?.at);
    await entry.getByText(String(same?.requestId)).waitFor();
    await owner.setViewportSize({ width: 380, height: 800 });
    await assertAccessible(owner);
    await owner.setViewportSize({ width: 1280, height: 800 });
    await owner.getByLabel('What', { exact: true }).fill('key');
    await owner.keyboard.press('Enter');
    await owner.waitForURL(/audit\?tenant=shop&action=key$/);
    await owner.getByText('Nothing like it was changed').waitFor();
    await owner.getByLabel('What', { exact: true }).fill('tenant');
    await owner.getByText('More', { exact: true }).click();
    await owner.getByLabel('Outcome').selectOption('done');
    await owner.getByLabel('To', { exact: true }).fill('2020-01-01T00:00:00');
    await owner.getByRole('button', { name: 'Show', exact: true }).click();
    await owner.getByText('Nothing like it was changed').waitFor();
    await assertAccessible(owner);
    await owner.getByLabel('To', { exact: true }).fill('2100-01-01T00:00:00');
    await owner.getByRole('button', { name: 'Show', exact: true }).click();
    await entries.getByRole('row', { name: /tenant\.create/ }).waitFor();
    await owner.getByRole('button', { name: 'Show all' }).click();
    await entries.getByRole('columnheader', { name: 'Tenant' }).waitFor();
    await owner.goto(`${service.url}/console/audit?entry=${id}`);
    await entry.getByRole('link', { name: 'shop' }).click();
    await owner.getByRole('heading', { name: 'Book shop' }).waitFor();

    const page = await opened(t, browser, service, { key, path: '/console/audit' });
    await page.getByRole('row', { name: /tenant\.create/ }).waitFor();
    assert.equal(await page.getByLabel('Tenant', { exact: true }).count(), 0);
    await assertAccessible(page);
    await page.goto(`${service.url}/console/audit?entry=another`);
    await page.getByText('There is no such entry').waitFor();

    // One that is far down is in sight beside what it tells.
    for (let n = 0; n < 40; n++)
      success(await service.request('PATCH', '/admin/tenants/shop', { ...AS_ADMIN, body: { name: 'Book shop' } }), 200);
    const first = (await service.get('/admin/audit?tenant=shop&action=tenant.create', AS_ADMIN)).json<{
      entries: { id: string }[];
    }>();
    await page.goto(`${service.url}/console/audit?entry=${first.entries[0]?.id}`);
    await page.getByRole('row', { name: /tenant\.create/ }).waitFor();
  });

  await t.test(
    'a tenant sees what it takes of its quotas; an aggregate that stands goes on, and another one is erased',
    async () => {
      const api = new Api(service, key);
      await api.deployReducer({ 'Tally.cs': tally('trip') });
      await api.append('trip-1', 'Boom');
      await api.append('trip-1', 'Landed');
      await api.append('trip-2', 'Landed', { who: 'somebody' });
      const page = await opened(t, browser, service, { key, refusals: [410] });
      await page.getByRole('region', { name: 'Usage' }).getByText('Events a second').waitFor();
      await page.getByRole('meter', { name: 'Events a second' }).waitFor();
      await assertAccessible(page);

      await page.goto(`${service.url}/console/aggregates/trip-1`);
      await page.getByText('Tally threw at version 1').waitFor();
      await assertAccessible(page);
      await page.getByRole('button', { name: 'Retry' }).click();
      await page.getByText('It was stopped again.').waitFor();
      await page.getByRole('button', { name: 'Skip the event' }).click();
      await page.getByRole('button', { name: 'Skip it' }).click();
      await page.getByRole('region', { name: 'State after' }).getByText('"count": 1').waitFor();

      await page.goto(`${service.url}/console/aggregates/trip-2`);
      await page.getByRole('button', { name: 'Erase' }).click();
      await page.getByLabel(/^Why/).fill('asked for');
      const erase = page.getByRole('dialog').getByRole('button', { name: 'Erase' });
      assert.ok(await erase.isDisabled());
      await page.getByLabel(/^Type/).fill('trip-2');
      await assertAccessible(page);
      await erase.click();
      await page.getByRole('heading', { name: 'The aggregate was erased' }).waitFor();
      assert.equal((await api.get('/events/trip-2')).status, 410);

      await page.getByRole('link', { name: 'Audit log' }).click();
      await page.getByRole('row', { name: /aggregate\.erase trip-2 done/ }).click();
      const entry = page.getByRole('region', { name: 'The entry' });
      await entry.getByText('The change was made.').waitFor();
      await assertAccessible(page);
      await entry.getByRole('link', { name: 'trip-2' }).click();
      await page.getByRole('heading', { name: 'The aggregate was erased' }).waitFor();
    },
  );

  await t.test('operations tell what tenants take, and fill the read store in again', async () => {
    const { url, user, password, database } = await new Api(service).readStoreAccess();
    const clickHouse = async (statement: string): Promise<string> => {
      const headers = { authorization: `Basic ${btoa(`${user}:${password}`)}` };
      const answer = await fetch(`${url}/?database=${database}`, { method: 'POST', headers, body: statement });
      return (await answer.text()).trim();
    };
    const landed = "SELECT count() FROM events FINAL WHERE tenant = 'shop' AND event_type = 'Landed'";
    await until(async () => (await clickHouse(landed)) === '1');
    await new Api(service, key).append('trip-9', 'Boom');
    await clickHouse('TRUNCATE TABLE events');
    assert.equal(await clickHouse(landed), '0');
    await owner.getByRole('link', { name: 'Operations' }).click();
    const amiss = owner.getByRole('list', { name: 'What is amiss' });
    await amiss
      .getByRole('listitem')
      .filter({ hasText: 'Book shop has 1 aggregate that stopped at an event' })
      .waitFor();
    const served = owner.getByRole('table', { name: 'Tenants served here' });
    await served.getByRole('row', { name: /^Book shop \d+ \d+ \d+ 1$/ }).waitFor();
    await served.getByRole('columnheader', { name: 'Folded' }).waitFor();
    const store = owner.getByRole('region', { name: 'Read store' });
    await store.getByText('takes rows').waitFor();
    await store.getByText('It has all rows of the tenants that are active here.').waitFor();
    await assertAccessible(owner);
    await store.getByRole('button', { name: 'Rebuild' }).click();
    await dialog.getByText('SQL finds the rows of before until').waitFor();
    await assertAccessible(owner);
    await dialog.getByRole('button', { name: 'Rebuild' }).dblclick();
    await store
      .getByRole('status')
      .filter({ hasText: /The rebuild of all rows from .* was through at/ })
      .waitFor();
    await until(async () => (await clickHouse(landed)) === '1');
    const { entries } = (await service.get('/admin/audit', AS_ADMIN)).json<{ entries: { action: string }[] }>();
    assert.equal(entries.filter(({ action }) => action === 'read-store.rebuild').length, 1);
    await store.getByText(/^It has all rows/).waitFor();

    // It is never even where the live tables are said to have what no log has.
    await clickHouse("INSERT INTO watermarks (tenant, stream, log_offset) VALUES ('default', 'changes', 1000000000)");
    success(await new Api(service).post('/admin/read-store/rebuild', undefined, AS_ADMIN), 202);
    await store.getByRole('button', { name: 'Cancel the rebuild' }).click();
    await dialog.getByText('SQL goes on to find the rows of before').waitFor();
    await assertAccessible(owner);
    await dialog.getByRole('button', { name: 'Cancel the rebuild' }).click();
    await store
      .getByRole('status')
      .filter({ hasText: /The rebuild of all rows from .* was cancelled at/ })
      .waitFor();
    await store.getByRole('button', { name: 'Cancel the rebuild' }).waitFor({ state: 'detached' });
    assert.equal(await clickHouse(landed), '1');

    await served.getByRole('row', { name: /^Book shop / }).click();
    await owner.waitForURL(/tenant=shop$/);
    await owner.getByRole('heading', { name: 'Book shop' }).waitFor();

    await clickHouse('TRUNCATE TABLE events');
    assert.equal(await clickHouse(landed), '0');
    await button('Rebuild its rows for SQL').click();
    await dialog.getByText('All rows of the tenant are written anew').waitFor();
    await dialog.getByRole('button', { name: 'Rebuild' }).click();
    await owner.getByRole('status').getByText('The rows are written anew').waitFor();
    await until(async () => (await clickHouse(landed)) === '1');
  });

  await t.test('a tenant is deleted by who types its id', async () => {
    await button('Delete').click();
    await dialog.getByRole('textbox').fill('shop');
    // Its page goes on asking for its usage until all of it is gone, and is asked to come again.
    refusals.push(503);
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await owner.getByRole('row', { name: /^Book shop/ }).waitFor({ state: 'detached' });
    refusals.pop();
    assert.equal((await service.get('/admin/tenants/shop', AS_ADMIN)).status, 404);
    await owner.getByRole('searchbox').fill('shop');
    await owner.keyboard.press('Enter');
    await owner.getByText('There is no tenant shop').waitFor();
  });
});

test(
  'the console finds a tenant by its name or its id, also one that no page of the list has brought',
  { skip: needsChromium },
  async (t) => {
    const service = await startService(t, { readStore: true });
    const make = async (tenantId: string, name: string): Promise<unknown> =>
      success(await service.post('/admin/tenants', { tenantId, name }, AS_ADMIN), 201);
    for (let n = 0; n < 501; n++) await make(`many-${n}`, `Many ${n}`);
    const owner = await opened(t, await openChromium(t), service, {
      key: ADMIN_KEY,
      path: '/console?search=zebra',
    });
    await owner.getByRole('heading', { name: 'No tenant has this in its name or id' }).waitFor();
    await assertAccessible(owner);
    await make('z-1', 'Zebra');
    await owner.reload();
    const rows = owner.getByRole('table', { name: 'Tenants' }).getByRole('row');
    await rows.filter({ hasText: 'Zebra' }).waitFor();
    await owner.getByText('1 of 503 tenants', { exact: true }).waitFor();
    await owner.getByRole('searchbox').fill('MANY 500');
    await rows.filter({ hasText: 'many-500' }).waitFor();
    await owner.keyboard.press('Enter');
    await owner.waitForURL(/search=MANY\+500&tenant=many-500$/);
    await owner.getByRole('heading', { name: 'Many 500' }).waitFor();
    await owner.getByRole('searchbox').fill('');
    await owner.waitForURL(/\?tenant=many-500$/);
    await rows.filter({ hasText: 'Many 0' }).waitFor();
    await owner.setViewportSize({ width: 380, height: 800 });
    await assertAccessible(owner);
  },
);
