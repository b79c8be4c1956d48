// A newcomer clones the repository and reads the README: each command as it is written, each answer as it is shown.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { freshClone, needsGit } from '../support/checkout.js';
import { freePort } from '../support/kafka.js';
import { type Page, parsePage } from '../support/page.js';
import { ROOT, temporaryDirectory } from '../support/service.js';
import { isFree, Reader } from '../support/terminal.js';

const DEFAULT_PORT = 8080;

/** Blocks that this test does not run: they are walked with the page that they belong to, or by the run that this test is part of. */
const NOT_RUN: readonly string[] = [];

async function walk(cwd: string, page: Page, env: Readonly<Record<string, string>>): Promise<void> {
  const reader = new Reader({ cwd, env });
  try {
    await reader.walk('README.md', page);
  } finally {
    assert.ok(await reader.close(), 'the service ends on SIGTERM');
  }
  assert.ok(await isFree(Number(env['PORT'] ?? DEFAULT_PORT)), 'nothing is left that listens');
}

test('the README on a fresh clone', { skip: needsGit }, async (t) => {
  const page = parsePage(readFileSync(join(ROOT, 'README.md'), 'utf8'));
  const clone = freshClone(t);

  await t.test('what is not run is little, and known', () => {
    assert.deepEqual(
      page.notRun.map(({ reason }) => reason),
      NOT_RUN,
    );
    assert.ok(page.steps.some(({ text }) => text.includes('npm start')));
  });

  await t.test('on a port and a data directory that are not the defaults', async () => {
    await walk(clone, page, {
      PORT: `${await freePort()}`,
      STATEFOLD_DATA_DIR: join(temporaryDirectory(t), 'elsewhere'),
    });
  });

  await t.test('on the defaults', async (each) => {
    if (!(await isFree(DEFAULT_PORT))) return each.skip(`port ${DEFAULT_PORT} is taken on this machine`);
    await walk(clone, page, {});
  });
});
