import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { STORE_FORMAT } from '../../src/store/local-store.js';
import { FAULTY_SERVICE, ROOT, programOf } from './service.js';

/** A build of this tree as a later version would be: its local store and its snapshots are of the next format. Gives its program. */
export function newerBuild(t: Pick<TestContext, 'after'>): string {
  const shipped = programOf(FAULTY_SERVICE);
  const built = shipped === FAULTY_SERVICE ? join(ROOT, 'dist', 'program') : dirname(shipped);
  // Beside the other one, so that it finds the same packages.
  const folder = mkdtempSync(`${built}-newer-`);
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(built, folder, { recursive: true });
  let raised = 0;
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.js'))) {
    const text = readFileSync(join(folder, name), 'utf8');
    const newer = text.replace(`STORE_FORMAT = ${STORE_FORMAT};`, `STORE_FORMAT = ${STORE_FORMAT + 1};`);
    if (newer !== text) raised++;
    writeFileSync(join(folder, name), newer);
  }
  assert.ok(raised > 0, 'the format is raised');
  return join(folder, basename(FAULTY_SERVICE));
}
