// Pages of the console in a browser: what they log as an error, and what their policy keeps them from, fails the test.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { TestContext } from 'node:test';
import type { Browser, Page } from './chromium.js';
import { API_KEY, beforeTheEndOf, type Service } from './service.js';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const WITHIN = { timeout: 30_000 };

/** A tab of its own. `refusals`: statuses that the test asks for, beside 401, which an owner's key is answered where a tenant's is asked for. `breaks`: so are streams that break off, and a network that is away. It fails the test where it logged an error, or asked for anything but the service. */
export async function opened(
  t: TestContext,
  browser: Browser,
  service: Service,
  {
    key = API_KEY,
    path = '/console',
    width = 1280,
    refusals = [],
    breaks = false,
  }: { key?: string; path?: string; width?: number; refusals?: readonly number[]; breaks?: boolean } = {},
): Promise<Page> {
  const context = await browser.newContext({ viewport: { width, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(WITHIN.timeout);
  const wrong: string[] = [];
  page.on('console', (message) => {
    // The browser itself logs each refusal that a page is answered; those are asserted where they are meant.
    const status = Number(/status of (\d+)/.exec(message.text())?.[1]);
    if (breaks && /net::ERR_(INCOMPLETE_CHUNKED_ENCODING|INTERNET_DISCONNECTED)$/.test(message.text())) return;
    if (message.type() === 'error' && ![401, ...refusals].includes(status))
      wrong.push(`${message.text()} of ${message.location().url}`);
  });
  page.on('pageerror', (error) => wrong.push(String(error)));
  page.on('request', (request) => {
    if (!request.url().startsWith(service.url)) wrong.push(`asked ${request.url()}`);
    if (request.url().includes(key)) wrong.push(`a key in ${request.url()}`);
  });
  // A page asks again and again, and logs it when nobody answers.
  beforeTheEndOf(service.dataDirectory, () => context.close());
  t.after(async () => {
    await context.close();
    assert.deepEqual(wrong, []);
  });
  await page.goto(service.url + path);
  if (key !== '') {
    await page.getByLabel('Key of a tenant').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    // What is done next may go to another page: by then it is known whose key it is.
    await page.getByRole('navigation').or(page.getByRole('alert')).first().waitFor();
  }
  return page;
}

/** WCAG 2.2 A and AA, in both colours. */
export async function assertAccessible(page: Page): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    // By the protocol of the debugger: the policy of the page lets no script of others in. Half a megabyte, once a document.
    if (await page.evaluate("typeof axe === 'undefined'")) await page.evaluate(AXE);
    const violations = await page.evaluate(async () => {
      const { axe } = globalThis as unknown as {
        axe: { run(options: object): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
      };
      const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
      const answer = await axe.run({ runOnly: { type: 'tag', values: tags } });
      return answer.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
    });
    assert.deepEqual(violations, [], colorScheme);
  }
}

/** In place of what was in the editor. */
export async function written(page: Page, label: string, text: string): Promise<void> {
  await page.getByRole('textbox', { name: label }).click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(text);
}
