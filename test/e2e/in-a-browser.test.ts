// Pages in a real browser: the client package as a page loads it, the platform's EventSource, and what the browser keeps foreign pages from.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import type * as client from '../../packages/client/src/index.js';
import { Api, type Notification } from '../support/api.js';
import { needsChromium, openChromium, type Browser, type Page } from '../support/chromium.js';
import { totals } from '../support/csharp.js';
import { lossyProxy } from '../support/lossy-proxy.js';
import { startService, until } from '../support/service.js';
import { ticketFor } from '../support/streams.js';

/** The client's modules, as a page's server gives them out. */
const CLIENT = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'packages', 'client', 'src');

/** What the scripts of the tests leave in their page. */
interface Seen {
  told: { key: string; cause?: string; sequence: number; state: unknown }[];
  channels: string[];
  places: string[];
  ended: string[];
}

interface PageServer {
  /** As the page's origin. */
  readonly url: string;
  /** The same server by another name: another origin to a browser. */
  readonly foreign: string;
  /** Bodies of the requests for tickets. */
  readonly asked: object[];
  tickets: (asked: object) => Promise<string>;
}

/** The backend of a page: an empty page, the client's modules, and tickets. */
async function pageServer(t: Pick<TestContext, 'after'>): Promise<PageServer> {
  const asked: object[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? '/';
    if (path === '/ticket') {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = JSON.parse(Buffer.concat(chunks).toString()) as object;
        asked.push(body);
        page.tickets(body).then(
          (ticket) => response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ ticket })),
          () => response.writeHead(503).end(),
        );
      });
      return;
    }
    const module = join(CLIENT, path.replace('/client/', ''));
    if (path.startsWith('/client/') && !path.includes('..') && existsSync(module))
      return void response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(readFileSync(module));
    if (path === '/favicon.ico') return void response.writeHead(204).end();
    response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>page</title>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  const page: PageServer = {
    url: `http://127.0.0.1:${port}`,
    foreign: `http://localhost:${port}`,
    asked,
    tickets: () => Promise.reject(new Error('no tickets yet')),
  };
  return page;
}

