import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { LocalStore } from '../../src/store/local-store.js';

const modeOf = (path: string): number => statSync(path).mode & 0o777;

const OPEN: Readonly<Record<string, (path: string) => { close(): Promise<void> }>> = {
  log: (path) => new LmdbLog({ path }),
  store: (path) => new LocalStore({ path, logger: silentLogger }),
};

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'statefold-private-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

for (const [name, open] of Object.entries(OPEN))
  test(`the ${name} is its user's alone, and is mended where it was open to others`, async (t) => {
    const path = join(folder(t), name);
    for (const opened of [false, true]) {
      if (opened) {
        chmodSync(path, 0o755);
        for (const file of ['data.mdb', 'lock.mdb']) chmodSync(join(path, file), 0o644);
      }
      await open(path).close();
      assert.equal(modeOf(path), 0o700);
      for (const file of ['data.mdb', 'lock.mdb']) assert.equal(modeOf(join(path, file)), 0o600, file);
    }
  });

test('a folder that is made beforehand, with a file of another time, is closed as well', async (t) => {
  const path = join(folder(t), 'store');
  mkdirSync(path, { mode: 0o777 });
  writeFileSync(join(path, 'left.txt'), 'x', { mode: 0o666 });
  await new LocalStore({ path, logger: silentLogger }).close();
  assert.deepEqual([modeOf(path), modeOf(join(path, 'left.txt'))], [0o700, 0o600]);
});
