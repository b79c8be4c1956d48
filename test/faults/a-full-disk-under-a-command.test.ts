// What a command writes has no room on its disk: it says so, and what is there can be used.
import assert from 'node:assert/strict';
import { openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { environmentOf, SCRIPT, statefold } from '../support/cli.js';
import { fill, NO_SMALL_DISK, smallDisk } from '../support/small-disk.js';
import { startService, temporaryDirectory } from '../support/service.js';
import { Api, newTenant, success } from '../support/api.js';
import { commandEnv, exported } from '../support/transfer.js';

test('a full disk ends a command that writes with the reason', async (t) => {
  const disk = smallDisk(t, 1);
  if (disk === undefined) return t.skip(NO_SMALL_DISK);
  const elsewhere = temporaryDirectory(t);
  const service = await startService(t);
  const key = await newTenant(service, { tenantId: 'acme' });
  const api = new Api(service, key);
  const events = Array.from({ length: 200 }, () => ({ eventType: 'Noted', data: { text: 'x'.repeat(8_000) } }));
  for (const aggregateId of ['a', 'b', 'c'])
    for (let n = 0; n < events.length; n += 20)
      success(await api.post('/events/batch', { aggregateId, events: events.slice(n, n + 20) }), 201);
  const env = commandEnv(service, key);
  const lines = await exported(service, key);

  await t.test('an export, which goes on where it ended when there is room', async () => {
    const file = join(disk, 'acme.ndjson');
    const { code, err } = await statefold(env, elsewhere, 'export', file);
    assert.equal(code, 1, err);
    const [, position] = /can't be written: ENOSPC.*It ends behind position (\d+): make room/.exec(err) ?? [];
    const written = readFileSync(file, 'utf8');
    assert.ok(written.endsWith('\n'), 'no line is torn');
    const count = written.split('\n').length - 1;
    assert.ok(count > 0 && count < lines.length);
    assert.match(lines[count - 1] ?? '', new RegExp(`"position":"${position}"`));
    const digest = await statefold(env, elsewhere, 'digest', '--file', file, '--json');
    assert.equal((JSON.parse(digest.out) as { events: number }).events, count);
    const room = smallDisk(t, 32);
    assert.ok(room !== undefined);
    const moved = join(room, 'acme.ndjson');
    writeFileSync(moved, written);
    const again = await statefold(env, elsewhere, 'export', moved);
    assert.equal(again.code, 0, again.err);
    assert.deepEqual(readFileSync(moved, 'utf8').trimEnd().split('\n'), lines);
    rmSync(file);
  });

  await t.test('an export to a device that is full, or to a folder that is not there', async () => {
    for (const [file, expected] of [
      ['/dev/full', /\/dev\/full can't be written: ENOSPC/],
      [join(disk, 'none', 'acme.ndjson'), /can't be written: ENOENT/],
    ] as const) {
      const { code, err } = await statefold(env, elsewhere, 'export', file);
      assert.equal(code, 1, err);
      assert.match(err, expected);
    }
  });

  await t.test('standard output', async () => {
    for (const command of [['export', '-'], ['health'], ['types'], ['tenants', 'list']]) {
      const full = openSync('/dev/full', 'w');
      const child = spawn(process.execPath, ['--input-type=module', '-e', SCRIPT, '--', ...command], {
        cwd: elsewhere,
        env: environmentOf(env),
        stdio: ['ignore', full, 'pipe'],
      });
      const [err, [code]] = await Promise.all([
        text(child.stderr as Readable),
        once(child, 'close') as Promise<[number]>,
      ]);
      assert.equal(code, 1, command.join(' '));
      assert.match(err, /^The output can't be written: ENOSPC[^\n]*\n$/, command.join(' '));
    }
  });

  await t.test('types and a new project', async () => {
    fill(join(disk, 'balloon'));
    const types = await statefold(env, elsewhere, 'types', '--out', join(disk, 'types.ts'));
    assert.equal(types.code, 1);
    assert.match(types.err, /types\.ts cannot be written: ENOSPC/);
    const project = await statefold(env, elsewhere, 'new', join(disk, 'orders'));
    assert.equal(project.code, 1);
    assert.match(project.err, /orders can't be written: ENOSPC.*Nothing of the project was left/);
    assert.deepEqual(
      readdirSync(disk).filter((name) => name === 'orders'),
      [],
    );
    const nowhere = await statefold(env, elsewhere, 'new', '/proc/nope/orders');
    assert.equal(nowhere.code, 1);
    assert.match(nowhere.err, /\/proc\/nope\/orders can't be written: ENOENT/);
  });
});
