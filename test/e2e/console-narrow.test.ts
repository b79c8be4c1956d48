// Every page of the console on a telephone: nothing is wider than the screen, no control is out of reach, and no word of one is cut.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Api, newTenant, success } from '../support/api.js';
import { needsChromium, openChromium, type Page } from '../support/chromium.js';
import { opened } from '../support/console.js';
import { tally, totals } from '../support/csharp.js';
import { ADMIN_KEY, startService, until } from '../support/service.js';

const WIDTH = 380;
const LONG = 'a-very-long-name-of-one-word-'.repeat(6);
const ROUTER = readFileSync(join(import.meta.dirname, '../../../console/src/app.tsx'), 'utf8');

/** The paths of the table of pages, of one object with `/:id`. */
const routes = new Set([
  ...[...ROUTER.matchAll(/^\s*(?:\{ )?path: '([^']+)'/gm)].map(([, path]) => path ?? ''),
  ...[...ROUTER.matchAll(/ones: \{([^}]*)\}/g)].flatMap(([, ones = '']) =>
    [...ones.matchAll(/'([^']+)':/g)].map(([, path]) => `${path}/:id`),
  ),
]);

/** What does not fit, as a reader would say it. */
const misfits = (page: Page): Promise<readonly string[]> =>
  page.evaluate<string[]>(`(() => {
    const wrong = [];
    for (const box of [document.documentElement, document.querySelector('#main')])
      if (box.scrollWidth > box.clientWidth) wrong.push(box.tagName + ' is ' + box.scrollWidth + ' wide of ' + box.clientWidth);
    const scrolls = (element) => {
      for (let at = element.parentElement; at && at.id !== 'main'; at = at.parentElement)
        if (/auto|scroll/.test(getComputedStyle(at).overflowX)) return true;
      return false;
    };
    for (const one of document.querySelectorAll('a, button, input, select, textarea, summary, label, h1, h2, p, dd, dt, .badge')) {
      const { left, right, width } = one.getBoundingClientRect();
      if (width <= 1 || one.classList.contains('skip')) continue;
      const name = one.tagName + ' ' + (one.getAttribute('aria-label') ?? one.textContent.trim()).slice(0, 60);
      if ((right > innerWidth + 1 || left < -1) && !scrolls(one)) wrong.push(name + ' is out of reach');
      if (one.matches('button, .badge') && !one.closest('[role=row]') && !one.title && one.scrollWidth > one.clientWidth + 1) wrong.push(name + ' is cut');
    }
    return wrong;
  })()`);

test('every page of the console fits a narrow screen', { skip: needsChromium }, async (t) => {
  const service = await startService(t, { readStore: true, env: { WEBHOOK_ALLOW_PRIVATE: 'true' } });
  const browser = await openChromium(t);
  const key = await newTenant(service, { name: LONG.slice(0, 120) });
  const api = new Api(service, key);
  const { tenantId } = await api.read<{ tenantId: string }>('/auth/whoami');
  await api.append('trip-1', 'Added', { key: LONG, n: 1, text: LONG.repeat(5) });
  await api.append(`trip-${LONG}`, 'Added', { key: 'k', n: 5 });
  const type = LONG.slice(0, 100);
  await api.append(`${type}-1`, LONG.slice(0, 120), { n: 1 });
  await api.deployReducer({ 'Tally.cs': tally('trip') });
  const projection = await api.deployProjection({ 'Totals.cs': totals() });
  const body = { url: `http://127.0.0.1:9/${LONG}`, source: { projectionId: projection }, from: 'now' };
  const { endpointId } = success(await api.post('/webhooks/endpoints', body), 201).json<{ endpointId: string }>();
  const of = (id: string): string => encodeURIComponent(id);
  const paths: Readonly<Record<string, readonly string[]>> = {
    '/': ['/'],
    '/aggregates': ['/aggregates', `/aggregates?type=${type}`],
    '/aggregates/:id': ['/aggregates/trip-1', `/aggregates/${of(`trip-${LONG}`)}`, '/aggregates/none-1'],
    '/types/:id': ['/types/trip', `/types/${type}`],
    '/projections': ['/projections'],
    '/projections/:id': [`/projections/${projection}`, `/projections/${projection}?key=${of(LONG)}`],
    '/reducers': ['/reducers'],
    '/event-types': ['/event-types'],
    '/event-types/:id': ['/event-types/Added', `/event-types/${LONG.slice(0, 120)}`],
    '/feed': ['/feed'],
    '/code': ['/code', `/code?kind=projections&id=${projection}`],
    '/sql': ['/sql'],
    '/sql-accounts': ['/sql-accounts'],
    '/webhooks': ['/webhooks'],
    '/webhooks/:id': [`/webhooks/${endpointId}`],
    '/audit': ['/audit'],
    '/operations': [],
  };
  const ofAdmin = ['/', `/?tenant=${tenantId}`, '/operations', '/audit'];
  // Each route has an example here.
  assert.deepEqual(
    [...routes].filter((route) => paths[route] === undefined),
    [],
  );
  assert.ok(routes.size > 10);

  const walk = async (page: Page, all: readonly string[]): Promise<readonly string[]> => {
    const found: string[] = [];
    for (const path of all) {
      await page.goto(`${service.url}/console${path}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await until(async () => (await page.locator('.loading').count()) === 0);
      found.push(...(await misfits(page)).map((one) => `${path.slice(0, 60)}: ${one}`));
    }
    return found;
  };
  await t.test('of a tenant', async (t) => {
    const page = await opened(t, browser, service, { key, width: WIDTH, refusals: [404] });
    assert.deepEqual(await walk(page, Object.values(paths).flat()), []);
  });
  await t.test('of the owner', async (t) => {
    const page = await opened(t, browser, service, { key: ADMIN_KEY, width: WIDTH });
    assert.deepEqual(await walk(page, ofAdmin), []);
  });
});
