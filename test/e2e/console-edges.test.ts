// What pages of the console are met with beside what they are made for: odd names, numbers that no double holds, services that don't answer, hands that click twice.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Api, newTenant, success } from '../support/api.js';
import { needsChromium, openChromium } from '../support/chromium.js';
import { assertAccessible, opened } from '../support/console.js';
import { totals } from '../support/csharp.js';
import { ADMIN_KEY, AS_ADMIN, startService, temporaryDirectory, until } from '../support/service.js';

/** Two classes that keep a state under the same keys. */
const TWO = `${totals('Totals')}
public sealed class Counts : IProjection<CountState>
{
    public string? ResolveKey(Event e) => e.Data.TryGetProperty("key", out var key) ? key.GetString() : null;

    public CountState? Apply(CountState? state, Event e) => new((state?.Count ?? 0) + 1);
}

public sealed record CountState(long Count);
`;

test('the console where things are not as usual', { skip: needsChromium }, async (t) => {
  const service = await startService(t, { readStore: true, env: { WEBHOOK_ALLOW_PRIVATE: 'true' } });
  const browser = await openChromium(t);
  const tenantOf = async (name: string): Promise<{ key: string; api: Api; id: string }> => {
    const key = await newTenant(service, { name });
    const api = new Api(service, key);
    return { key, api, id: (await api.read<{ tenantId: string }>('/auth/whoami')).tenantId };
  };

  await t.test(
    'ids and types with percent signs, slashes and spaces are found by search, link and reload',
    async (t) => {
      const { key, api } = await tenantOf('Odd');
      const ids = ['100%', 'a%2Fb', 'a/b', 'a%20b', 'a b', 'a?b=c#d', 'é-日本', '<i>x</i>'];
      for (const id of ids) await api.append(id, 'A+B%20&c', { id });
      const page = await opened(t, browser, service, { key, path: '/console/aggregates', refusals: [404] });
      const isOpen = async (id: string): Promise<void> => {
        await page.getByRole('heading', { name: id, exact: true, level: 1 }).waitFor();
        await page.getByRole('region', { name: 'Data of the event' }).getByText(JSON.stringify(id)).waitFor();
      };
      for (const id of ids) {
        await page.goto(`${service.url}/console/aggregates`);
        await page.getByRole('link', { name: id, exact: true }).click();
        await isOpen(id);
        await page.reload();
        await isOpen(id);
        assert.equal(await page.title(), `${id} – Statefold`);
        await page.goto(`${service.url}/console/aggregates`);
        await page.getByRole('searchbox').fill(id);
        await page.keyboard.press('Enter');
        await isOpen(id);
      }
      await page.goto(`${service.url}/console`);
      await page.getByRole('link', { name: 'A+B%20&c' }).click();
      const rows = page.getByRole('table', { name: 'Events, newest first' }).getByRole('row');
      await until(async () => (await rows.count()) === ids.length + 1);
      await page.reload();
      await until(async () => (await rows.count()) === ids.length + 1);
      await page.goto(`${service.url}/console/aggregates/%E0%A4%A`);
      await page.getByRole('heading', { name: 'There is no such aggregate' }).waitFor();
    },
  );

  await t.test('numbers are shown and saved as they are written', async (t) => {
    const { key, api } = await tenantOf('Exact');
    const data = '{"key":"k","n":9007199254740993,"d":0.1234567890123456789,"":"empty","$":1}';
    const raw = `{"aggregateId":"big-1","eventType":"Num","data":${data}}`;
    success(await api.request('POST', '/events', { raw, headers: { 'content-type': 'application/json' } }), 201);
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    const page = await opened(t, browser, service, { key, path: '/console/aggregates/big-1' });
    const shown = await page.getByRole('region', { name: 'Data of the event' }).innerText();
    assert.match(shown, /"n": 9007199254740993,/);
    assert.match(shown, /"d": 0\.1234567890123456789,/);
    assert.match(shown, /"": "empty",/);
    await page.goto(`${service.url}/console/projections/${projectionId}`);
    await page.getByRole('row', { name: /^k \{"total":9007199254740993\}/ }).click();
    await page.getByRole('region', { name: 'State of the key' }).getByText('9007199254740993').waitFor();
    await page.goto(`${service.url}/console/feed`);
    await page.getByRole('row', { name: /Num big-1/ }).click();
    await page.getByRole('region', { name: 'Data of the event' }).getByText('9007199254740993').waitFor();
  });

  await t.test('two classes under one key are two states with two histories, and follow what is folded', async (t) => {
    const { key, api } = await tenantOf('Two');
    await api.append('a-1', 'Added', { key: 'k', n: 5 });
    const projectionId = await api.deployProjection({ 'Two.cs': TWO });
    const page = await opened(t, browser, service, { key, path: `/console/projections/${projectionId}` });
    await page.getByRole('row', { name: /^k Tests\.Counts/ }).click();
    await page.waitForURL(/key=k&class=Tests\.Counts$/);
    const state = page.getByRole('region', { name: 'State of the key' });
    const history = page.getByRole('region', { name: 'History of the key' });
    await state.getByText('"count": 1').waitFor();
    await api.append('a-1', 'Added', { key: 'k', n: 7 });
    await page.getByRole('row', { name: /^k Tests\.Totals \{"total":12\}/ }).waitFor();
    await state.getByText('"count": 2').waitFor();
    await history.getByRole('region', { name: 'State after' }).getByText('"count": 2').waitFor();
    await history.getByRole('region', { name: 'State before' }).getByText('"count": 1').waitFor();
    await until(async () => (await history.getByRole('row').count()) === 3);
    await history.getByRole('row').last().click();
    await history.getByRole('region', { name: 'State before' }).getByText('null').waitFor();
    await page.reload();
    await state.getByText('"count": 2').waitFor();
    await page.getByRole('row', { name: /^k Tests\.Totals/ }).click();
    await state.getByText('"total": 12').waitFor();
    await assertAccessible(page);
    await page.setViewportSize({ width: 380, height: 800 });
    await assertAccessible(page);
    const box = await state.boundingBox();
    assert.ok(box !== null && box.height > 30, 'the state is there to be read on a narrow screen');
  });

  await t.test(
    'faults of keys are retried and skipped, one or all; a projection is verified and deleted',
    async (t) => {
      const { key, api } = await tenantOf('Faulty');
      for (const [n, name] of ['a', 'b', 'c'].entries()) await api.append(`a-${n}`, 'Boom', { key: name, n: 5 });
      const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
      const page = await opened(t, browser, service, { key, path: `/console/projections/${projectionId}` });
      await page.getByRole('heading', { name: '3 faults' }).waitFor();
      await assertAccessible(page);
      await page.getByRole('button', { name: 'Retry all' }).click();
      await page.getByText('0 keys released, 3 keys stopped again').waitFor();
      await page
        .getByRole('listitem')
        .filter({ hasText: /^a / })
        .getByRole('button', { name: 'Skip the event' })
        .click();
      await page.getByRole('button', { name: 'Skip it' }).click();
      await page.getByRole('heading', { name: '2 faults' }).waitFor();
      await page.getByRole('status').getByText('1 key released', { exact: true }).waitFor();
      await page.getByRole('button', { name: 'Skip all' }).click();
      await page.getByRole('button', { name: 'Skip them' }).click();
      await page.getByRole('heading', { name: '2 faults' }).waitFor({ state: 'detached' });
      await page.getByRole('status').getByText('2 keys released', { exact: true }).waitFor();
      await api.append('a-0', 'Added', { key: 'a', n: 7 });
      await page.getByRole('row', { name: /^a \{"total":7\}/ }).waitFor();
      // Who stays on the page is told nothing of pages that were left.
      assert.equal(await page.getByRole('status', { name: 'From pages that you left' }).innerText(), '');
      await page.getByRole('button', { name: 'Verify' }).click();
      await page.getByRole('region', { name: 'Verification' }).getByText('all as stored').waitFor();
      await assertAccessible(page);
      await page.getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('dialog').getByRole('textbox').fill(projectionId);
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('heading', { name: 'There are no projections' }).waitFor();
      assert.deepEqual(await api.read('/projections'), { projections: [] });
    },
  );

  await t.test('an event that stopped the code before it gave a key is skipped, and not tried again', async (t) => {
    const { key, api } = await tenantOf('Keyless');
    await api.append('a-1', 'Added', { key: 5, n: 1 });
    await api.append('a-2', 'Boom', { key: 'k', n: 1 });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    const page = await opened(t, browser, service, { key, path: `/console/projections/${projectionId}` });
    await page.getByRole('heading', { name: '2 faults' }).waitFor();
    const faultOf = (name: RegExp): ReturnType<typeof page.getByRole> =>
      page.getByRole('listitem').filter({ hasText: name });
    await faultOf(/^k /).getByRole('button', { name: 'Retry' }).waitFor();
    assert.equal(
      await faultOf(/^\(no key\)/)
        .getByRole('button', { name: 'Retry' })
        .count(),
      0,
    );
    await page.getByText('skip it, or rebuild the projection').waitFor();
    await faultOf(/^\(no key\)/)
      .getByRole('button', { name: 'Skip the event' })
      .click();
    await page.getByRole('button', { name: 'Skip it' }).click();
    await page.getByRole('heading', { name: '1 fault', exact: true }).waitFor();
    await page.getByText('skip it, or rebuild the projection').waitFor({ state: 'detached' });
  });

  await t.test('the history of a key says that a first build made one change of all events, and when', async (t) => {
    const { key, api } = await tenantOf('Folded');
    await api.append('a-1', 'Added', { key: 'k', n: 5 });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    const page = await opened(t, browser, service, { key, path: `/console/projections/${projectionId}?key=k` });
    const history = page.getByRole('region', { name: 'History of the key' });
    await history.getByText('the first build folded all events until then into this one change').waitFor();
    await api.append('a-1', 'Added', { key: 'k', n: 6 });
    await history.getByRole('row', { name: / event / }).waitFor();
    await history.getByText('The history begins here').waitFor({ state: 'detached' });
  });

  await t.test('what is shown says of when it is while nobody answers, and goes on by itself', async (t) => {
    const { key, api } = await tenantOf('Away');
    await api.append('a-1', 'Added', { key: 'k', n: 5 });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    const page = await opened(t, browser, service, { key, path: `/console/projections/${projectionId}`, breaks: true });
    await page.getByRole('row', { name: /^k / }).waitFor();
    await page.context().setOffline(true);
    await page.getByRole('alert').getByText('What is shown is of').first().waitFor();
    await page.context().setOffline(false);
    // Each part of the page that was asked for meanwhile.
    await until(async () => (await page.getByRole('alert').count()) === 0);
    // Also what is asked for once.
    await page.route('**/revisions', (route) => route.abort('internetdisconnected'));
    await page.reload();
    await page.getByRole('alert').first().waitFor();
    await page.unroute('**/revisions');
    await until(async () => (await page.getByRole('alert').count()) === 0);
    await page.goto(`${service.url}/console/feed`);
    await page.getByText('live', { exact: true }).waitFor();
  });

  await t.test('an answer that takes longer than the page’s pause between two is waited for', async (t) => {
    const { key, api } = await tenantOf('Slow');
    await api.append('a-1', 'Added', { key: 'k', n: 5 });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    const page = await opened(t, browser, service, { key, path: '/console/projections' });
    await page.getByRole('row', { name: /Totals/ }).waitFor();
    await page.clock.install();
    let asked = 0;
    let answer: (() => void) | undefined;
    const held = new Promise<void>((resolve) => (answer = resolve));
    await page.route(`**/projections/${projectionId}/status`, async (route) => {
      asked++;
      await held;
      await route.continue();
    });
    await page.getByRole('link', { name: 'Tests.Totals' }).click();
    await until(() => asked === 1);
    await page.clock.fastForward(20_000);
    assert.equal(asked, 1);
    answer?.();
    await page.getByRole('heading', { name: 'Tests.Totals' }).waitFor();
  });

  await t.test(
    'a key that is revoked leads to where another one is given, and the page stays where it was',
    async (t) => {
      const { api, id } = await tenantOf('Revoked');
      await api.append('a-1', 'Added', {});
      const made = (await service.post(`/admin/tenants/${id}/keys`, {}, AS_ADMIN)).json<{
        apiKey: string;
        keyId: string;
      }>();
      const page = await opened(t, browser, service, { key: made.apiKey, path: '/console/aggregates/a-1' });
      await page.getByRole('region', { name: 'Data of the event' }).waitFor();
      success(await service.request('DELETE', `/admin/tenants/${id}/keys/${made.keyId}`, AS_ADMIN), 204);
      await page.getByRole('alert').getByText('it was revoked, or has expired').waitFor();
      await assertAccessible(page);
      await page.getByLabel('Key of a tenant').fill(api.key ?? '');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('heading', { name: 'a-1' }).waitFor();
    },
  );

  await t.test('a suspended tenant’s tab lets another key in; what is kept and unreadable is nothing', async (t) => {
    const { key, api, id } = await tenantOf('Suspended');
    await api.append('a-1', 'Added', {});
    const page = await opened(t, browser, service, { key, refusals: [403] });
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    success(await service.request('PATCH', `/admin/tenants/${id}`, { ...AS_ADMIN, body: { suspended: true } }), 200);
    await page.reload();
    await page.getByRole('alert').getByText('TENANT_SUSPENDED').waitFor();
    await page.getByRole('button', { name: 'Sign in with another key' }).click();
    await page.getByLabel('Key of a tenant').fill('“curly”');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').getByText('characters that no key has').waitFor();
    await page.evaluate(() => sessionStorage.setItem('statefold.key', '{"kind":'));
    await page.reload();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
  });

  await t.test('a page that the key’s scopes don’t allow says which scope it takes', async (t) => {
    const { id, api } = await tenantOf('Reader');
    const made = (await service.post(`/admin/tenants/${id}/keys`, { scopes: ['read'] }, AS_ADMIN)).json<{
      apiKey: string;
    }>();
    const page = await opened(t, browser, service, { key: made.apiKey, path: '/console/sql' });
    await page.getByRole('heading', { name: /its scopes leave out “sql”/ }).waitFor();
    await page.getByRole('link', { name: 'Overview' }).click();
    await page.getByRole('heading', { name: /Append an event \(needs the scope “append”\)/ }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Load the bank sample' }).count(), 0);
    await assertAccessible(page);
    const owner = await opened(t, browser, service, { key: ADMIN_KEY, path: '/console/feed' });
    await owner.getByRole('heading', { name: 'The page is a tenant’s' }).waitFor();
    await assertAccessible(owner);
    assert.ok(api.key);
  });

  await t.test(
    'keys alone go into a table, through it and out of it; what was asked in a dialog gives the focus back',
    async (t) => {
      const { key, api } = await tenantOf('Keyboard');
      const events = Array.from({ length: 300 }, (_, n) => ({ eventType: 'Ticked', data: { n } }));
      await api.post('/events/batch', { aggregateId: 'many-1', events });
      await api.append('many-2', 'Ticked', {});
      const page = await opened(t, browser, service, { key, path: '/console/aggregates/many-1?version=20' });
      const commands = page.getByRole('dialog', { name: 'Commands' });
      const focused = (): Promise<string> => page.evaluate(() => document.activeElement?.textContent ?? '');
      await page.getByRole('row', { name: /^20 Ticked/ }).waitFor();
      await page.getByRole('slider').focus();
      await page.keyboard.press('Tab');
      await page.keyboard.press('End');
      await until(async () => /^1Ticked/.test(await focused()));
      await page.keyboard.press('Home');
      await until(async () => /^300Ticked/.test(await focused()));
      await page.keyboard.press('PageDown');
      await page.keyboard.press('Enter');
      await page.waitForURL(/version=2\d\d$/);
      await page.getByRole('region', { name: 'Data of the event' }).waitFor();
      await page.keyboard.press('Tab');
      assert.match(await focused(), /"n"/, 'the next stop is behind the table');
      await page.keyboard.press('Control+k');
      await page.keyboard.type('no such command');
      await page.getByRole('option', { name: /Open aggregate no such/ }).waitFor();
      await page.keyboard.press('Escape');
      await commands.waitFor({ state: 'detached' });
      await until(async () => (await focused()).includes('"n"'));
      await page.keyboard.press('Control+k');
      await page.keyboard.type('keys without Ctrl off');
      await page.keyboard.press('Enter');
      await commands.waitFor({ state: 'detached' });
      await page.keyboard.press('g');
      await page.keyboard.press('f');
      await page.keyboard.press('Control+k');
      await page.keyboard.type('keys without Ctrl on');
      await page.getByRole('option', { name: 'Turn keys without Ctrl on' }).waitFor();
      await page.keyboard.press('Enter');
      await commands.waitFor({ state: 'detached' });
      assert.match(page.url(), /many-1/);
      await page.keyboard.press('g');
      await page.keyboard.press('f');
      await page.waitForURL(/\/feed$/);
      // Rows move on while the one that has the focus is read.
      const rows = page.getByRole('table', { name: 'Events, newest first' }).getByRole('rowgroup').getByRole('row');
      await rows.first().focus();
      const before = await focused();
      await api.post('/events/batch', { aggregateId: 'many-2', events });
      await until(async () => !(await rows.first().innerText()).includes('many-1'));
      await page.keyboard.press('ArrowDown');
      await until(async () => /Ticked/.test(await focused()));
      assert.notEqual(before, await focused());
    },
  );

  await t.test('SQL: other formats, infinities, decimals, formulas', async (t) => {
    const { key, api } = await tenantOf('Sql');
    await api.append('a-1', 'Added', {});
    const page = await opened(t, browser, service, { key, path: '/console/sql', refusals: [400] });
    const ask = async (statement: string): Promise<void> => {
      await page.getByRole('textbox', { name: 'Statement' }).click();
      await page.keyboard.press('Control+a');
      await page.keyboard.insertText(statement);
      await page.keyboard.press('Control+Enter');
    };
    const answer = page.getByRole('region', { name: 'Answer' });
    await ask('SELECT 1 AS one FORMAT JSON');
    await answer.getByText('"one": 1').waitFor();
    await ask('SELECT number AS n FROM numbers(3) FORMAT JSONCompactEachRow');
    await answer.getByText('[2]').waitFor();
    assert.equal((await answer.innerText()).trim(), '[0]\n[1]\n[2]');
    await ask(
      "SELECT 1/0 AS inf, toFloat64('nan') AS nan, toDecimal128('12345678901234567890.123456789', 9) AS money, '=1+1' AS f, toDateTime('2026-01-02 03:04:05') AS at, NULL AS nil",
    );
    await page
      .getByRole('row', { name: 'inf nan 12345678901234567890.123456789 =1+1 2026-01-02 03:04:05 NULL' })
      .waitFor();
    await page.getByRole('columnheader', { name: 'at (UTC)' }).waitFor();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save as CSV' }).click(),
    ]);
    const stream = await download.createReadStream();
    let text = '';
    for await (const piece of stream) text += String(piece);
    assert.equal(
      text,
      "inf,nan,money,f,at,nil\r\ninf,nan,12345678901234567890.123456789,'=1+1,2026-01-02 03:04:05,\r\n",
    );
    await ask('SELECT * FROM nowhere');
    await page.getByRole('alert').waitFor();
    assert.equal(await page.getByRole('table', { name: 'Rows of the answer' }).count(), 0, 'no answer to another one');
    await page.goto(`${service.url}/console/sql?query=${encodeURIComponent("SELECT 'a%20b'")}`);
    await page.getByText("'a%20b'").waitFor();
  });

  await t.test('a state of 30,000 lines is drawn in parts', async (t) => {
    const { key, api } = await tenantOf('Large');
    const list = Array.from({ length: 30_000 }, (_, n) => n);
    await api.append('large-1', 'Filled', { list });
    const page = await opened(t, browser, service, { key, path: '/console/aggregates/large-1' });
    await page.getByRole('button', { name: 'Show more of its 30,004 lines' }).click();
    const data = page.getByRole('region', { name: 'Data of the event' });
    await until(async () => (await data.innerText()).split('\n').length > 9_000);
  });

  await t.test('a second click asks for nothing', async (t) => {
    const { id } = await tenantOf('Clicks');
    const page = await opened(t, browser, service, { key: ADMIN_KEY, path: `/console?tenant=${id}` });
    await page.getByRole('button', { name: 'New key' }).click();
    await page.getByLabel('Name of the key').fill('twice');
    await page.getByLabel('Expires').fill('2099-01-01T00:00');
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Create' }).dblclick();
    const shown = page.getByRole('dialog', { name: 'The new key' });
    await shown.waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    await shown.getByRole('button', { name: 'I have kept it' }).click();
    const { keys } = (await service.get(`/admin/tenants/${id}/keys`, AS_ADMIN)).json<{
      keys: { name?: string; expiresAt?: string }[];
    }>();
    const twice = keys.filter(({ name }) => name === 'twice');
    assert.equal(twice.length, 1);
    assert.equal(Date.parse(twice[0]?.expiresAt ?? ''), new Date(2099, 0, 1).getTime());
    await page
      .getByRole('listitem')
      .filter({ hasText: 'twice' })
      .getByText(/until .*2099/)
      .waitFor();
  });

  await t.test(
    'code that does not compile is mended and is one projection; drafts stay; folders replace',
    async (t) => {
      const { key, api } = await tenantOf('Coder');
      await api.append('a-1', 'Added', { key: 'k', n: 5 });
      const page = await opened(t, browser, service, { key, path: '/console/code' });
      const write = async (file: string, text: string): Promise<void> => {
        await page.getByRole('textbox', { name: `Code of ${file}` }).click();
        await page.keyboard.press('Control+a');
        await page.keyboard.insertText(text);
      };
      const folder = temporaryDirectory(t);
      const folderOf = (name: string, files: Readonly<Record<string, string>>): string => {
        const root = join(folder, name);
        mkdirSync(root);
        for (const [path, text] of Object.entries(files)) writeFileSync(join(root, path), text);
        return root;
      };
      const input = page.getByLabel('Take the files of a folder');
      await input.setInputFiles(folderOf('nothing', { 'readme.md': '#' }));
      await page.getByRole('alert').getByText('none is C# code').waitFor();
      await input.setInputFiles(folderOf('first', { 'First.cs': 'broken' }));
      await page.getByRole('button', { name: 'First.cs', exact: true }).waitFor();
      // What is in the editor and nowhere else is not taken away without a question.
      const second = folderOf('second', { 'Totals.cs': totals('Totals').replace('Forget"', 'Forget') });
      await write('First.cs', '// my work');
      await input.setInputFiles(second);
      const question = page.getByRole('dialog', { name: 'Put the files of the folder in place of what was written?' });
      await question.getByText('First.cs').waitFor();
      await assertAccessible(page);
      await question.getByRole('button', { name: 'Cancel' }).click();
      await page.getByText('// my work').waitFor();
      await input.setInputFiles(second);
      await question.getByRole('button', { name: 'Put them in its place' }).click();
      await page.getByRole('button', { name: 'Totals.cs', exact: true }).waitFor();
      assert.equal(await page.getByRole('button', { name: 'First.cs', exact: true }).count(), 0);
      await page.getByRole('button', { name: 'Deploy' }).click();
      await page
        .getByRole('button', { name: /^Totals\.cs:\d+$/ })
        .first()
        .waitFor();
      await page.waitForURL(/kind=projections&id=/);
      await write('Totals.cs', totals());
      await page.getByRole('link', { name: 'Overview' }).click();
      await page.getByRole('heading', { name: 'Overview' }).waitFor();
      await page.goBack();
      await page.getByRole('button', { name: 'Discard what was changed' }).waitFor();
      await page.getByRole('button', { name: 'Deploy' }).click();
      await page.getByRole('link', { name: 'Go to the projection' }).click();
      await page.getByRole('row', { name: /^k \{"total":5\}/ }).waitFor();
      const { projections } = await api.read<{ projections: unknown[] }>('/projections');
      assert.equal(projections.length, 1);
    },
  );

  await t.test(
    'a key with a comma, with spaces or with quotation marks stays one key when others are added',
    async (t) => {
      const { key, api } = await tenantOf('Commas');
      const keys = ['Doe, Jane', ' led', '"quoted"'];
      const body = { url: 'http://127.0.0.1:9/hook', source: { feed: { eventTypes: ['Opened, again'] } }, keys };
      const { endpointId } = success(await api.post('/webhooks/endpoints', body), 201).json<{ endpointId: string }>();
      const stored = (): Promise<{ keys: string[]; source: { feed: { eventTypes: string[] } } }> =>
        api.read(`/webhooks/endpoints/${endpointId}`);
      const page = await opened(t, browser, service, { key, path: `/console/webhooks/${endpointId}` });
      await page.getByRole('button', { name: 'Edit' }).click();
      const field = page.getByLabel(/^Only these aggregates/);
      assert.equal(await field.inputValue(), 'Doe, Jane\n" led"\n"\\"quoted\\""');
      await field.press('Control+End');
      await field.pressSequentially('\na-1');
      await page.getByLabel(/^Types of events/).press('Control+End');
      await page.getByLabel(/^Types of events/).pressSequentially('\nClosed');
      await assertAccessible(page);
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      assert.deepEqual((await stored()).keys, [...keys, 'a-1']);
      assert.deepEqual((await stored()).source.feed.eventTypes, ['Opened, again', 'Closed']);
      await page.getByRole('button', { name: 'Edit' }).click();
      await field.fill('"no end');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('alert').getByText('begins with a quotation mark').waitFor();
    },
  );

  await t.test('what others change of an endpoint while its form is open stays theirs', async (t) => {
    const { key, api } = await tenantOf('Hooks');
    const made = success(
      await api.post('/webhooks/endpoints', {
        url: 'http://127.0.0.1:9/hook',
        source: { feed: {} },
        description: 'old',
      }),
      201,
    ).json<{ endpointId: string }>();
    const path = `/webhooks/endpoints/${made.endpointId}`;
    const page = await opened(t, browser, service, { key, path: `/console${path.replace('/endpoints', '')}` });
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel('Only these aggregates').fill('a-1');
    success(await api.patch(path, { description: 'by another' }), 200);
    await page.getByRole('definition').getByText('by another').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('definition').getByText('a-1').waitFor();
    assert.equal((await api.read<{ description: string }>(path)).description, 'by another');
  });
});

declare const document: { readonly activeElement: { readonly textContent: string } | null };
declare const sessionStorage: { setItem(name: string, value: string): void };
