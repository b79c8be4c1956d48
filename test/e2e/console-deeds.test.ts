// What is asked for in the console while its answer is late or lost, and while others change the same: nothing is lost, hidden or overwritten unseen.
import assert from 'node:assert/strict';
import test from 'node:test';
import { noJail } from '../hostile/escape-world.js';
import { Api, newTenant, success } from '../support/api.js';
import { needsChromium, openChromium, type Page } from '../support/chromium.js';
import { assertAccessible, opened, written } from '../support/console.js';
import { tally, totals } from '../support/csharp.js';
import { ADMIN_KEY, AS_ADMIN, startService, until } from '../support/service.js';

const EDITOR = 'Code of Totals.cs';

interface Held {
  /** The request is there. */
  readonly asked: Promise<void>;
  /** Answered by the service, or with the status. */
  readonly answer: (status?: number) => void;
}

/** Keeps the next answer to such a request back. */
async function held(page: Page, method: string, path: RegExp): Promise<Held> {
  let ask: (() => void) | undefined;
  let answer: ((status?: number) => void) | undefined;
  const asked = new Promise<void>((resolve) => (ask = resolve));
  const answered = new Promise<number | undefined>((resolve) => (answer = resolve));
  let isNext = true;
  await page.route(path, async (route) => {
    if (!isNext || route.request().method() !== method) return route.fallback();
    isNext = false;
    ask?.();
    const status = await answered;
    if (status === undefined) return route.continue();
    const problem = {
      type: 'about:blank',
      title: 'Broken',
      status,
      code: 'INTERNAL',
      detail: 'broken',
      requestId: 'r',
    };
    return route.fulfill({ status, contentType: 'application/problem+json', body: JSON.stringify(problem) });
  });
  return { asked, answer: (status) => answer?.(status) };
}

