// Pages of the console where people write: SQL and code, in a real browser against the real service.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { isRefused, StatefoldClient } from '../../packages/client/src/index.js';
import { noJail } from '../hostile/escape-world.js';
import { Api } from '../support/api.js';
import { tally } from '../support/csharp.js';
import { needsChromium, openChromium } from '../support/chromium.js';
import { assertAccessible, opened, written } from '../support/console.js';
import { API_KEY, AS_ADMIN, ROOT, startService, until } from '../support/service.js';

test('the pages where people write', { skip: needsChromium || noJail }, async (t) => {
  const service = await startService(t, { readStore: true });
  const api = new Api(service);
  const browser = await openChromium(t);
  await api.append('trip-1', 'Landed', { origin: 'DTW', delay: 12 });
  await api.append('trip-2', 'Landed', { origin: 'LAS', delay: 40 });
  // The page asks once what there is: by then the view of these events has to be.
  const views = `SELECT name FROM system.tables WHERE name = 'trip_events'`;
  await until(async () => (await api.post('/sql', { query: views })).text.includes('trip_events'));

  await t.test('SQL: a statement by keys, its answer as table, chart and files, and the views as a tree', async (t) => {
    const page = await opened(t, browser, service, { path: '/console/sql', refusals: [400] });
    const saved = async (name: string): Promise<string> => {
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: `Save as ${name}` }).click(),
      ]);
      return readFileSync(await download.path(), 'utf8');
    };
    await written(
      page,
      'Statement',
      'SELECT origin, sum(delay) AS delay, 18446744073709551615 AS most FROM trip_events GROUP BY origin ORDER BY origin',
    );
    await page.keyboard.press('Control+Enter');
    const table = page.getByRole('table', { name: 'Rows of the answer' });
    await table.getByRole('row', { name: 'DTW 12 18446744073709551615' }).waitFor();
    await page.waitForURL(/\/console\/sql\?query=SELECT/);
    await assertAccessible(page);
    assert.equal(
      await saved('CSV'),
      'origin,delay,most\r\nDTW,12,18446744073709551615\r\nLAS,40,18446744073709551615\r\n',
    );
    assert.match(await saved('JSON'), /\{"origin": "DTW", "delay": 12, "most": 18446744073709551615\}/);
    await page.getByRole('button', { name: 'Chart' }).click();
    await page
      .getByRole('img', { name: /^delay over origin/ })
      .locator('canvas')
      .waitFor();
    await assertAccessible(page);

    await page.getByText('trip_events', { exact: true }).click();
    await page.getByTitle('Insert origin').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Show 100 rows' }).click();
    await page.getByRole('button', { name: 'Table', exact: true }).click();
    await table.getByRole('row', { name: /trip-2/ }).waitFor();

    await written(page, 'Statement', 'SELECT * FROM nowhere');
    await page.keyboard.press('Control+Enter');
    await page
      .getByRole('alert')
      .getByText(/Code: 60\. .*UNKNOWN_TABLE/)
      .waitFor();
  });

  await t.test('SQL: 100,000 rows are there, of which those in sight are drawn', async (t) => {
    const page = await opened(t, browser, service, { path: '/console/sql' });
    await written(page, 'Statement', 'SELECT number, number * 2 AS twice FROM numbers(100000)');
    await page.getByRole('button', { name: 'Run' }).click();
    const table = page.getByRole('table', { name: 'Rows of the answer' });
    await until(async () => (await table.getAttribute('aria-rowcount')) === '100001');
    assert.ok((await table.getByRole('row').count()) < 100);
    await table.getByRole('row', { name: '0 0', exact: true }).click();
    await page.getByRole('heading', { name: 'Row 1' }).waitFor();
  });

  await t.test('a statement that is refused in the middle of its answer is told in ClickHouse’s words', async () => {
    const client = new StatefoldClient({ url: service.url, apiKey: API_KEY });
    await assert.rejects(client.sql('SELECT number FROM numbers(3000000)'), (error) => {
      assert.ok(isRefused(error, 'SQL_REFUSED'));
      assert.equal(error.problem['clickhouseCode'], 396);
      assert.match(error.message, /^Code: 396\. .*\(TOO_MANY_ROWS_OR_BYTES\)$/);
      return true;
    });
  });

  await t.test(
    'code: the compiler’s words stand at their lines; what compiles is tried on the history, and deployed',
    async (t) => {
      await api.append('order-1', 'Placed', { customer: 'Ada' });
      const page = await opened(t, browser, service, { path: '/console/code' });
      const template = readFileSync(join(ROOT, 'templates', 'project', 'Customers.cs'), 'utf8').replaceAll(
        '__Name__',
        'Shop',
      );
      await written(page, 'Code of Customers.cs', template.replace('?.Orders ?? 0', '?.Odors ?? 0'));
      await page.keyboard.press('Control+Enter');
      await page
        .getByRole('button', { name: /^Customers\.cs:\d+$/ })
        .first()
        .waitFor();
      await page
        .getByText(/error CS1061: .*Odors/)
        .first()
        .waitFor();
      await page.locator('.cm-lintRange-error', { hasText: 'Odors' }).first().waitFor();
      await assertAccessible(page);

      await written(page, 'Code of Customers.cs', template);
      await page.getByRole('button', { name: 'Run fixtures' }).click();
      await page.getByRole('heading', { name: '1 passed, 0 failed' }).waitFor();
      await page.getByRole('button', { name: 'fixtures/customers.json', exact: true }).click();
      const fixtures = readFileSync(join(ROOT, 'templates', 'project', 'fixtures', 'customers.json'), 'utf8');
      await written(page, 'Code of fixtures/customers.json', fixtures.replace('"orders": 2', '"orders": 3'));
      await page.getByRole('button', { name: 'Run fixtures' }).click();
      await page.getByRole('region', { name: 'Ada expected' }).getByText('"orders": 3').waitFor();
      await page.getByRole('region', { name: 'Ada is' }).getByText('"orders": 2').waitFor();
      await assertAccessible(page);
      await page.getByRole('button', { name: 'Customers.cs', exact: true }).click();
      await page.getByRole('button', { name: 'Dry run' }).click();
      await page.getByText('Shop.Customers: 0 changed, 1 added, 0 removed').waitFor();
      await page.getByRole('button', { name: 'Deploy' }).click();
      await page.getByRole('link', { name: 'Go to the projection' }).click();
      await page.getByRole('row', { name: /^Ada/ }).waitFor();

      await page.getByRole('link', { name: 'Change the code' }).click();
      // The service has none of them: they stay beside the code in the tab.
      await page.getByRole('button', { name: 'fixtures/customers.json', exact: true }).click();
      await page.getByRole('button', { name: 'Run fixtures' }).click();
      await page.getByRole('region', { name: 'Ada expected' }).getByText('"orders": 3').waitFor();
      await page.getByRole('button', { name: 'Customers.cs', exact: true }).click();
      await written(page, 'Code of Customers.cs', template.replace('?? 0) + 1', '?? 0) + 10'));
      await page.getByRole('button', { name: 'Dry run' }).click();
      await page.getByText('Shop.Customers: 1 changed, 0 added, 0 removed').waitFor();
      await page.getByText('"path":"/orders","value":10').click();
      await page.getByRole('region', { name: 'Ada after' }).getByText('"orders": 10').waitFor();
      await assertAccessible(page);
      await page.getByRole('button', { name: 'Deploy' }).click();
      await page.getByRole('link', { name: 'Go to the projection' }).click();

      await page.getByRole('button', { name: 'What changed in 2' }).click();
      const compared = page.getByRole('region', { name: 'Customers.cs, revision 1 to 2' });
      assert.match(await compared.locator('.removed').innerText(), /\?\? 0\) \+ 1,/);
      assert.match(await compared.locator('.added').innerText(), /\?\? 0\) \+ 10,/);
      await assertAccessible(page);
      const live = async (): Promise<number | undefined> =>
        (
          await api.read<{ live?: { revision: number } }>(
            new URL(page.url()).pathname.replace('/console', '') + '/status',
          )
        ).live?.revision;
      await page.getByRole('button', { name: 'Roll back to 1' }).click();
      await assertAccessible(page);
      await page.getByRole('dialog').getByRole('button', { name: 'Roll back' }).click();
      await until(async () => (await live()) === 3);
      await page.getByText(/rollback of 1/).waitFor();
      await page.getByRole('button', { name: 'Rebuild' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Rebuild' }).click();
      await until(async () => (await live()) === 4);
      await page.getByText(/rebuild of/).waitFor();
    },
  );

  await t.test('sources are given to keys that may deploy, and of what is there', async () => {
    const { projections } = await api.read<{ projections: { id: string }[] }>('/projections');
    const path = `/projections/${projections[0]?.id}/revisions/`;
    const { files } = await api.read<{ files: { path: string; text: string }[] }>(`${path}2/sources`);
    assert.match(files.find((one) => one.path === 'Customers.cs')?.text ?? '', /\?\? 0\) \+ 10,/);
    assert.equal((await service.get(`${path}9/sources`)).status, 404);
    assert.equal((await service.get('/reducers/none/sources')).status, 404);
    const { tenantId } = await api.read<{ tenantId: string }>('/auth/whoami');
    const made = await service.post(`/admin/tenants/${tenantId}/keys`, { scopes: ['read'] }, AS_ADMIN);
    const { apiKey } = made.json<{ apiKey: string }>();
    assert.equal((await service.get(`${path}2/sources`, { key: apiKey })).status, 403);
    const reducerId = await service.deploy('reducers', { 'Tally.cs': tally('trip') });
    const kept = await api.read<{ files: { path: string }[] }>(`/reducers/${reducerId}/sources`);
    assert.deepEqual(
      kept.files.map((one) => one.path),
      ['Tally.cs'],
    );
  });
});
