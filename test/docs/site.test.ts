// The documentation as a site: built by its command, and read in a browser as people do.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { needsChromium, openChromium } from '../support/chromium.js';

const SITE = join(process.cwd(), 'dist', 'site');
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
};

test('the site is built, and what it has is found', { skip: needsChromium, timeout: 300_000 }, async (t) => {
  await promisify(execFile)('npm', ['run', 'site'], { maxBuffer: 16 * 1024 * 1024 });
  const server = createServer((request, response) => {
    const path = join(SITE, new URL(request.url ?? '/', 'http://site').pathname);
    const file = [path, `${path}.html`, join(path, 'index.html')].find((one) => extname(one) !== '' && existsSync(one));
    if (file === undefined) return void response.writeHead(404).end();
    void readFile(file).then((bytes) =>
      response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' }).end(bytes),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const browser = await openChromium(t);
  const page = await browser.newPage();
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
  page.on('response', (response) => !response.ok() && faults.push(`${response.status()} ${response.url()}`));
  page.on('request', (request) => !request.url().startsWith(url) && faults.push(`asks ${request.url()}`));

  await page.goto(url);
  await page.getByRole('heading', { name: 'Statefold' }).waitFor();
  for (const reader of ['Producers', 'Subscribers', 'Analysts', 'Operators'])
    await page.getByRole('heading', { name: reader }).waitFor();
  await page.getByText('Query with SQL').first().click();
  await page.getByRole('heading', { name: 'Query with SQL', level: 1 }).waitFor();

  await page.keyboard.press('Control+k');
  await page.getByRole('searchbox').fill('READ_STORE_EVENT_DAYS');
  await page.getByRole('option').filter({ hasText: 'Settings' }).first().click();
  await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor();

  await page.goto(`${url}/docs/architecture`);
  await page.getByRole('link', { name: 'fair shares' }).first().click();
  await page.waitForURL('**/docs/reference/limits#fair-shares');
  await page.getByRole('heading', { name: 'Fair shares' }).waitFor();
  assert.deepEqual(faults, []);
});
