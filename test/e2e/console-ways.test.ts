// How one gets through the console: where the focus goes, what Back leads to, what a table keeps while it changes.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, newTenant, success } from '../support/api.js';
import { needsChromium, openChromium, type Page } from '../support/chromium.js';
import { assertAccessible, opened } from '../support/console.js';
import { tally } from '../support/csharp.js';
import { ADMIN_KEY, startService, until } from '../support/service.js';

const focused = (page: Page): Promise<string> =>
  page.evaluate<string>(
    "document.activeElement === document.body ? 'nothing' : document.activeElement.textContent.trim()",
  );

test('ways through the console', { skip: needsChromium }, async (t) => {
  const service = await startService(t);
  const browser = await openChromium(t);
  const key = await newTenant(service, { name: 'Ways' });
  const api = new Api(service, key);
  for (const id of ['a-1', 'a-2']) await api.append(id, 'Made', { id });

  await t.test('the focus is back on what opened a dialog, however it is closed', async (t) => {
    const { tenantId } = await api.read<{ tenantId: string }>('/auth/whoami');
    const page = await opened(t, browser, service, { key: ADMIN_KEY, path: `/console?tenant=${tenantId}` });
    const dialog = page.getByRole('dialog');
    for (const name of ['Rename', 'Set quotas', 'Suspend', 'New key']) {
      for (const close of [
        () => page.keyboard.press('Escape'),
        () => dialog.getByRole('button', { name: 'Cancel' }).click(),
      ]) {
        await page.getByRole('button', { name, exact: true }).press('Enter');
        await dialog.waitFor();
        await close();
        await dialog.waitFor({ state: 'detached' });
        assert.equal(await focused(page), name);
      }
    }
    await page.getByRole('button', { name: 'Suspend', exact: true }).focus();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('combobox').waitFor({ state: 'detached' });
    assert.equal(await focused(page), 'Suspend');
  });

  await t.test('a link in a table is one step, and opens another tab where that is asked for', async (t) => {
    const page = await opened(t, browser, service, { key, path: '/console' });
    await page.getByRole('navigation').getByRole('link', { name: 'Aggregates', exact: true }).click();
    const link = page.getByRole('link', { name: 'a-1', exact: true });
    await link.click();
    await page.getByRole('heading', { name: 'a-1', level: 1 }).waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'Aggregates', level: 1 }).waitFor();
    const tab = page.context().waitForEvent('page');
    await link.click({ modifiers: ['ControlOrMeta'] });
    // It is blank until it goes where the link does.
    await (await tab).waitForURL(/\/console\/aggregates\/a-1$/);
    assert.match(page.url(), /\/console\/aggregates$/);
    await page.goBack();
    await page.waitForURL(/\/console$/);
  });

  await t.test('a table that goes on while it has the focus keeps it', async (t) => {
    const page = await opened(t, browser, service, { key, path: '/console/feed' });
    /** Gives the position of the last of them. */
    const append = async (count: number): Promise<string> => {
      const events = Array.from({ length: count }, (_, i) => ({ eventType: 'Ticked', data: { i } }));
      const answer = success(await api.post('/events/batch', { aggregateId: 'b-1', events }), 201);
      return answer.headers.get('statefold-position') ?? '';
    };
    await append(60);
    const rows = page.getByRole('table').getByRole('row');
    await until(async () => (await rows.count()) > 10);
    await rows.nth(3).click();
    await page
      .getByRole('table')
      .getByText(await append(300), { exact: true })
      .waitFor();
    const index = (): Promise<string> =>
      page.evaluate<string>("document.activeElement.getAttribute('data-index') ?? ''");
    assert.match(await index(), /^\d+$/);
    const before = Number(await index());
    await page.keyboard.press('ArrowDown');
    await until(async () => (await index()) === String(before + 1));
  });

  await t.test('what comes while a page is open is shown, and a link to few events of many shows them', async (t) => {
    const itsKey = await newTenant(service, { name: 'Empty' });
    const empty = new Api(service, itsKey);
    const page = await opened(t, browser, service, { key: itsKey, path: '/console/aggregates' });
    await page.getByText('There are no aggregates here').waitFor();
    await empty.append('first-1', 'Begun', {});
    await page.getByRole('link', { name: 'first-1', exact: true }).waitFor();
    for (let i = 0; i < 6; i++) {
      const events = Array.from({ length: 1000 }, () => ({ eventType: 'Many', data: {} }));
      success(await empty.post('/events/batch', { aggregateId: 'many-1', events }), 201);
    }
    await page.goto(`${service.url}/console/feed?eventType=Begun`);
    await page.getByRole('table').getByText('first-1', { exact: true }).waitFor();

    // Of many the latest are there, and each has an address.
    await page.goto(`${service.url}/console/feed`);
    const rows = page.getByRole('table').getByRole('row');
    await until(async () => (await rows.count()) > 10);
    const newest = rows.nth(1);
    await newest.filter({ hasText: 'many-1' }).click();
    await page.waitForURL(/feed\?event=\d+$/);
    await page.getByText('Version 6,000 of').waitFor();
    await empty.append('first-1', 'Ended', {});
    await newest.filter({ hasText: 'Ended' }).waitFor();
    const first = (await empty.read<{ events: { position: number }[] }>('/feed?limit=1')).events[0];
    await page.goto(`${service.url}/console/feed?event=${first?.position}`);
    await page.getByRole('heading', { name: 'Begun', level: 2 }).waitFor();
    await assertAccessible(page);
    await page.getByLabel('Event type').selectOption('Many');
    await page.waitForURL(/eventType=Many/);
    await until(async () => (await rows.count()) > 10);
  });

  await t.test('commands find objects by their names, of whoever is signed in', async (t) => {
    await api.deployReducer({ 'Tally.cs': tally('found') });
    const page = await opened(t, browser, service, { key, path: '/console' });
    const find = page.getByRole('combobox', { name: /^Find a command/ });
    await page.keyboard.press('Control+k');
    await find.fill('tests.tally');
    await page.getByRole('option', { name: 'Tests.Tally Reducer' }).waitFor();
    await assertAccessible(page);
    await page.keyboard.press('Enter');
    await page.waitForURL(/reducers\?id=/);
    await page.keyboard.press('Control+k');
    await find.fill('event type made');
    await page.getByRole('option', { name: 'Made Event type' }).click();
    await page.waitForURL(/event-types\/Made$/);

    const owner = await opened(t, browser, service, { key: ADMIN_KEY, path: '/console' });
    await owner.keyboard.press('Control+k');
    await owner.getByRole('combobox', { name: /^Find a command/ }).fill('ways');
    await owner.getByRole('option', { name: /^Ways .* Tenant$/ }).click();
    await owner.getByRole('heading', { name: 'Ways', level: 2 }).waitFor();
  });

  await t.test('a step of the slider asks for one state more, and for none where no reducer is bound', async (t) => {
    const itsKey = await newTenant(service, { name: 'Slid' });
    const itsApi = new Api(service, itsKey);
    for (const id of ['slid-1', 'bare-1']) for (let n = 0; n < 5; n++) await itsApi.append(id, 'Landed', {});
    await itsApi.deployReducer({ 'Tally.cs': tally('slid') });
    const stepsOf = async (id: string): Promise<readonly string[]> => {
      const page = await opened(t, browser, service, { key: itsKey, path: '/console' });
      const asked: string[] = [];
      page.on('request', (request) => {
        const version = /state\?atVersion=(\d+)/.exec(request.url())?.[1];
        if (version !== undefined) asked.push(version);
      });
      await page.goto(`${service.url}/console/aggregates/${id}`);
      const state = page.getByRole('region', { name: 'State', exact: true });
      const shown = id === 'bare-1' ? 'No reducer is bound' : '"count": 5';
      await state.getByText(shown).first().waitFor();
      await page.getByRole('slider', { name: 'Version' }).press('ArrowLeft');
      await page.waitForURL(/version=4$/);
      // The state before it.
      await state
        .getByText(id === 'bare-1' ? shown : '"count": 3')
        .first()
        .waitFor();
      if (id === 'bare-1') {
        // Which code is bound is asked for again and again.
        await page.waitForResponse((answer) => answer.url().includes('/aggregate-types'));
        await page.waitForResponse((answer) => answer.url().includes('/aggregate-types'));
      } else {
        // Of a type that is known to have some, without all other types.
        const lists: string[] = [];
        page.on('request', (request) => {
          if (request.url().includes('/aggregate-types?')) lists.push(request.url());
        });
        for (let i = 0; i < 2; i++)
          await page.waitForResponse((answer) => /\/aggregate-types\/[^/]+$/.test(answer.url()));
        assert.deepEqual(lists, []);
      }
      return asked.sort();
    };
    assert.deepEqual(await stepsOf('slid-1'), ['3', '4', '5']);
    assert.deepEqual(await stepsOf('bare-1'), []);
  });

  await t.test('an id that turns the direction of writing turns nothing beside it', async (t) => {
    const id = 'turned-\u202etxet';
    await api.append(id, 'Made', {});
    const page = await opened(t, browser, service, { key, path: '/console/aggregates' });
    await page.getByRole('row').filter({ hasText: 'turned-' }).waitFor();
    const lefts = await page.evaluate<number[]>(
      "Array.from([...document.querySelectorAll('[role=row]')].find((row) => row.textContent.includes('turned-')).children, (cell) => cell.getBoundingClientRect().left)",
    );
    assert.deepEqual(
      lefts,
      [...lefts].sort((a, b) => a - b),
    );
    await page.goto(`${service.url}/console/aggregates/${encodeURIComponent(id)}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    assert.equal(await page.evaluate("getComputedStyle(document.querySelector('h1')).unicodeBidi"), 'isolate');
  });
});
