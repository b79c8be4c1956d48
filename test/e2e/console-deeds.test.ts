// What is asked for in the console while its answer is late or lost, and while others change the same: nothing is lost, hidden or overwritten unseen.
import assert from 'node:assert/strict';
import test from 'node:test';
import { noJail } from '../hostile/escape-world.js';
import { Api, newTenant } from '../support/api.js';
import { needsChromium, openChromium, type Page } from '../support/chromium.js';
import { assertAccessible, opened } from '../support/console.js';
import { totals } from '../support/csharp.js';
import { ADMIN_KEY, AS_ADMIN, startService, until } from '../support/service.js';

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
  const service = await startService(t);
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
    const page = await opened(t, browser, service, { key: ADMIN_KEY, breaks: true });
    await page.route(/\/admin\/tenants$/, async (route) => {
      if (route.request().method() !== 'POST') return route.fallback();
      await route.fetch();
      return route.abort('internetdisconnected');
    });
    await page.getByRole('button', { name: 'New tenant' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Lost');
    await page.keyboard.press('Enter');
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
});

declare const requestAnimationFrame: (resolve: (value: unknown) => void) => void;
