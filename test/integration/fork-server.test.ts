import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import test, { type TestContext } from 'node:test';
import { ForkServer, type Fork, type Forked } from '../../src/jail/fork-server.js';
import { childrenOf, commandLineOf } from '../support/load-world.js';
import { until } from '../support/service.js';

const shell = (script: string, pipes: readonly number[] = []): Fork => ({
  command: '/bin/sh',
  args: ['-c', script],
  cwd: '/',
  env: { PATH: '/usr/bin:/bin' },
  pipes,
});
const lives = (pid: number): boolean => commandLineOf(pid) !== '';

function folderOf(t: Pick<TestContext, 'after'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'statefold-forks-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function withTmpdir(folder: string, work: () => Promise<void>): Promise<void> {
  const before = process.env['TMPDIR'];
  process.env['TMPDIR'] = folder;
  try {
    await work();
  } finally {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  }
}

async function textOf(forked: Forked, descriptor: number): Promise<string> {
  let text = '';
  forked.pipes
    .get(descriptor)
    ?.on('data', (chunk: Buffer) => (text += chunk.toString()))
    .resume();
  await forked.closed;
  return text;
}

test('a process is started by way of a small one', async (t) => {
  const forks = new ForkServer();

  await t.test('its pipes lead here, and it reads them as it would a file', async () => {
    const forked = await forks.fork(shell('cat <&4 >&3; echo told >&2; exit 3', [2, 3, 4]));
    assert.ok(childrenOf(process.pid).includes(forked.pid));
    const [copied, told] = [textOf(forked, 3), textOf(forked, 2)];
    // Before, between and behind what the program waits for.
    const bytes = 'x'.repeat(300_000);
    forked.pipes.get(4)?.resume().write(bytes);
    await until(() => forked.pipes.get(4)?.writableLength === 0);
    forked.pipes.get(4)?.end('end');
    assert.deepEqual(await forked.exited, { code: 3, signal: null });
    assert.equal(await copied, `${bytes}end`);
    assert.equal(await told, 'told\n');
  });

  await t.test('it has the environment that is given, and of connections its own', async () => {
    const forked = await forks.fork({
      ...shell('env; echo; ls -l /proc/self/fd', [1, 5]),
      env: { ONE: '1', PATH: '/usr/bin:/bin' },
    });
    forked.pipes.get(5)?.resume();
    const [environment = '', descriptors = ''] = (await textOf(forked, 1)).split('\n\n');
    const names = environment.split('\n').map((line) => line.split('=')[0]);
    assert.deepEqual(names.filter((name) => name !== 'PWD' && name !== '_').sort(), ['ONE', 'PATH']);
    assert.deepEqual(
      [...descriptors.matchAll(/(\d+) -> socket:/g)].map(([, descriptor]) => descriptor),
      ['1', '5'],
    );
  });

  await t.test('what gives way does so from when it is there', async () => {
    const forked = await forks.fork({ ...shell('read line <&3; nice', [1, 3]), niceness: 7 });
    forked.pipes.get(3)?.resume().write('\n');
    assert.equal(await textOf(forked, 1), '7\n');
  });

  await t.test('what can not be started says why', async () => {
    await assert.rejects(forks.fork({ ...shell(''), command: '/no/such/program' }), /ENOENT/);
    await assert.rejects(forks.fork({ ...shell('', [1]), cwd: '/no/such/folder' }), /ENOENT/);
  });

  await t.test('it is ended with all that it has started', async () => {
    const forked = await forks.fork(shell('sleep 1000 & echo $!; wait', [1]));
    const [line] = (await once(createInterface({ input: forked.pipes.get(1) as NodeJS.ReadableStream }), 'line')) as [
      string,
    ];
    // In the middle of its exec it has no command line.
    await until(() => lives(Number(line)));
    forked.kill();
    assert.deepEqual(await forked.closed, { code: null, signal: 'SIGKILL' });
    await until(() => !lives(Number(line)));
  });

  await t.test('what is to make a group of its own is ended before it has, and a terminal ends no one', async () => {
    const forked = await forks.fork({ ...shell('sleep 1000'), isGrouped: true });
    const [starter = 0] = childrenOf(process.pid).filter((pid) => commandLineOf(pid).includes('fork-server-process'));
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.kill(starter, signal);
    assert.equal((await (await forks.fork(shell('exit 7'))).exited).code, 7);
    forked.kill();
    assert.deepEqual(await forked.exited, { code: null, signal: 'SIGKILL' });
  });

  await t.test('many at once', async () => {
    const codes = Array.from({ length: 40 }, (_, i) => i);
    const told = codes.map(async (code) => {
      const forked = await forks.fork(shell(`echo ${code}; exit ${code}`, [1]));
      return [await textOf(forked, 1), (await forked.exited).code] as const;
    });
    assert.deepEqual(
      await Promise.all(told),
      codes.map((code) => [`${code}\n`, code]),
    );
  });

  await t.test('a folder that somebody has cleaned up is made anew, and what runs goes on', async () => {
    const folder = folderOf(t);
    await withTmpdir(folder, async () => {
      const own = new ForkServer();
      const running = await own.fork(shell('read line <&3; exit 4', [3]));
      for (const one of readdirSync(folder)) rmSync(join(folder, one), { recursive: true });
      const codes = [1, 2, 3].map(async (code) => (await (await own.fork(shell(`exit ${code}`, [1]))).exited).code);
      assert.deepEqual(await Promise.all(codes), [1, 2, 3]);
      running.pipes.get(3)?.resume().write('\n');
      assert.equal((await running.exited).code, 4);
    });
  });

  await t.test(
    'where the system has no folder for what is passing the socket is at home; with none nothing is left behind',
    async () => {
      const own = new ForkServer();
      const home = folderOf(t);
      const before = childrenOf(process.pid).length;
      await withTmpdir('/no/such/folder', async () => {
        for (let i = 0; i < 3; i++)
          await assert.rejects(own.fork(shell('exit 1', [1])), /no place for a socket: .*ENOENT/);
        await until(() => childrenOf(process.pid).length === before);
        own.home = home;
        const forked = await own.fork(shell('exit 6', [1]));
        assert.equal(readdirSync(home).length, 1);
        assert.equal((await forked.exited).code, 6);
      });
    },
  );

  await t.test('where the small one is ended, so are those of it, and the next start has another', async () => {
    const forked = await forks.fork(shell('sleep 1000', [1]));
    for (const pid of childrenOf(process.pid))
      if (commandLineOf(pid).includes('fork-server-process')) process.kill(pid, 'SIGKILL');
    // A start that is asked for meanwhile is one of the next.
    const next = forks.fork(shell('exit 5'));
    assert.deepEqual(await forked.exited, { code: null, signal: 'SIGKILL', isLost: true });
    await until(() => !lives(forked.pid));
    assert.equal((await (await next).exited).code, 5);
  });
});

