// A newcomer reads a page, does what it says in its order, and sees what it shows. One service for all pages, started as the README says.
// That `npx` finds the command is for the walk through the README to show.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { builtCheckout, needsGit } from '../support/checkout.js';
import { needsChromium, openChromium } from '../support/chromium.js';
import { freePort, needsKafkaHome } from '../support/kafka.js';
import { type Page, parsePage } from '../support/page.js';
import { ROOT, temporaryDirectory, until } from '../support/service.js';
import { isFree, Reader, readersEnvironment, Terminal } from '../support/terminal.js';

const pagesIn = (folder: string): string[] =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`);
const NAMES = [
  ...pagesIn('docs/how-to'),
  ...readdirSync(join(ROOT, 'samples')).map((name) => `samples/${name}/README.md`),
];
const PAGES = new Map(NAMES.map((name) => [name, read(name)]));

/** Blocks that no test runs: what they need is not on a machine of tests. */
const NOT_RUN: readonly string[] = [
  "docs/how-to/back-up-and-restore.md: a Docker of the reader's own",
  "docs/how-to/back-up-and-restore.md: a Docker of the reader's own",
  "docs/how-to/back-up-and-restore.md: a Docker of the reader's own",
  "docs/how-to/back-up-and-restore.md: a Docker of the reader's own",
  "docs/how-to/back-up-and-restore.md: a Kubernetes of the reader's own",
  "docs/how-to/back-up-and-restore.md: a Kubernetes of the reader's own",

  "docs/how-to/land-events-in-your-clickhouse.md: a ClickHouse of the reader's own",
  "docs/how-to/land-events-in-your-clickhouse.md: a Kafka Connect of the reader's own",
  "docs/how-to/land-events-in-your-clickhouse.md: a ClickHouse of the reader's own",
  "docs/how-to/move-a-tenant.md: it ends with a signal to a process of the reader's own",
  "docs/how-to/query-with-sql.md: a ClickHouse of the reader's own",
  'docs/how-to/run-on-kafka.md: it changes nothing on one broker',
  "docs/how-to/run-on-kafka.md: the reader's own Kafka tools",
  "docs/how-to/run-on-kubernetes.md: a Kubernetes of the reader's own",
];

/** Ports besides the service's that pages name. */
const IN_A_BROWSER = 'docs/how-to/follow-from-a-browser.md';
const PAGE_PORT = 8091;
const PORTS = new Map([
  ['docs/how-to/receive-webhooks.md', [3000]],
  ['docs/how-to/back-up-and-restore.md', [8090]],
  [IN_A_BROWSER, [PAGE_PORT]],
]);

/** They have a service of their own, on the addresses that they show. */
const ON_KAFKA = new Map([['docs/how-to/run-on-kafka.md', [9092, 8081, 8082]]]);

/** Why a page that names these ports can't be walked on this machine. */
async function takenOf(ports: readonly number[]): Promise<string | undefined> {
  for (const port of ports)
    if (!(await isFree(port))) return `port ${port}, which the page uses, is taken on this machine`;
  return undefined;
}

function read(name: string): Page {
  try {
    return parsePage(readFileSync(join(ROOT, name), 'utf8'));
  } catch (error) {
    throw new Error(`${name}, ${(error as Error).message}`);
  }
}

test('each page with commands says what its reader has before it', () => {
  for (const [name, { steps }] of PAGES) {
    if (steps.length === 0) continue;
    const top = readFileSync(join(ROOT, name), 'utf8').split('```')[0] ?? '';
    assert.match(
      top,
      /^You need /m,
      `${name}: a paragraph that begins with "You need" stands before the first command`,
    );
  }
});

test('what is not run is little, and known', () => {
  assert.deepEqual(
    [...PAGES].flatMap(([name, { notRun }]) => notRun.map(({ reason }) => `${name}: ${reason}`)),
    NOT_RUN,
  );
});

