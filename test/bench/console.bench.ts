/**
 * The console in a browser beside a tenant of very many aggregates: how long it takes to show the first of them, to go through many, and to
 * open one by its id, and the longest frame meanwhile. BENCH_AGGREGATES=n for a shorter run.
 */
import assert from 'node:assert/strict';
import { StatefoldClient } from '../../packages/client/src/index.js';
import { openChromium, type Page } from '../support/chromium.js';
import { API_KEY, startService, until } from '../support/service.js';
import { report } from './load.js';

const AGGREGATES = Number(process.env['BENCH_AGGREGATES'] ?? 1_000_000);
/** Rows that are gone through. */
const ROWS = Math.min(AGGREGATES, 20_000);
/** A page of the console has so many. */
const PAGE = 500;
const GOAL_FIRST_MS = 1_000;
const GOAL_FRAME_MS = 100;
const cleanups: (() => unknown)[] = [];
const context = { after: (cleanup: () => unknown): void => void cleanups.unshift(cleanup) } as unknown as Parameters<
  typeof startService
>[0];
const ms = (value: number): string => `${Math.round(value)} ms`;

/** The longest time between two frames until `end` is called. */
const FRAMES = `(() => {
  let last = performance.now(), longest = 0, on = true;
  const frame = (now) => { longest = Math.max(longest, now - last); last = now; if (on) requestAnimationFrame(frame); };
  requestAnimationFrame((now) => { last = now; requestAnimationFrame(frame); });
  window.framesEnd = () => { on = false; return longest; };
})()`;

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

const table = (page: Page): ReturnType<Page['getByRole']> => page.getByRole('table', { name: 'Aggregates' });

try {
  const service = await startService(context, { readStore: true });
  const client = new StatefoldClient({ url: service.url, apiKey: API_KEY });
  const producer = client.producer();
  const filled = await timed(async () => {
    for (let n = 0; n < AGGREGATES; n++)
      await producer.send({ aggregateId: `order-${n}`, eventType: 'Placed', data: { n } });
    await producer.close();
  });
  report(
    `${AGGREGATES.toLocaleString('en')} aggregates by the client's producer`,
    `${Math.round(AGGREGATES / (filled / 1000)).toLocaleString('en')}/s`,
    'none',
  );
  const page = await (await openChromium(context)).newPage();
  await page.goto(`${service.url}/console`);
  await page.getByLabel('Key of a tenant').fill(API_KEY);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('link', { name: 'Aggregates' }).waitFor();

  const first = await timed(async () => {
    await page.getByRole('link', { name: 'Aggregates' }).click();
    await table(page).getByRole('row').nth(1).waitFor();
  });
  await page.getByRole('button', { name: `order ${AGGREGATES.toLocaleString('en')}` }).waitFor();
  await page.evaluate(FRAMES);
  await table(page).getByRole('rowgroup').getByRole('row').first().focus();
  const through = await timed(async () => {
    for (let rows = PAGE; rows < ROWS; rows += PAGE) {
      await page.keyboard.press('End');
      await until(async () => Number(await table(page).getAttribute('aria-rowcount')) > rows + 1);
    }
  });
  const frame = Number(await page.evaluate('framesEnd()'));
  const drawn = await table(page).getByRole('row').count();
  assert.ok(drawn < 100, `${drawn} rows are in the document`);
  const opened = await timed(async () => {
    await page.getByRole('searchbox').fill(`order-${AGGREGATES - 1}`);
    await page.keyboard.press('Enter');
    await page
      .getByRole('region', { name: 'Data of the event' })
      .getByText(String(AGGREGATES - 1))
      .waitFor();
  });
  report('the first rows of the page of aggregates', ms(first), `${GOAL_FIRST_MS} ms`, first / GOAL_FIRST_MS, '< 1');
  report(`${ROWS.toLocaleString('en')} rows gone through, a page at a time`, ms(through), 'none');
  report('the longest frame meanwhile', ms(frame), `${GOAL_FRAME_MS} ms`, frame / GOAL_FRAME_MS, '< 1');
  report('an aggregate opened by its id', ms(opened), `${GOAL_FIRST_MS} ms`, opened / GOAL_FIRST_MS, '< 1');
} finally {
  for (const cleanup of cleanups) await cleanup();
}
