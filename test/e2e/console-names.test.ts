// Names that people choose: with characters that can't be seen, of any length, and such as a browser takes for steps of a path.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, newTenant, success } from '../support/api.js';
import { needsChromium, openChromium, type Page } from '../support/chromium.js';
import { assertAccessible, opened } from '../support/console.js';
import { tally, totals } from '../support/csharp.js';
import { AS_ADMIN, ADMIN_KEY, startService, until } from '../support/service.js';

/** Elements of the page that are wider than it lets them be. */
const overflowing = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`(() => {
    const main = document.querySelector('#main');
    const isInside = (one) => one.closest('.table, .json, .command pre, pre.failure, .tree, .code-host, meter, svg') !== null;
    const edge = Math.min(main.getBoundingClientRect().right, innerWidth) + 1;
    return [...main.querySelectorAll('*')]
      .filter((one) => !isInside(one) && one.getBoundingClientRect().right > edge && one.getBoundingClientRect().height > 0)
      .map((one) => one.outerHTML.slice(0, 80))
      .concat(document.documentElement.scrollWidth > innerWidth ? ['the page'] : [])
      .concat(main.scrollWidth > main.clientWidth ? ['the content'] : []);
  })()`);

test('names in the console', { skip: needsChromium }, async (t) => {
  const service = await startService(t, { env: { WEBHOOK_ALLOW_PRIVATE: 'true' } });
  const browser = await openChromium(t);

  await t.test('white space in ids is seen, found, and typed where an id is asked for', async (t) => {
    const key = await newTenant(service, { name: 'Spaces' });
    const api = new Api(service, key);
    const ids = [' led', 'trailed ', 'two  spaces', 'hard\u00a0space', 'zero\u200bwidth'];
    for (const id of [...ids, 'one space']) await api.append(id, 'Made', {});
    const page = await opened(t, browser, service, { key, path: '/console/aggregates', refusals: [410] });
    await page.getByRole('row').nth(ids.length).waitFor();
    const marked = await page
      .locator('.scroller .unseen')
      .evaluateAll((all: { title: string }[]) => all.map(({ title }) => title).sort());
    assert.deepEqual(marked, ['U+0020', 'U+0020', 'U+0020 U+0020', 'U+00A0', 'U+200B']);
    const widths = await page
      .locator('.scroller .unseen')
      .evaluateAll((all: { offsetWidth: number }[]) => all.map(({ offsetWidth }) => offsetWidth));
    assert.ok(
      widths.every((width) => width >= 3),
      `each takes room: ${widths.join(', ')}`,
    );
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /^Find a command/ }).fill(' led');
    await page.getByRole('option', { name: 'Open aggregate' }).last().click();
    await page.waitForURL(/aggregates\/%20led$/);
    for (const [id, text] of [
      ['two  spaces', '"two  spaces"'],
      ['hard\u00a0space', '"hard\\u00a0space"'],
      ['zero\u200bwidth', '"zero\\u200bwidth"'],
    ] as const) {
      await page.goto(`${service.url}/console/aggregates/${encodeURIComponent(id)}`);
      await page.getByRole('button', { name: 'Erase' }).click();
      const dialog = page.getByRole('dialog');
      assert.equal(await dialog.locator('.typed').evaluate((one: { innerText: string }) => one.innerText), text);
      await dialog.getByLabel(/^Type/).pressSequentially(text);
      await dialog.getByRole('button', { name: 'Erase' }).click();
      await page.getByRole('heading', { name: 'The aggregate was erased' }).waitFor();
      assert.equal((await api.get(`/events/${encodeURIComponent(id)}`)).status, 410);
    }
  });

  await t.test('the command that is chosen by keys is in sight', async (t) => {
    const key = await newTenant(service, { name: 'Palette' });
    const api = new Api(service, key);
    for (let n = 0; n < 30; n++) await api.append(`a-${n}`, `Happened${n}`, {});
    const page = await opened(t, browser, service, { key, path: '/console' });
    await page.setViewportSize({ width: 1280, height: 500 });
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /^Find a command/ }).fill('happened');
    await page
      .getByRole('option', { name: /^Happened/ })
      .nth(19)
      .waitFor({ state: 'attached' });
    for (let n = 0; n < 19; n++) await page.keyboard.press('ArrowDown');
    const [list, option] = [
      await page.getByRole('listbox').boundingBox(),
      await page.getByRole('option', { selected: true }).boundingBox(),
    ];
    assert.ok(list && option && option.y >= list.y && option.y + option.height <= list.y + list.height + 1);
  });

  await t.test('keys that a path has no room for have a state and a history like others', async (t) => {
    const key = await newTenant(service, { name: 'Steps' });
    const api = new Api(service, key);
    for (const [n, name] of ['.', '..', '...'].entries()) await api.append(`a-${n}`, 'Added', { key: name, n: n + 1 });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    const page = await opened(t, browser, service, { key, path: `/console/projections/${projectionId}` });
    for (const [n, name] of ['.', '..', '...'].entries()) {
      await page.getByRole('row', { name: `${name} {"total":${n + 1}}` }).click();
      await page
        .getByRole('region', { name: 'State of the key' })
        .getByText(`"total": ${n + 1}`)
        .waitFor();
      await page
        .getByRole('region', { name: 'State after' })
        .getByText(`"total": ${n + 1}`)
        .waitFor();
      await page.reload();
      await page
        .getByRole('region', { name: 'State of the key' })
        .getByText(`"total": ${n + 1}`)
        .waitFor();
    }
  });

  await t.test('long names break no page, on a wide screen and on a narrow one', async (t) => {
    const long = (begin: string, length = 200): string => begin + 'W'.repeat(length);
    const key = await newTenant(service, { name: long('Long', 150) });
    const api = new Api(service, key);
    const { tenantId } = await api.read<{ tenantId: string }>('/auth/whoami');
    const type = long('Type', 120);
    const id = `${type}-${long('1', 60)}`;
    await api.append(id, long('Event'), { key: long('key'), n: 5, [long('member')]: 1 });
    await api.append(`${type}-2`, 'Boom', { key: long('fault'), n: 5 });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals(long('Totals', 100)) });
    await api.deployReducer({ 'Tally.cs': tally(type, 1, long('Tally', 100)) });
    const body = { url: `http://127.0.0.1:9/${long('hook')}`, source: { projectionId }, keys: [long('key')] };
    const { endpointId } = success(await api.post('/webhooks/endpoints', body), 201).json<{ endpointId: string }>();
    success(await service.post(`/admin/tenants/${tenantId}/keys`, { name: long('Key', 90) }, AS_ADMIN), 201);
    const paths = [
      '',
      'aggregates',
      `aggregates?type=${type}`,
      `aggregates/${id}`,
      `types/${type}`,
      'projections',
      `projections/${projectionId}?key=${long('key')}`,
      'reducers',
      'event-types',
      `event-types/${long('Event')}`,
      `feed?eventType=${long('Event')}`,
      `code?kind=projections&id=${projectionId}`,
      'webhooks',
      `webhooks/${endpointId}`,
      'audit',
    ];
    const look = async (page: Page, all: readonly string[]): Promise<void> => {
      for (const width of [1280, 380]) {
        await page.setViewportSize({ width, height: 800 });
        for (const path of all) {
          await page.goto(`${service.url}/console/${path}`);
          await page.getByRole('heading', { level: 1 }).waitFor();
          await until(async () => (await page.getByText('Loading…').count()) === 0);
          const row = page.getByRole('rowgroup').getByRole('row').first();
          if (/^(reducers|audit)/.test(path) || path.startsWith('feed')) await row.click();
          assert.deepEqual(await overflowing(page), [], `${path.slice(0, 30)} at ${width}`);
        }
      }
    };
    const page = await opened(t, browser, service, { key });
    await look(page, paths);
    await page.goto(`${service.url}/console/projections/${projectionId}?key=${long('key')}`);
    await assertAccessible(page);
    const owner = await opened(t, browser, service, { key: ADMIN_KEY });
    await look(owner, [`?tenant=${tenantId}`, 'operations', 'audit']);
  });
});
