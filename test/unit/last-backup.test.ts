import assert from 'node:assert/strict';
import { chownSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { lastBackupOf, noteBackup } from '../../src/app/last-backup.js';
import { temporaryDirectory } from '../support/service.js';

const at = (milliseconds: number): string => new Date(milliseconds).toISOString();

test('the last backup is the one that was taken last, whichever was through first', async (t) => {
  const directory = temporaryDirectory(t);
  const [now, hour] = [Date.now(), 3_600_000];
  assert.equal(lastBackupOf(directory), undefined);
  await noteBackup(directory, at(now - hour));
  await noteBackup(directory, at(now - 2 * hour));
  assert.equal(lastBackupOf(directory), now - hour);
  await noteBackup(directory, at(now));
  assert.equal(lastBackupOf(directory), now);
  assert.equal(readFileSync(join(directory, 'last-backup'), 'utf8'), `${at(now)}\n`);
});

test('a time that has not come yet, or is none, gives way to the next backup', async (t) => {
  const directory = temporaryDirectory(t);
  const now = Date.now();
  for (const noted of [at(now + 24 * 3_600_000), 'yesterday', '']) {
    writeFileSync(join(directory, 'last-backup'), noted);
    await noteBackup(directory, at(now));
    assert.equal(lastBackupOf(directory), now, noted);
  }
  writeFileSync(join(directory, 'last-backup'), 'yesterday');
  assert.equal(lastBackupOf(directory), undefined);
});

test('what root notes is for the owner of the data directory to read', async (t) => {
  if (process.getuid?.() !== 0) return void t.skip('needs root, to give a folder to another user');
  const directory = temporaryDirectory(t);
  chownSync(directory, 10001, 10002);
  await noteBackup(directory, at(Date.now()));
  const { uid, gid, mode } = statSync(join(directory, 'last-backup'));
  assert.deepEqual([uid, gid, mode & 0o777], [10001, 10002, 0o600]);
});
