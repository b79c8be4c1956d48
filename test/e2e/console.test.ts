// The console in a real browser, against the real service. Whatever the pages log as an error, and whatever their policy keeps them from, is a failure.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Api, newTenant } from '../support/api.js';
import { needsChromium, openChromium } from '../support/chromium.js';
import { assertAccessible, opened } from '../support/console.js';
import { ADMIN_KEY, API_KEY, ROOT, startService, until } from '../support/service.js';

/** Of the pages without the editor, as they go over the wire. */
const MOST_BYTES = 400 * 1024;

test('a browser is led from / to the console, and a client of the interface is told that nothing is there', async (t) => {
  const service = await startService(t, { readStore: true });
  const ask = (path: string, accept: string, method = 'GET'): Promise<Response> =>
    fetch(service.url + path, { method, headers: { accept }, redirect: 'manual' });
  const led = await ask('/', 'text/html,application/xhtml+xml');
  assert.equal(led.status, 302);
  assert.equal(led.headers.get('location'), '/console');
  const refused = await ask('/', '*/*');
  assert.equal(refused.status, 404);
  assert.equal(((await refused.json()) as { code: string }).code, 'NOT_FOUND');

  const page = await ask('/console/aggregates/a%2Fb', 'text/html');
  assert.equal(page.status, 200);
  assert.equal(page.headers.get('cache-control'), 'no-cache');
  const policy = page.headers.get('content-security-policy') ?? '';
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe|https?:|\*/);
  const html = await page.text();
  assert.doesNotMatch(html, /<style|<script(?![^>]* src=)| style=| on\w+=/, 'nothing inline');
  for (const [, path] of html.matchAll(/(?:src|href)="([^"]+)"/g)) {
    assert.match(path ?? '', /^\/console\/assets\/.+-[\w-]{8,}\.\w+$/, 'its name changes with what is in it');
    const asset = await ask(path ?? '', '*/*');
    assert.equal(asset.status, 200);
    assert.match(asset.headers.get('cache-control') ?? '', /immutable/);
  }
  const missing = await ask('/console/assets/none.js', '*/*');
  assert.equal(missing.status, 404);
  const posted = await ask('/console', '*/*', 'POST');
  assert.equal(posted.status, 405);
  assert.equal(posted.headers.get('allow'), 'GET, HEAD');
});

test('the pages are small', () => {
  const assets = join(ROOT, 'dist', 'console', 'assets');
  const files = readdirSync(assets).filter((name) => name.endsWith('.br'));
  assert.ok(files.length > 0);
  const bytes = files.reduce((sum, name) => sum + readFileSync(join(assets, name)).length, 0);
  assert.ok(bytes < MOST_BYTES, `${bytes} bytes`);
});