test('the pages, as they are written', { skip: needsGit }, async (t) => {
  const cwd = builtCheckout(t);
  const port = `${await freePort()}`;
  const env = { PORT: port, STATEFOLD_DATA_DIR: temporaryDirectory(t) };
  const service = new Terminal(
    cwd,
    readersEnvironment({
      ...env,
      WEBHOOK_ALLOW_PRIVATE: 'true',
      CORS_ORIGINS: `http://127.0.0.1:${PAGE_PORT}`,
    }),
  );
  t.after(() => service.close());
  const url = `http://127.0.0.1:${port}`;
  const printed = await service.serve('npm start', (text) => text.includes(`listens on ${url}`) && /sf_\w+/.test(text));
  const [apiKey = ''] = /sf_\w+/.exec(printed()) ?? [];

  for (const [name, page] of PAGES) {
    if (page.steps.length === 0 || ON_KAFKA.has(name)) continue;
    await t.test(name, async (each) => {
      const taken = await takenOf(PORTS.get(name) ?? []);
      if (taken !== undefined) return each.skip(taken);
      const reader = new Reader({
        cwd,
        env: { ...env, STATEFOLD_URL: url, STATEFOLD_API_KEY: apiKey },
        withoutNpm: true,
      });
      each.after(() => reader.close());
      await reader.walk(name, page);
      if (name === IN_A_BROWSER)
        await each.test('the page that it opens', { skip: needsChromium }, (inner) => opened(inner, reader));
      assert.ok(await reader.close(), 'what the page starts ends on SIGTERM');
    });
  }
});

/** What the reader sees who opens the address, and lets more flights land. */
async function opened(t: TestContext, reader: Reader): Promise<void> {
  const browser = await openChromium(t);
  const page = await browser.newPage();
  const failures: string[] = [];
  page.on('pageerror', (error) => failures.push(String(error)));
  await page.goto(`http://127.0.0.1:${PAGE_PORT}`);
  const drawn = (): Promise<readonly string[]> => page.locator('#airports li').allTextContents();
  await until(async () => (await page.locator('#status').textContent()) === 'live');
  await until(async () => (await drawn()).length === 10);
  const flights = (rows: readonly string[]): number =>
    rows.reduce((sum, row) => sum + Number(/(\d+)$/.exec(row)?.[1]), 0);
  const before = await drawn();
  await reader.walk('more flights', parsePage('```sh\nnode samples/flights/page/land.mjs 700\n```'));
  await until(async () => flights(await drawn()) > flights(before));
  // Drawn as the projection has them.
  const shown = page.locator('#airports .airport');
  const minutes = (await drawn()).map((row) => Number(/^[A-Z]{3}(\d+) min/.exec(row)?.[1]));
  assert.deepEqual(
    minutes,
    [...minutes].sort((one, other) => other - one),
    'the worst first',
  );
  assert.equal(new Set(await shown.allTextContents()).size, 10);
  assert.deepEqual(failures, []);
}

test('what the page of browsers shows of the sample is in the sample', () => {
  const [shown = ''] =
    /```js\nasync function connect[\s\S]*?```/.exec(readFileSync(join(ROOT, IN_A_BROWSER), 'utf8')) ?? [];
  const lines = (text: string): string => text.replaceAll(/^\s+/gm, '');
  const code = shown.split('\n').slice(1, -1).join('\n');
  assert.ok(code.length > 500);
  assert.ok(lines(readFileSync(join(ROOT, 'samples', 'flights', 'page', 'index.html'), 'utf8')).includes(lines(code)));
});

for (const [name, ports] of ON_KAFKA) {
  const page = PAGES.get(name);
  test(name, { skip: needsGit || needsKafkaHome }, async (t) => {
    assert.ok(page !== undefined && page.steps.length > 0);
    const taken = await takenOf(ports);
    if (taken !== undefined) return t.skip(taken);
    const cwd = builtCheckout(t);
    const reader = new Reader({ cwd, env: { KAFKA_HOME: process.env['KAFKA_HOME'] ?? '' } });
    t.after(() => reader.close());
    await reader.walk(name, page);
    assert.ok(await reader.close(), 'what the page starts ends on SIGTERM');
  });
}