test('pages in a browser', { skip: needsChromium }, async (t) => {
  const pages = await pageServer(t);
  const service = await startService(t, { env: { CORS_ORIGINS: pages.url } });
  const api = new Api(service);
  const id = await api.deployProjection({ 'Totals.cs': totals() }, { config: JSON.stringify({ sse: true }) });
  pages.tickets = async (asked) => (await ticketFor(api, asked)).ticket;
  const browser = await openChromium(t);
  let n = 0;
  const add = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) await api.append('a-1', 'Added', { key: `k${i % 4}`, n: ++n });
  };
  const states = async (): Promise<Record<string, unknown>> => {
    const { states: all } = await api.read<{ states: { key: string; state: unknown }[] }>(`/projections/${id}/states`);
    return Object.fromEntries(all.map(({ key, state }) => [key, state]));
  };
  await add(8);
  await until(async () => Object.keys(await states()).length === 4);

  for (const [way, live] of [
    ['websocket', /^UPGRADE .*\/stream\?/],
    ['sse', /^GET .*\/sse\?/],
  ] as const)
    await t.test(
      `the client package follows by ${way}${way === 'sse' ? ' where sockets are refused' : ''}, and goes on when it is cut`,
      async (t) => {
        const proxy = await lossyProxy(t, service.url);
        if (way === 'sse') proxy.fate = ({ url = '' }) => (url.includes('/stream') ? 'lose request' : 'pass');
        const page = await opened(t, browser, pages.url);
        await page.evaluate(subscribe, { url: proxy.url, projectionId: id });
        const seen = (): Promise<Seen> => page.evaluate(() => (globalThis as unknown as { seen: Seen }).seen);
        const latest = async (): Promise<Record<string, unknown>> =>
          Object.fromEntries((await seen()).told.map(({ key, state }) => [key, state]));
        const isThere = async (): Promise<boolean> =>
          JSON.stringify(sorted(await latest())) === JSON.stringify(sorted(await states()));
        await until(async () => (await seen()).places.includes('end'));
        await until(isThere);
        for (let i = 0; i < 3; i++) {
          await add(6);
          await until(isThere);
          proxy.cut();
        }
        await add(6);
        await until(isThere);
        const { told, channels, places, ended } = await seen();
        assert.deepEqual(ended, []);
        assert.deepEqual(places, ['begin', 'end'], 'it went on, and did not begin anew');
        assert.ok(told.some(({ cause }) => cause === 'snapshot'));
        const changes = told.filter(({ cause }) => cause !== 'snapshot').map(({ sequence }) => sequence);
        assert.deepEqual(
          changes,
          [...new Set(changes)].sort((a, b) => a - b),
          'each once, and in its order',
        );
        assert.deepEqual(channels, way === 'sse' ? ['sse'] : []);
        assert.ok(proxy.seen.filter((one) => live.test(one)).length >= 4, proxy.seen.join('\n'));
        assert.ok(
          proxy.seen.every((one) => !one.includes('/notifications')),
          'nothing needed a key',
        );
      },
    );

  await t.test('an EventSource begins with the states, and goes on behind them by itself', async (t) => {
    const proxy = await lossyProxy(t, service.url);
    const page = await opened(t, browser, pages.url);
    const path = `/projections/${id}/sse`;
    const { ticket } = await ticketFor(api, { path, expiresInSeconds: 300 });
    await page.evaluate(listen, `${proxy.url}${path}?snapshot=true&ticket=${ticket}`);
    const seen = (): Promise<Seen> => page.evaluate(() => (globalThis as unknown as { seen: Seen }).seen);
    await until(async () => (await seen()).places.length === 1);
    const before = (await seen()).told.length;
    assert.equal(before, 4);
    await add(2);
    await until(async () => (await seen()).told.length === before + 2);
    proxy.cut();
    await add(2);
    // The browser waits for 3 s, as it was told.
    await until(async () => (await seen()).told.length === before + 4, 30_000);
    const { told, places } = await seen();
    assert.equal(places.length, 1, 'the states were told once');
    assert.ok(told.slice(before).every(({ cause }) => cause === undefined));
  });

  await t.test('a page may read the headers that CORS exposes, and send what it needs', async (t) => {
    const page = await opened(t, browser, pages.url);
    const position = await page.evaluate(
      async ([url, key]) => {
        const answer = await fetch(`${url}/events`, {
          method: 'POST',
          headers: { 'X-API-Key': key ?? '', 'Content-Type': 'application/json', 'Idempotency-Key': 'of-a-page' },
          body: JSON.stringify({ aggregateId: 'page-1', eventType: 'Clicked', data: {} }),
        });
        return answer.headers.get('Statefold-Position');
      },
      [service.url, api.key ?? ''],
    );
    assert.match(position ?? '', /^\d+$/);
  });

  await t.test('a page that came over plain HTTP has keys for what it appends', async (t) => {
    const page = await browser.newPage();
    t.after(() => page.close());
    await page.route('http://plain.example/**', async (route) => {
      const { pathname } = new URL(route.request().url());
      await route.fulfill({ response: await route.fetch({ url: pages.url + pathname }) });
    });
    await page.goto('http://plain.example/');
    const keys = await page.evaluate(async () => {
      const module = '/client/new-key.js';
      const { newKey } = (await import(module)) as { newKey: () => string };
      const { isSecureContext } = globalThis as unknown as { isSecureContext: boolean };
      return isSecureContext ? [] : [newKey(), newKey()];
    });
    assert.equal(new Set(keys).size, 2);
    for (const key of keys) assert.match(key, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  await t.test('a page of another origin gets nothing, with whatever ticket', async (t) => {
    const page = await opened(t, browser, pages.foreign);
    for (const kind of ['stream', 'sse'] as const) {
      const path = `/projections/${id}/${kind}`;
      const { ticket } = await ticketFor(api, { path });
      const outcome = await page.evaluate(tryToOpen, {
        url: `${service.url}${path}?ticket=${ticket}&snapshot=true`,
        kind,
      });
      assert.equal(outcome, 'refused', kind);
    }
    const fetched = await page.evaluate(
      ([url, key]) =>
        fetch(`${url}/feed`, { headers: { 'X-API-Key': key ?? '' } }).then(
          () => 'read',
          () => 'refused',
        ),
      [service.url, api.key ?? ''],
    );
    assert.equal(fetched, 'refused');
    assert.ok(pages.asked.length > 0);
  });
});

const sorted = (states: Record<string, unknown>): [string, unknown][] => Object.entries(states).sort();

async function opened(t: Pick<TestContext, 'after'>, browser: Browser, url: string): Promise<Page> {
  const page = await browser.newPage();
  t.after(() => page.close());
  await page.goto(url);
  return page;
}

// What follows runs in the page: it knows nothing of this module.

async function subscribe({ url, projectionId }: { url: string; projectionId: string }): Promise<void> {
  const seen: Seen = { told: [], channels: [], places: [], ended: [] };
  Object.assign(globalThis, { seen });
  const module = '/client/index.js';
  const { StatefoldClient } = (await import(module)) as typeof client;
  const subscription = new StatefoldClient({ url }).subscribe(projectionId, {
    from: 'snapshot',
    firstDelayMs: 20,
    mostDelayMs: 200,
    ticket: async (asked) => {
      const answer = await fetch('/ticket', { method: 'POST', body: JSON.stringify(asked) });
      return ((await answer.json()) as { ticket: string }).ticket;
    },
    onChannel: (channel) => seen.channels.push(channel),
    onSnapshot: (place) => seen.places.push(place),
  });
  void (async () => {
    for await (const change of subscription) seen.told.push(change);
  })().catch((error: unknown) => seen.ended.push(String(error)));
}

function listen(url: string): void {
  const seen: Seen = { told: [], channels: [], places: [], ended: [] };
  Object.assign(globalThis, { seen });
  const { EventSource: Source } = globalThis as unknown as {
    EventSource: new (url: string) => {
      addEventListener(type: string, listener: (event: { data: string }) => void): void;
    };
  };
  const source = new Source(url);
  source.addEventListener('state_changed', ({ data }) => seen.told.push(JSON.parse(data) as Notification));
  source.addEventListener('snapshot_end', ({ data }) => seen.places.push(data));
}

function tryToOpen({ url, kind }: { url: string; kind: 'stream' | 'sse' }): Promise<string> {
  interface Opened {
    onopen: () => void;
    onerror: () => void;
    close(): void;
  }
  const { EventSource: Source, WebSocket: Socket } = globalThis as unknown as Record<
    string,
    new (url: string) => Opened
  >;
  return new Promise((resolve) => {
    const Kind = kind === 'sse' ? Source : Socket;
    if (Kind === undefined) return resolve('the browser has none');
    const opened = new Kind(kind === 'sse' ? url : url.replace('http', 'ws'));
    opened.onopen = () => resolve('opened');
    opened.onerror = () => {
      opened.close();
      resolve('refused');
    };
  });
}
