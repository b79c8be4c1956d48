// Invariants 1 to 3: the disk fails as lmdb writes what its whole file hangs on, and lmdb gives the file up. Nothing that the process
// could do helps: it ends itself, says why, and the next one serves what was acknowledged.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT, startService, temporaryDirectory, until } from '../support/service.js';

const EVENT = { aggregateId: 'account-1', eventType: 'Opened', data: {} };

for (const [file, why] of [
  ['store', 'the local store can not be written any more by this process; the process ends'],
  ['log', 'the log can not be written any more by this process; the process ends'],
] as const)
  test(`2: a process whose ${file} fails for good ends itself, and the next one goes on`, async (t) => {
    const folder = temporaryDirectory(t);
    const shim = join(folder, 'failing-writes.so');
    const source = join(ROOT, 'test', 'support', 'failing-writes.c');
    if (process.platform !== 'linux' || spawnSync('cc', ['-shared', '-fPIC', '-o', shim, source, '-ldl']).status !== 0)
      return t.skip('needs a C compiler on Linux');
    const failing = join(folder, 'failing');
    const env = { LD_PRELOAD: shim, FAIL_WHILE: failing, FAIL_IN: `/${file}` };
    const dataDirectory = join(folder, 'data');
    const service = await startService(t, { dataDirectory, env });
    for (let version = 1; version <= 3; version++) assert.equal((await service.post('/events', EVENT)).status, 201);
    let acknowledged = 3;
    writeFileSync(failing, '');
    await until(async () => {
      const answer = await service.post('/events', EVENT).catch(() => undefined);
      if (answer?.status === 201) acknowledged++;
      return answer === undefined;
    });
    assert.equal(await service.exited(), 1, service.output);
    assert.ok(service.output.includes(why), service.output);

    rmSync(failing);
    const next = await startService(t, { dataDirectory, env });
    const { events } = (await next.get('/events/account-1')).json<{ events: { version: number }[] }>();
    assert.ok(events.length >= acknowledged, `${events.length} of ${acknowledged}`);
    assert.equal((await next.post('/events', EVENT)).json()['version'], events.length + 1);
  });