test('deeds of the console', { skip: needsChromium || noJail }, async (t) => {
  const service = await startService(t, { readStore: true });
  const browser = await openChromium(t);
  const tenantOf = async (name: string): Promise<{ key: string; api: Api; id: string }> => {
    const key = await newTenant(service, { name });
    const api = new Api(service, key);
    return { key, api, id: (await api.read<{ tenantId: string }>('/auth/whoami')).tenantId };
  };
  const tenantsCalled = async (name: string): Promise<readonly { tenantId: string }[]> =>
    (await service.get('/admin/tenants?limit=500', AS_ADMIN))
      .json<{ tenants: { tenantId: string; name: string }[] }>()
      .tenants.filter((one) => one.name === name);

  await t.test('while a deed is under way its dialog stays: what comes of it is seen', async (t) => {
    const { id } = await tenantOf('Dialogs');
    const page = await opened(t, browser, service, {
      key: ADMIN_KEY,
      path: `/console?tenant=${id}`,
      refusals: [422, 500],
    });
    const dialog = page.getByRole('dialog');
    const cannotBeClosed = async (): Promise<void> => {
      await dialog.getByRole('status').getByText('It is under way').waitFor();
      for (const one of ['Escape', 'Escape', 'Control+k']) await page.keyboard.press(one);
      assert.ok(await dialog.getByRole('button', { name: 'Cancel' }).isDisabled());
    };
    const made = await held(page, 'POST', /\/admin\/tenants$/);
    await page.getByRole('button', { name: 'New tenant' }).click();
    await dialog.getByLabel('Name', { exact: true }).fill('Slow');
    await page.keyboard.press('Enter');
    await made.asked;
    await cannotBeClosed();
    await assertAccessible(page);
    made.answer();
    await page.getByRole('dialog', { name: 'The first key of Slow' }).waitFor();
    await page.getByRole('button', { name: 'I have kept it' }).click();

    const refused = await held(page, 'POST', /\/keys$/);
    await page.getByRole('button', { name: 'New key' }).click();
    await dialog.getByLabel('Name of the key').fill('mine');
    await page.keyboard.press('Enter');
    await refused.asked;
    await cannotBeClosed();
    refused.answer(500);
    await dialog.getByRole('alert').getByText('may have been made all the same').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'New key' }).click();
    assert.equal(await dialog.getByRole('alert').count(), 0, 'of the form before');
    await dialog.getByLabel('Expires').fill('275760-01-01T00:00');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.locator('input[type=datetime-local]:invalid').waitFor();
    await dialog.getByLabel('Expires').fill('2099-01-01T00:00');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('button', { name: 'I have kept it' }).click();

    const revoked = await held(page, 'DELETE', /\/keys\/[^/]+$/);
    await page.getByRole('button', { name: 'Revoke' }).first().click();
    await dialog.getByRole('button', { name: 'Revoke it' }).click();
    await revoked.asked;
    await cannotBeClosed();
    revoked.answer(422);
    await dialog.getByRole('alert').getByText('broken').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  });

  await t.test('a tenant whose answer was lost is found, and not made twice', async (t) => {
    const page = await opened(t, browser, service, { key: ADMIN_KEY, breaks: true, refusals: [404] });
    let attempts = 0;
    await page.route(/\/admin\/tenants$/, async (route) => {
      if (route.request().method() !== 'POST') return route.fallback();
      attempts++;
      if (attempts > 1) await route.fetch();
      return route.abort('internetdisconnected');
    });
    await page.getByRole('button', { name: 'New tenant' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Lost');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('is not known yet').waitFor();
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('dialog', { name: 'The tenant was made' }).waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Go to the tenant' }).click();
    await page.getByRole('heading', { name: 'Lost' }).waitFor();
    await page.getByRole('row', { name: /^Lost/ }).waitFor();
    assert.equal((await tenantsCalled('Lost')).length, 1);
  });

  await t.test('a slow deed leads nobody away from another page, and what failed is told there', async (t) => {
    const { key, api } = await tenantOf('Slow deeds');
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    const path = `/console/projections/${projectionId}`;
    const page = await opened(t, browser, service, { key, path, refusals: [422, 500] });
    const deleted = async (answer: (one: Held) => void): Promise<void> => {
      await page.getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('dialog').getByRole('textbox').fill(projectionId);
      const one = await held(page, 'DELETE', new RegExp(`/projections/${projectionId}$`));
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await one.asked;
      // A dialog keeps the page's links away, and not the browser's own ways.
      await page.goForward();
      await page.waitForURL(/\/feed$/);
      answer(one);
    };
    await page.getByRole('link', { name: 'Feed' }).click();
    await page.goBack();
    await deleted((one) => one.answer(422));
    const notice = page.getByRole('status', { name: 'From pages that you left' });
    await notice.getByText('“Delete” was asked for on a page that you left').waitFor();
    await assertAccessible(page);
    await notice.getByRole('button', { name: 'Close' }).click();
    await page.goBack();
    const answered = page.waitForResponse((one) => one.request().method() === 'DELETE' && one.status() < 400);
    await deleted((one) => one.answer());
    await (await answered).finished();
    await until(async () => (await api.read<{ projections: unknown[] }>('/projections')).projections.length === 0);
    // What the answer leads to comes before what the next frame shows.
    await page.evaluate(async () => new Promise((resolve) => requestAnimationFrame(resolve)));
    assert.match(page.url(), /\/feed$/);
  });

  await t.test(
    'code that is chosen while other code is deployed stays what it is, and is deployed as itself',
    async (t) => {
      const { key, api } = await tenantOf('Two artefacts');
      const totalsId = await api.deployProjection({ 'Totals.cs': totals() });
      const page = await opened(t, browser, service, { key, path: '/console/code' });
      const file = page.getByRole('button', { name: 'Totals.cs', exact: true });
      const upload = await held(page, 'POST', /\/projections\/upload/);
      await page.getByRole('textbox', { name: 'Code of Customers.cs' }).waitFor();
      await page.getByRole('button', { name: 'Deploy' }).click();
      await upload.asked;
      await page.getByRole('combobox').selectOption(`projections ${totalsId}`);
      await file.waitFor();
      upload.answer();
      await page.getByRole('status', { name: 'From pages that you left' }).getByText('is deployed as').waitFor();
      assert.ok(page.url().endsWith(`id=${totalsId}`));
      await file.waitFor();
      await written(page, EDITOR, totals('Sums'));
      await page.getByRole('button', { name: 'Deploy' }).click();
      await page.getByRole('link', { name: 'Go to the projection' }).waitFor();
      const { projections } = await api.read<{ projections: { id: string; discovered: { className: string }[] }[] }>(
        '/projections',
      );
      assert.deepEqual(projections.map(({ id, discovered }) => [id === totalsId, discovered[0]?.className]).sort(), [
        [false, 'Shop.Customers'],
        [true, 'Tests.Sums'],
      ]);
      // Back leads to other files, and not to those that were open.
      await page.goBack();
      await page.getByRole('textbox', { name: 'Code of Customers.cs' }).waitFor();
      assert.equal(await file.count(), 0);
    },
  );

  await t.test('what is written during a deploy stays, and what was changed is discarded', async (t) => {
    const { key } = await tenantOf('Writer');
    const page = await opened(t, browser, service, { key, path: '/console/code' });
    const label = 'Code of Customers.cs';
    const discard = page.getByRole('button', { name: 'Discard what was changed' });
    await written(page, label, '// nothing');
    await discard.click();
    await page.getByRole('textbox', { name: label }).getByText('class Customers').waitFor();
    assert.equal(await discard.count(), 0);
    const upload = await held(page, 'POST', /\/projections\/upload/);
    await page.getByRole('button', { name: 'Deploy' }).click();
    await upload.asked;
    await written(page, label, '// written meanwhile');
    upload.answer();
    await page.waitForURL(/&id=/);
    await page.getByRole('link', { name: 'Go to the projection' }).click();
    await page.getByRole('link', { name: 'Change the code' }).click();
    await page.getByText('// written meanwhile').waitFor();
    await discard.click();
    await page.getByRole('textbox', { name: label }).getByText('class Customers').waitFor();
  });

  await t.test('a revision that others deployed meanwhile is shown before it is replaced', async (t) => {
    const { key, api } = await tenantOf('Colleagues');
    await api.append('a-1', 'Added', { key: 'k', n: 1 });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    const path = `/console/code?kind=projections&id=${projectionId}`;
    const page = await opened(t, browser, service, { key, path });
    const deploy = page.getByRole('button', { name: 'Deploy', exact: true });
    const revisions = async (): Promise<number> =>
      (await api.read<{ revisions: unknown[] }>(`/projections/${projectionId}/revisions`)).revisions.length;
    await written(page, EDITOR, totals('Totals', 3));
    await api.deployProjection({ 'Totals.cs': totals('Totals', 2) }, { projectionId });
    await page.getByRole('link', { name: 'Overview' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.goBack();
    const told = page.getByRole('alert').getByText('Revision 2 was deployed');
    await told.waitFor();
    await Promise.all([page.waitForRequest(/\/revisions$/), deploy.click()]);
    await deploy.and(page.locator(':enabled')).waitFor();
    await told.waitFor();
    const difference = page.getByRole('region', { name: 'Totals.cs, theirs to mine' });
    assert.match(await difference.locator('.removed').innerText(), /n \* 2/);
    assert.match(await difference.locator('.added').innerText(), /n \* 3/);
    await assertAccessible(page);
    assert.equal(await revisions(), 2);
    await page.getByRole('button', { name: 'Deploy mine all the same' }).click();
    await page.getByRole('link', { name: 'Go to the projection' }).waitFor();
    assert.equal(await revisions(), 3);
    await written(page, EDITOR, totals('Totals', 5));
    await api.deployProjection({ 'Totals.cs': totals('Totals', 4) }, { projectionId });
    await deploy.click();
    await page.getByRole('button', { name: 'Discard mine, and take theirs' }).click();
    await page.getByRole('textbox', { name: EDITOR }).getByText('n * 4').waitFor();
    // A comparison has an address.
    await page.goto(`${service.url}/console/projections/${projectionId}?compared=3`);
    await page.getByRole('region', { name: 'Totals.cs, revision 2 to 3' }).waitFor();
    await page.getByRole('button', { name: 'What changed in 2' }).click();
    await page.waitForURL(/compared=2$/);
  });

  await t.test('a reducer that others bound meanwhile is shown before its type is taken from it', async (t) => {
    const { key, api } = await tenantOf('Reducers');
    await api.append('trip-1', 'Landed');
    const id = await api.deployReducer({ 'Tally.cs': tally('trip') });
    const page = await opened(t, browser, service, { key, path: `/console/code?kind=reducers&id=${id}` });
    await written(page, 'Code of Tally.cs', tally('trip', 3));
    const theirs = await api.deployReducer({ 'Tally.cs': tally('trip', 2) });
    await page.getByRole('button', { name: 'Deploy', exact: true }).click();
    await page.getByRole('alert').getByText('Another reducer of trip was deployed').waitFor();
    await page.getByRole('button', { name: 'Discard mine, and take theirs' }).click();
    await page.waitForURL(new RegExp(`id=${theirs}$`));
    await written(page, 'Code of Tally.cs', tally('trip', 4));
    await page.getByRole('button', { name: 'Deploy', exact: true }).click();
    await page.getByText('The reducer is compiled, and bound.').waitFor();
  });

  await t.test('a schema that others put meanwhile is shown before it is replaced', async (t) => {
    const { key, api } = await tenantOf('Schemas');
    const page = await opened(t, browser, service, { key, path: '/console/event-types/Landed', refusals: [404] });
    const label = 'JSON Schema of Landed';
    const save = page.getByRole('button', { name: 'Save', exact: true });
    const stored = async (): Promise<unknown> => (await api.read<{ schema: unknown }>('/event-types/Landed')).schema;
    const changed = page.getByRole('alert').getByText('Somebody has changed the schema');
    await written(page, label, '{ "title": "mine" }');
    await page.getByRole('link', { name: 'Overview' }).click();
    success(await api.put('/event-types/Landed', { schema: { title: 'theirs' } }), 200);
    await page.goBack();
    await changed.waitFor();
    await save.click();
    await save.and(page.locator(':enabled')).waitFor();
    assert.deepEqual(await stored(), { title: 'theirs' });
    await page.getByRole('region', { name: 'schema.json, theirs to mine' }).getByText('"mine"').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Save mine in its place' }).click();
    await page.getByText('Version 2 of the schema holds').waitFor();
    assert.deepEqual(await stored(), { title: 'mine' });
    await changed.waitFor({ state: 'detached' });

    // Between two looks of the page.
    await page.clock.install();
    await written(page, label, '{ "title": "mine again" }');
    success(await api.put('/event-types/Landed', { schema: { title: 'theirs again' } }), 200);
    await save.click();
    await changed.waitFor();
    assert.deepEqual(await stored(), { title: 'theirs again' });
    await page.getByRole('button', { name: 'Take theirs' }).click();
    await page.getByText('"theirs again"').waitFor();
  });

  await t.test('what was written outlasts the key, is no other tenant’s, and is asked about at Sign out', async (t) => {
    const { key, api, id } = await tenantOf('Drafts');
    const others = await tenantOf('Others');
    const made = (await service.post(`/admin/tenants/${id}/keys`, {}, AS_ADMIN)).json<{
      apiKey: string;
      keyId: string;
    }>();
    // Statements are refused until the read store is there, and while those of pages that were left are being ended.
    const page = await opened(t, browser, service, { key: made.apiKey, path: '/console/code', refusals: [429, 503] });
    const label = 'Code of Customers.cs';
    const signIn = async (by: string): Promise<void> => {
      await page.getByLabel('Key of a tenant').fill(by);
      await page.getByRole('button', { name: 'Sign in' }).click();
    };
    await written(page, label, '// my work');
    await page.getByRole('link', { name: 'SQL' }).click();
    await written(page, 'Statement', 'SELECT 1 AS mine');
    await page.getByRole('link', { name: 'Code', exact: true }).click();
    await page.getByText('// my work').waitFor();
    success(await service.request('DELETE', `/admin/tenants/${id}/keys/${made.keyId}`, AS_ADMIN), 204);
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByRole('alert').getByText('it was revoked').waitFor();
    await signIn(others.key);
    await page.getByRole('textbox', { name: label }).getByText('class Customers').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await signIn(key);
    await page.getByText('// my work').waitFor();
    await page.getByRole('link', { name: 'SQL' }).click();
    await page.getByText('SELECT 1 AS mine').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    const asked = page.getByRole('dialog', { name: 'Sign out, and lose what was written?' });
    await asked.getByText('Customers.cs').waitFor();
    await assertAccessible(page);
    await asked.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('SELECT 1 AS mine').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await asked.getByRole('button', { name: 'Sign out' }).click();
    await signIn(key);
    await page.getByRole('link', { name: 'Code', exact: true }).click();
    await page.getByRole('textbox', { name: label }).getByText('class Customers').waitFor();
    assert.ok(api.key);
  });

  await t.test('a verification may take as long as the service lets it', async (t) => {
    const { key, api } = await tenantOf('Patient');
    await api.append('a-1', 'Added', { key: 'k', n: 5 });
    const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
    const page = await opened(t, browser, service, { key, path: `/console/projections/${projectionId}` });
    await page.getByRole('row', { name: /^k / }).waitFor();
    await page.clock.install();
    const verification = await held(page, 'POST', /\/verify$/);
    await page.getByRole('button', { name: 'Verify' }).click();
    await verification.asked;
    await page.clock.fastForward(85_000);
    verification.answer();
    await page.getByRole('region', { name: 'Verification' }).getByText('all as stored').waitFor();
  });

  await t.test('a fixture that is no JSON is marked where it is none', async (t) => {
    const { key } = await tenantOf('Fixtures');
    const page = await opened(t, browser, service, { key, path: '/console/code', refusals: [400] });
    const file = 'fixtures/customers.json';
    await page.getByRole('button', { name: file, exact: true }).click();
    await written(page, `Code of ${file}`, '[\n  { "name": }\n]');
    await page.getByRole('button', { name: 'Run fixtures' }).click();
    await page.getByRole('button', { name: `${file}:2`, exact: true }).waitFor();
    await page.locator('.cm-lintRange-error').first().waitFor();
  });
});

declare const requestAnimationFrame: (resolve: (value: unknown) => void) => void;