test('what starts others is ended when nothing of it runs', async () => {
  const forks = new ForkServer();
  await forks.close();
  const forked = await forks.fork(shell('read line <&3', [3]));
  const [server] = childrenOf(process.pid).filter((pid) => childrenOf(pid).includes(forked.pid));
  assert.ok(server !== undefined);
  await forks.close();
  assert.ok(lives(server) && lives(forked.pid));
  forked.kill();
  await forked.exited;
  await forks.close();
  assert.equal(lives(server), false);
  assert.equal((await (await forks.fork(shell('exit 2'))).exited).code, 2);
});

test('who is killed leaves neither the small process nor its folder', async (t) => {
  const folder = folderOf(t);
  const program = `
    const { forkServer } = await import(${JSON.stringify(new URL('../../src/jail/fork-server.js', import.meta.url).href)});
    const { pid } = await forkServer.fork({ command: '/bin/sh', args: ['-c', 'read line <&3'], cwd: '/', env: {}, pipes: [3] });
    console.log(pid);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const started = childrenOf(child.pid as number);
  assert.ok(started.includes(Number(line)) && started.length === 2, `${line} among ${started.join(' ')}`);
  assert.equal(readdirSync(folder).length, 1);
  // It has no end but for what it has started.
  assert.equal(child.exitCode, null);
  child.kill('SIGKILL');
  await until(() => !started.some(lives) && readdirSync(folder).length === 0);
  assert.ok(existsSync(folder));
});