test('the console', { skip: needsChromium }, async (t) => {
  const service = await startService(t, { readStore: true });
  const api = new Api(service);
  const browser = await openChromium(t);

  await t.test('refuses a key that is nobody’s, and keeps the one of a tenant in its tab alone', async (t) => {
    const page = await opened(t, browser, service, { key: 'no-such-key-anywhere' });
    await page.getByRole('alert').getByText('knows no such key').waitFor();
    await assertAccessible(page);
    await page.getByLabel('Key of a tenant').fill(API_KEY);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Begin here' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Begin here' }).waitFor();
    assert.equal(
      await page.evaluate(() => JSON.stringify((globalThis as { localStorage?: object }).localStorage)),
      '{"statefold.theme":"system"}',
    );
    const other = await page.context().newPage();
    await other.goto(`${service.url}/console`);
    await other.getByRole('button', { name: 'Sign in' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
  });

  await t.test('loads the bank sample into an empty tenant with one click', async (t) => {
    const page = await opened(t, browser, service);
    await page.getByRole('heading', { name: 'Begin here' }).waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Load the bank sample' }).click();
    await page.getByRole('row', { name: /TransferSent account 6/ }).waitFor({ timeout: 120_000 });
    await assertAccessible(page);
    const { states } = await api.read<{ states: unknown[] }>(
      `/projections/${(await api.read<{ projections: { id: string }[] }>('/projections')).projections[0]?.id}/states`,
    );
    assert.equal(states.length, 6);
  });

  await t.test('shows an aggregate’s events, and what each did to the state', async (t) => {
    const page = await opened(t, browser, service, { path: '/console/aggregates?type=account', refusals: [404] });
    await page.getByRole('row', { name: /account-ann/ }).waitFor();
    await assertAccessible(page);
    await page.getByRole('searchbox').fill('account-ann');
    await page.keyboard.press('Enter');
    await page.getByRole('row', { name: /2 Deposited/ }).click();
    await page.waitForURL(/account-ann\?version=2$/);
    const shown = (name: string): Promise<string> => page.getByRole('region', { name }).innerText();
    await until(async () => /"balance": 5000/.test(await shown('State after')));
    assert.match(await shown('State before'), /"balance": 0/);
    const changed = await page.locator('.diff .added').allInnerTexts();
    assert.deepEqual(
      changed.map((text) => text.trim().replace(',', '')),
      ['"balance": 5000', '"entries": 1'],
    );
    await assertAccessible(page);
    await page.getByRole('slider', { name: 'Version' }).press('ArrowLeft');
    await page.waitForURL(/version=1$/);
    await page.getByRole('heading', { name: 'Opened' }).waitFor();
    await page.goto(`${service.url}/console/aggregates/nobody-1`);
    await page.getByRole('heading', { name: 'There is no such aggregate' }).waitFor();
  });

  await t.test('tails the feed with filters, and stands still while it is paused', async (t) => {
    const page = await opened(t, browser, service, { path: '/console/feed?eventType=Deposited' });
    const rows = page.getByRole('rowgroup').getByRole('row');
    await rows.first().waitFor();
    await api.append('account-ann', 'Noted', { text: 'filtered out' });
    await api.append('account-ann', 'Deposited', { cents: 7 });
    await until(async () => (await rows.count()) === 4);
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Pause' }).click();
    await api.append('account-ann', 'Deposited', { cents: 8 });
    await page.getByRole('button', { name: 'Go on (1 more)' }).waitFor();
    assert.equal(await rows.count(), 4);
    await page.getByRole('button', { name: /Go on/ }).click();
    await until(async () => (await rows.count()) === 5);
    await rows.first().click();
    await page.getByRole('region', { name: 'Data of the event' }).getByText('"cents": 8').waitFor();
  });

  await t.test('shows a projection’s keys with their states', async (t) => {
    const page = await opened(t, browser, service, { path: '/console/projections' });
    await page.getByRole('row', { name: /Transfers live/ }).click();
    await page.getByRole('row', { name: /^t-3/ }).click();
    await page.getByRole('region', { name: 'State of the key' }).getByText('"cents": 300').waitFor();
    const history = page.getByRole('region', { name: 'History of the key' });
    await history.getByRole('table', { name: 'Changes of the key, newest first' }).getByRole('row').nth(1).waitFor();
    await history.getByRole('region', { name: 'State after' }).getByText('"cents": 300').waitFor();
    await page.getByLabel('Keys that begin with').fill('t-6');
    await until(
      async () => (await page.getByRole('table', { name: 'Keys and states' }).getByRole('row').count()) === 2,
    );
    await assertAccessible(page);
  });

  await t.test('goes anywhere by keys alone', async (t) => {
    const page = await opened(t, browser, service);
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('f');
    await page.getByRole('heading', { name: 'Feed' }).waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('account-bob');
    await page.getByRole('option', { name: 'Open aggregate account-bob' }).waitFor();
    await assertAccessible(page);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'account-bob' }).waitFor();
  });

  await t.test('holds only the rows in sight of thousands of events that come at once', async (t) => {
    const page = await opened(t, browser, service, { path: '/console/feed?aggregateType=burst' });
    await page.getByRole('heading', { name: 'No event has come yet' }).waitFor();
    const events = Array.from({ length: 500 }, (_, n) => ({ eventType: 'Ticked', data: { n } }));
    await Promise.all(
      Array.from({ length: 12 }, (_, n) => api.post('/events/batch', { aggregateId: `burst-${n}`, events })),
    );
    const table = page.getByRole('table', { name: 'Events, newest first' });
    await until(async () => (await table.getAttribute('aria-rowcount')) === '6001');
    assert.ok((await table.getByRole('row').count()) < 100);
    const first = (): Promise<string> => table.getByRole('rowgroup').getByRole('row').first().innerText();
    const last = await api.append('burst-0', 'Ended', {});
    await until(async () => (await first()).includes('Ended'));
    assert.equal(last.version, 501);
  });

  await t.test('offers what the scopes of the key allow', async (t) => {
    const apiKey = await newTenant(service, { name: 'Narrow' });
    const tenant = (await new Api(service, apiKey).read<{ tenantId: string }>('/auth/whoami')).tenantId;
    const made = await service.post(
      `/admin/tenants/${tenant}/keys`,
      { scopes: ['append'] },
      {
        key: null,
        headers: { 'x-admin-key': ADMIN_KEY },
      },
    );
    const page = await opened(t, browser, service, { key: made.json<{ apiKey: string }>().apiKey });
    await page.getByRole('heading', { name: 'This key reads nothing' }).waitFor();
    assert.deepEqual(await page.getByRole('navigation').getByRole('link').allInnerTexts(), ['Overview']);
  });

  await t.test('shows the owner tenants and what they use', async (t) => {
    const page = await opened(t, browser, service, { key: ADMIN_KEY });
    await page
      .getByRole('row', { name: /default/ })
      .first()
      .click();
    await page.getByText('Stored', { exact: true }).waitFor();
    await assertAccessible(page);
  });

  await t.test('fits a narrow screen', async (t) => {
    const page = await opened(t, browser, service, { path: '/console/aggregates/account-ann', width: 380 });
    await page.getByRole('region', { name: 'State after' }).waitFor();
    const over = await page.evaluate(() => {
      const { document } = globalThis as unknown as {
        document: { documentElement: { scrollWidth: number; clientWidth: number } };
      };
      return document.documentElement.scrollWidth - document.documentElement.clientWidth;
    });
    assert.equal(over, 0);
    await assertAccessible(page);
  });
});
