// Lists of the console: they follow what happens, say of when they are, and whoever goes through them keeps the place.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, newTenant, success } from '../support/api.js';
import { needsChromium, openChromium, type Page } from '../support/chromium.js';
import { assertAccessible, opened } from '../support/console.js';
import { tally, totals } from '../support/csharp.js';
import { AS_ADMIN, startService, until } from '../support/service.js';

/** A state of 100,000 letters under each key. */
const LARGE = `namespace Tests;

public sealed class Large : IProjection<LargeState>
{
    public string? ResolveKey(Event e) => e.Data.GetProperty("key").GetString();

    public LargeState? Apply(LargeState? state, Event e) => new((state?.Count ?? 0) + 1, new string('x', 100_000));
}

public sealed record LargeState(int Count, string Text);
`;

const focused = (page: Page): Promise<string> =>
  page.evaluate<string>(
    "document.activeElement === document.body ? 'nothing' : document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()",
  );
/** The part of the element that is in sight, 0 to 1 of the height of the window. */
const inSight = async (page: Page, selector: string): Promise<boolean> => {
  const box = await page.locator(selector).boundingBox();
  const height = page.viewportSize()?.height ?? 0;
  return box !== null && box.y >= 0 && box.y < height - 100;
};

test('lists of the console', { skip: needsChromium }, async (t) => {
  const service = await startService(t, { env: { WEBHOOK_ALLOW_PRIVATE: 'true' } });
  const browser = await openChromium(t);

  await t.test('an aggregate that has a further event shows it in the list', async (t) => {
    const key = await newTenant(service, { name: 'Followed' });
    const api = new Api(service, key);
    for (const id of ['a-1', 'a-2']) await api.append(id, 'Made', {});
    const page = await opened(t, browser, service, { key, path: '/console/aggregates' });
    await page.getByRole('row', { name: /^a-1 a 1 / }).waitFor();
    await api.append('a-1', 'Changed', {});
    await page.getByRole('row', { name: /^a-1 a 2 / }).waitFor();
  });

  await t.test('a whole list whose service is away says of when it is, and Try again asks at once', async (t) => {
    const key = await newTenant(service, { name: 'Away' });
    const api = new Api(service, key);
    await api.append('a-1', 'Made', { key: 'k', n: 1 });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    const body = { url: 'http://127.0.0.1:9/hook', source: { projectionId }, from: 'now' };
    success(await api.post('/webhooks/endpoints', body), 201);
    // Of aggregates the types are asked for as well.
    for (const [path, operation, alerts] of [
      ['aggregates', '/aggregates?', 2],
      ['projections', '/projections?', 1],
      ['webhooks', '/webhooks/endpoints?', 1],
    ] as const) {
      const page = await opened(t, browser, service, { key, path: `/console/${path}`, breaks: true });
      await page.getByRole('row').nth(1).waitFor();
      await page.clock.install();
      await page.clock.pauseAt(Date.now() + 1_000);
      await page.context().setOffline(true);
      const stale = page.getByRole('alert').filter({ hasText: 'What is shown is of' });
      // The page asks, and what fails is tried again a few times. By small steps: nothing else is under way then.
      await until(async () => {
        await page.clock.runFor(200);
        return (await stale.count()) === alerts;
      });
      await page.context().setOffline(false);
      const asked = page.waitForRequest((request) => request.url().includes(operation));
      await page.getByRole('button', { name: 'Try again' }).last().click();
      await asked;
      await page.context().close();
    }
  });

  await t.test('Back comes to the place where a list was left, and a link to its beginning', async (t) => {
    const key = await newTenant(service, { name: 'Long' });
    const api = new Api(service, key);
    const ids = Array.from({ length: 700 }, (_, n) => `long-${String(n).padStart(4, '0')}`);
    for (let n = 0; n < ids.length; n += 50)
      await Promise.all(ids.slice(n, n + 50).map((id) => api.append(id, 'Made', {})));
    const page = await opened(t, browser, service, { key, path: '/console/aggregates' });
    const link = page.getByRole('link', { name: 'long-0695', exact: true });
    const table = page.getByRole('table', { name: 'Aggregates' });
    await table.getByRole('row').nth(5).hover();
    await until(async () => {
      await page.mouse.wheel(0, 4_000);
      return (await link.count()) > 0;
    });
    await link.click();
    await page.getByRole('heading', { name: 'long-0695', level: 1 }).waitFor();
    await page.goBack();
    await link.waitFor();
    await page.getByRole('navigation').getByRole('link', { name: 'Feed' }).click();
    await page.getByRole('heading', { name: 'Feed', level: 1 }).waitFor();
    // Also where something was chosen there, which the address has.
    const rows = page.getByRole('table', { name: 'Events, newest first' });
    await rows.getByRole('row').nth(5).hover();
    const chosen = rows.getByRole('row', { name: /Made long-0001/ });
    await until(async () => {
      await page.mouse.wheel(0, 4_000);
      return (await chosen.count()) > 0;
    });
    await chosen.click();
    await page.locator('.detail').getByRole('link', { name: 'long-0001' }).click();
    await page.getByRole('heading', { name: 'long-0001', level: 1 }).waitFor();
    await page.goBack();
    await chosen.waitFor();
    await page.getByRole('navigation').getByRole('link', { name: 'Aggregates' }).click();
    await page.getByRole('link', { name: 'long-0000', exact: true }).waitFor();
    assert.equal(await link.count(), 0);
  });

  await t.test('what is chosen is told by more than its colour, and Close leads back to its row', async (t) => {
    const key = await newTenant(service, { name: 'Chosen' });
    const api = new Api(service, key);
    for (const id of ['a-1', 'a-2', 'a-3']) await api.append(id, 'Made', { key: id, n: 1 });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    const page = await opened(t, browser, service, { key, path: `/console/projections/${projectionId}` });
    const row = page.getByRole('row', { name: /^a-2 / });
    await row.click();
    await page.getByRole('region', { name: 'State of the key' }).waitFor();
    assert.equal(await row.getAttribute('aria-current'), 'true');
    assert.equal(await page.getByRole('row', { name: /^a-1 / }).getAttribute('aria-current'), null);
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('region', { name: 'State of the key' }).waitFor({ state: 'detached' });
    assert.match(await focused(page), /^a-2/);

    await page.goto(`${service.url}/console/audit`);
    await page
      .getByRole('row', { name: /projection/ })
      .first()
      .waitFor();
    await page.getByLabel('What', { exact: true }).fill('projection');
    await page.keyboard.press('Enter');
    await page.waitForURL(/action=projection$/);
    assert.equal(await page.evaluate('document.activeElement.tagName'), 'INPUT');
    await page
      .getByRole('row', { name: /projection/ })
      .first()
      .click();
    await page.getByRole('region', { name: 'The entry' }).waitFor();
    await page.getByRole('button', { name: 'Close' }).click();
    await until(async () => /projection/.test(await focused(page)));
    await page.getByRole('button', { name: 'Show all' }).click();
    await page.waitForURL(/audit$/);
    assert.equal(await focused(page), 'Show');
  });

  await t.test('what stopped is marked where it is listed, and a quota that is used up looks so', async (t) => {
    const key = await newTenant(service, { name: 'Stopped' });
    const api = new Api(service, key);
    const { tenantId } = await api.read<{ tenantId: string }>('/auth/whoami');
    success(
      await service.request('PATCH', `/admin/tenants/${tenantId}`, {
        ...AS_ADMIN,
        body: { quotas: { projections: 1, reducers: 200 } },
      }),
      200,
    );
    await api.append('trip-1', 'Added', { key: 'k', n: 5 });
    await api.append('trip-1', 'Boom', { key: 'k', n: 5 });
    await api.append('trip-2', 'Added', { key: 'l', n: 5 });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    await api.deployReducer({ 'Tally.cs': tally('trip') });
    const page = await opened(t, browser, service, { key, path: '/console/aggregates' });
    await page.getByRole('row', { name: /^trip-1 trip 2 stopped/ }).waitFor();
    await page.getByRole('row', { name: /^trip-2 trip 1/ }).waitFor();
    await assertAccessible(page);
    await page.goto(`${service.url}/console/projections`);
    await page
      .getByRole('row', { name: /Totals live/ })
      .locator('.badge.bad')
      .getByText('1', { exact: true })
      .waitFor();
    await page.goto(`${service.url}/console/projections/${projectionId}`);
    await page.getByRole('row', { name: /^k stopped \{"total":5\}/ }).click();
    await page.getByText(/^It stopped at an event: .*boom at 2/).waitFor();
    await page.goto(`${service.url}/console`);
    const usage = page.getByRole('region', { name: 'Usage' }).getByRole('listitem');
    await usage.filter({ hasText: 'Projections' }).getByText('100 %').waitFor();
    assert.equal(await usage.filter({ hasText: 'Reducers' }).locator('.badge').count(), 0);
    await assertAccessible(page);
  });

  await t.test('on a narrow screen what a row opens is in sight, and Close brings the row back', async (t) => {
    const key = await newTenant(service, { name: 'Narrow' });
    const api = new Api(service, key);
    for (let n = 0; n < 40; n++) await api.append(`a-${n}`, 'Made', { key: `k-${n}`, n: 1 });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    const page = await opened(t, browser, service, { key, path: '/console', width: 380 });
    for (const [path, name] of [
      [`projections/${projectionId}`, /^k-1 /],
      ['feed', /Made a-39/],
      ['audit', /projection/],
    ] as const) {
      await page.goto(`${service.url}/console/${path}`);
      const row = page.getByRole('row', { name }).first();
      await row.click();
      await page.locator('.detail').waitFor();
      assert.ok(await inSight(page, '.detail'), `${path}: what was opened is in sight`);
      await assertAccessible(page);
      await page.getByRole('button', { name: 'Close' }).click();
      await page.locator('.detail').waitFor({ state: 'detached' });
      await until(() => inSight(page, '[role=row]:focus'));
    }
  });

  await t.test('large states are asked for once in a while, however often something changes', async (t) => {
    const key = await newTenant(service, { name: 'Large' });
    const api = new Api(service, key);
    for (let n = 0; n < 60; n++) await api.append(`a-${n}`, 'Made', { key: `k-${n}` });
    const projectionId = await api.deployProjection({ 'Large.cs': LARGE });
    const page = await opened(t, browser, service, { key, path: `/console/projections/${projectionId}` });
    let polls = 0;
    let lists = 0;
    page.on('response', (response) => {
      if (/\/status$/.test(response.url())) polls++;
      if (/\/states\?limit=500/.test(response.url())) lists++;
    });
    await page.getByRole('row', { name: /^k-10 / }).click();
    await page.getByRole('region', { name: 'State after' }).waitFor();
    await page.getByText(/^The states are large, .* asked for again every \d+ s\.$/).waitFor();
    await page.clock.install();
    const sequence = async (): Promise<number> =>
      (await api.read<{ lastSequence: number }>(`/projections/${projectionId}/status`)).lastSequence;
    lists = 0;
    for (let n = 0; n < 4; n++) {
      const before = await sequence();
      await api.append('a-10', 'Made', { key: 'k-10' });
      await until(async () => (await sequence()) > before);
      const seen = polls;
      await page.clock.fastForward(3_100);
      await until(() => polls > seen);
    }
    assert.ok(lists <= 1, `${lists} answers with states for four changes`);
    await page.clock.fastForward(60_000);
    await page.getByRole('row', { name: /^k-10 \{"count":5/ }).waitFor();
  });
});
