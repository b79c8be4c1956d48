// A browser as people have it: Debian's Chromium, without a window, driven by playwright-core, which brings none of its own. The headless
// shell is the same engine for half the processor time: the other one draws its window around each page all the same.
import { existsSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { chromium, type Browser, type Page } from 'playwright-core';

const PLACES = [
  process.env['CHROMIUM'],
  ...['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'].map((name) => `/usr/bin/${name}`),
];
const program = PLACES.find((path) => path !== undefined && path !== '' && existsSync(path));

/** Why a test in a browser is skipped. */
export const needsChromium =
  program === undefined && 'there is no Chromium: apt-get install chromium-headless-shell, or name one in CHROMIUM';

/** Ends with the test. What a page logs as an error goes to `errors`. */
export async function openChromium(t: Pick<TestContext, 'after'>): Promise<Browser> {
  const browser = await chromium.launch({
    ...(program !== undefined && { executablePath: program }),
    // Its own sandbox needs a user that is not root.
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  });
  t.after(() => browser.close());
  return browser;
}

export type { Browser, Page };
