// `npm run pictures`: pictures of the console's main pages, in docs/images, made of a service with the bank sample and a Chromium.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fail, PROGRAMS, ROOT, setup, SetupError } from './setup.mjs';

const KEY = 'sf_pictures_of_the_console';
const ADMIN_KEY = 'sf_admin_pictures_of_the_console';
/** Points of the charts of the last hour; there is one each 15 s. */
const SAMPLES = 8;
const IMAGES = join(ROOT, 'docs', 'images');
const SIZE = { width: 1280, height: 800 };
const ACCOUNTS = ['Ada', 'Grace', 'Edsger', 'Barbara', 'Leslie', 'Radia', 'Jim', 'Nancy'];
const PLACES = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

async function call(base, path, init = {}) {
  const response = await fetch(base + path, { ...init, headers: { 'x-api-key': KEY, ...init.headers } });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path} was answered ${response.status}: ${text}`);
  return JSON.parse(text);
}

const post = (base, path, body) =>
  call(base, path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

async function until(holds, what) {
  for (const end = Date.now() + 120_000; !(await holds());) {
    if (Date.now() > end) throw new Error(`${what}: not within two minutes`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function deploySample(base) {
  const folder = join(ROOT, 'samples', 'bank');
  for (const kind of ['reducers', 'projections']) {
    const form = new FormData();
    for (const name of readdirSync(folder).filter((one) => one.endsWith('.cs')))
      if (name !== (kind === 'reducers' ? 'Transfers.cs' : 'AccountReducer.cs'))
        form.append('file', new Blob([readFileSync(join(folder, name))]), name);
    await call(base, `/${kind}/upload?waitSeconds=30`, { method: 'POST', body: form });
  }
}

/** Some accounts that send each other money; the sums are the same at each run. */
async function openAccounts(base) {
  for (const [i, owner] of ACCOUNTS.entries()) {
    await post(base, '/events', { aggregateId: `account-${i + 1}`, eventType: 'Opened', data: { owner } });
    await post(base, '/events', {
      aggregateId: `account-${i + 1}`,
      eventType: 'Deposited',
      data: { cents: 100_000 + 12_345 * i },
    });
  }
}

/** Transfers between them, some of which never arrive; `round` makes their ids. */
async function doBusiness(base, round) {
  for (let i = 0; i < 60; i++) {
    const [from, to] = [(i * 3) % ACCOUNTS.length, (i * 5 + 1) % ACCOUNTS.length];
    if (from === to) continue;
    const data = {
      transferId: `t-${60 * round + i + 1}`,
      from: `account-${from + 1}`,
      to: `account-${to + 1}`,
      cents: 500 + 37 * i,
    };
    await post(base, '/events', { aggregateId: data.from, eventType: 'TransferSent', data });
    if (i % 7 !== 3) await post(base, '/events', { aggregateId: data.to, eventType: 'TransferReceived', data });
  }
}

async function withBrowser(take) {
  const program = PLACES.find((path) => path !== undefined && path !== '' && existsSync(path));
  if (program === undefined)
    throw new SetupError('There is no Chromium: apt-get install chromium, or name one in CHROMIUM.');
  const { chromium } = await import('playwright-core');
  const browser = await chromium.launch({
    executablePath: program,
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  });
  try {
    for (const colorScheme of ['light', 'dark']) await take(browser, colorScheme);
  } finally {
    await browser.close();
  }
}

async function picturesOfTenant(browser, colorScheme, base, projectionId) {
  const context = await browser.newContext({ viewport: SIZE, colorScheme, timezoneId: 'UTC' });
  const page = await context.newPage();
  await page.goto(`${base}/console`);
  await page.getByLabel('Key of a tenant').fill(KEY);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('link', { name: 'Aggregates' }).waitFor();
  const query =
    'SELECT event_type, count() AS events, sum(cents) / 100 AS amount FROM account_events GROUP BY event_type ORDER BY events DESC';
  const pages = [
    ['aggregate', '/aggregates/account-2', () => page.getByRole('region', { name: 'State after' }).waitFor()],
    [
      'projection',
      `/projections/${projectionId}`,
      async () => {
        await page.getByRole('row', { name: /^t-10 / }).click();
        await page.getByRole('region', { name: 'State after' }).waitFor();
      },
    ],
    ['feed', '/feed', () => page.getByRole('cell', { name: 'TransferReceived' }).first().waitFor()],
    ['code', `/code?kind=projections&id=${projectionId}`, () => page.locator('.cm-line').first().waitFor()],
    [
      'sql',
      `/sql?query=${encodeURIComponent(query)}`,
      async () => {
        await page.getByRole('button', { name: 'Run' }).click();
        await page.getByText('TransferSent').first().waitFor();
      },
    ],
  ];
  for (const [name, path, isThere] of pages) {
    await page.goto(`${base}/console${path}`);
    await isThere().catch((error) => {
      throw new Error(`the page ${path} does not show what it should: ${error.message}`);
    });
    await page.screenshot({ path: join(IMAGES, `${name}-${colorScheme}.png`), animations: 'disabled' });
  }
  await context.close();
}

async function pictureOfOperations(browser, colorScheme, base) {
  const context = await browser.newContext({ viewport: SIZE, colorScheme, timezoneId: 'UTC' });
  const page = await context.newPage();
  await page.goto(`${base}/console/operations`);
  await page.getByLabel('Key of a tenant').fill(ADMIN_KEY);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('canvas').nth(5).waitFor();
  await page.screenshot({ path: join(IMAGES, `operations-${colorScheme}.png`), animations: 'disabled' });
  await context.close();
}

async function pictures() {
  await setup();
  mkdirSync(IMAGES, { recursive: true });
  const dataDirectory = mkdtempSync(join(tmpdir(), 'statefold-pictures-'));
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  const service = spawn(process.execPath, [join(PROGRAMS, 'main.js'), 'serve'], {
    cwd: ROOT,
    env: {
      ...process.env,
      PORT: String(port),
      STATEFOLD_DATA_DIR: dataDirectory,
      STATEFOLD_API_KEY: KEY,
      STATEFOLD_ADMIN_KEY: ADMIN_KEY,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = once(service, 'exit');
  try {
    await until(
      () =>
        fetch(`${base}/health/ready`).then(
          ({ ok }) => ok,
          () => false,
        ),
      'the service',
    );
    await deploySample(base);
    await openAccounts(base);
    await doBusiness(base, 0);
    const [{ id: projectionId }] = (await call(base, '/projections')).projections;
    const rows = 'SELECT count() FROM events';
    await until(
      async () => Number((await post(base, '/sql', { query: rows, format: 'JSON' })).data[0]['count()']) > 100,
      'the rows of the read store',
    );
    await withBrowser((browser, colours) => picturesOfTenant(browser, colours, base, projectionId));
    for (let round = 1, samples = 0; samples < SAMPLES; round++) {
      await doBusiness(base, round);
      const headers = { 'x-admin-key': ADMIN_KEY };
      samples = (await call(base, '/admin/processes/activity', { headers })).samples.length;
    }
    await withBrowser((browser, colours) => pictureOfOperations(browser, colours, base));
  } finally {
    service.kill();
    await ended;
    rmSync(dataDirectory, { recursive: true, force: true });
  }
}

await pictures().catch(fail);
