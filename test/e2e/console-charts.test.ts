// Charts of the console tell the figures that the table beside them has: what they draw is read from their canvas.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api } from '../support/api.js';
import { needsChromium, openChromium, type Page } from '../support/chromium.js';
import { assertAccessible, opened, written } from '../support/console.js';
import { startService, until } from '../support/service.js';

/** A text on a canvas: where it begins, from the left edge, and its colour. */
interface Label {
  readonly text: string;
  readonly left: number;
  readonly colour: string;
}

const WATCH = `
  globalThis.labels = [];
  const draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
    const part = { right: 1, end: 1, center: 0.5 }[this.textAlign] ?? 0;
    const left = this.getTransform().e + x - this.measureText(text).width * part;
    globalThis.labels.push({ text, left, colour: this.fillStyle });
    return draw.call(this, text, x, y, ...rest);
  };`;

test('charts of the console', { skip: needsChromium }, async (t) => {
  const service = await startService(t, { readStore: true });
  await new Api(service).readStoreAccess();
  const page = await opened(t, await openChromium(t), service);
  await page.addInitScript(WATCH);
  // Whoever looks is elsewhere than the data.
  const debug = await page.context().newCDPSession(page);
  await debug.send('Emulation.setTimezoneOverride', { timezoneId: 'America/New_York' });
  await page.goto(`${service.url}/console/sql`);
  const labels = (of: Page): Promise<readonly Label[]> => of.evaluate<readonly Label[]>('globalThis.labels.splice(0)');
  const chart = page.getByRole('img', { name: /the table has the values$/ });
  const draw = async (statement: string): Promise<readonly Label[]> => {
    await written(page, 'Statement', statement);
    await Promise.all([
      page.waitForResponse((response) => /\/sql$/.test(response.url()) && response.status() === 200),
      page.keyboard.press('Control+Enter'),
    ]);
    await page.getByRole('button', { name: 'Run', exact: true }).waitFor();
    await page
      .getByRole('status')
      .filter({ hasText: /rows? · / })
      .waitFor();
    await page.getByRole('button', { name: 'Chart' }).click();
    await chart.locator('canvas').waitFor();
    const found: Label[] = [];
    await until(async () => {
      found.push(...(await labels(page)));
      return found.length > 3;
    });
    return found;
  };
  /** What the legend says with the mouse there, 0 to 1 of the width of what is drawn. */
  const legendAt = async (part: number): Promise<string> => {
    const over = await chart.locator('.u-over').boundingBox();
    assert.ok(over);
    await page.mouse.move(over.x + over.width * part, over.y + over.height / 2);
    return chart.locator('.u-legend').innerText();
  };

  await t.test('figures of the axis are whole, however long', async () => {
    const drawn = await draw('SELECT number AS n, 1234567890123400 + number * 100000 AS big FROM numbers(5)');
    const figures = drawn.filter(({ text }) => /^1,234,567,890/.test(text));
    assert.ok(figures.length >= 2, JSON.stringify(drawn));
    for (const { text, left } of figures) assert.ok(left >= 0, `${text} begins at ${left}`);
    assert.match(await legendAt(0.99), /1234567890523400/);
    await assertAccessible(page);
  });

  await t.test('what the legend tells is exact', async () => {
    await page.getByRole('button', { name: 'Table', exact: true }).click();
    await draw('SELECT number AS n, toUInt64(18446744073709551610) + number AS big FROM numbers(6)');
    assert.match(await legendAt(0.99), /18446744073709551615/);
  });

  await t.test('times stand where their zone’s clock has them, and the zone is named', async () => {
    for (const [type, first] of [
      ["'Asia/Tokyo'", '2026-03-01 12:00:00'],
      ["'UTC'", '2026-03-01 12:00:00'],
      // The clock goes from 2 to 3 in the night.
      ["'Europe/Berlin'", '2026-03-29 01:00:00'],
    ] as const) {
      await page.getByRole('button', { name: 'Table', exact: true }).click();
      const statement = `SELECT toDateTime('${first}', ${type}) + number * 1800 AS at, number AS n FROM numbers(5)`;
      const drawn = (await draw(statement)).map(({ text }) => text.split('\n')[0]);
      const zone = type.replaceAll("'", '');
      const legend = await legendAt(0.001);
      assert.match(legend, new RegExp(`Time \\(${zone}\\)[^]*${first}`));
      const hours = zone === 'Europe/Berlin' ? ['1:00am', '3:00am'] : ['12:00pm', '1:00pm', '2:00pm'];
      for (const hour of hours) assert.ok(drawn.includes(hour), `${zone} ${hour}: ${drawn.join(' ')}`);
      assert.equal(drawn.includes('2:00am'), false);
      if (zone === 'Europe/Berlin') assert.match(await legendAt(0.999), /2026-03-29 04:00:00/);
    }
  });

  await t.test('a chart follows the colours of the page', async () => {
    const last = async (): Promise<string> => {
      let colour = '';
      await until(async () => {
        colour = (await labels(page)).at(-1)?.colour ?? '';
        return colour !== '';
      });
      return colour;
    };
    const [light, dark] = ['#5a6472', '#9aa5b4'];
    await labels(page);
    // It is dark since its accessibility was looked at.
    await page.emulateMedia({ colorScheme: 'light' });
    assert.equal(await last(), light);
    await page.emulateMedia({ colorScheme: 'dark' });
    assert.equal(await last(), dark);
    await page.getByRole('button', { name: /^Theme: system/ }).click();
    assert.equal(await last(), light);
    await page.getByRole('button', { name: /^Theme: light/ }).click();
    assert.equal(await last(), dark);
  });
});
