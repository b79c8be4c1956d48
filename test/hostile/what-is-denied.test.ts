// The jail of uploaded code: everything that it could reach outside of itself is tried, by uploaded C#, and is refused by the kernel.
import assert from 'node:assert/strict';
import { childrenOf, commandLineOf } from '../support/load-world.js';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
  chmodSync,
  readFileSync,
  statSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import test from 'node:test';
import { assertAllAttempts, assertAttempts, noJail, openWorld, type Report, runnersOf } from './escape-world.js';
import { DENIED } from './probes.js';
import { AFTER_EXEC, CALLS, NUMBERS, refusedCalls } from './system-calls.js';
import { ROOT } from '../support/service.js';

test('uploaded code is denied', { skip: noJail }, async (t) => {
  // Open to all users: what keeps the code out is the jail, not the modes of files.
  const outside = mkdtempSync(join(tmpdir(), 'statefold-outside-'));
  chmodSync(outside, 0o777);
  const file = join(outside, 'file');
  writeFileSync(file, 'as it was');
  chmodSync(file, 0o666);
  t.after(() => rmSync(outside, { recursive: true, force: true }));
  const { service, attacker } = await openWorld(t, {
    RUNNER_EVENT_DEADLINE_MS: '60000',
    RUNNER_BATCH_DEADLINE_MS: '60000',
  });
  await attacker.deploy(DENIED);
  const children = childrenOf(service.pid);
  const engine = children.find((pid) => commandLineOf(pid).includes('engine-process')) ?? service.pid;

  await t.test('but what folds need works', async () => {
    assertAttempts(await attacker.run('Fine'), {
      sha256: /^did 2D711642$/,
      'time zone': /^did 01:00:00$/,
      threads: /^did 499500$/,
      regex: /^did a2$/,
      culture: /^did 1\.5$/,
      'big numbers': /^did 1267650600228229401496703205376$/,
      expressions: /^did 7$/,
      tasks: /^did 3$/,
    });
  });

  await t.test('files and folders', async () => {
    const files = [
      '/etc/passwd',
      '/etc/hostname',
      '/etc/hosts',
      file,
      join(service.dataDirectory, 'admin-key'),
      join(service.dataDirectory, 'store', 'data.mdb'),
      join(ROOT, 'package.json'),
      join(ROOT, 'dist', 'dotnet', 'compiler', 'Statefold.Compiler.dll'),
      '/dev/tty',
      '/dev/mem',
      '/dev/kmsg',
      '/dev/zero',
      '/dev/shm/x',
      process.execPath,
    ];
    const folders = [
      '/',
      '/etc',
      '/home',
      '/root',
      '/tmp',
      '/dev',
      '/var',
      '/dev/shm',
      '/run',
      '/sys',
      outside,
      service.dataDirectory,
      join(service.dataDirectory, 'work'),
      ROOT,
      join(ROOT, 'dist'),
      join(ROOT, 'dist', 'dotnet'),
    ];
    const there = (path: string): boolean => existsSync(path);
    const outcome = await attacker.run('Read', { files: files.filter(there), folders: folders.filter(there) });
    assertAllAttempts(outcome, /^UnauthorizedAccessException$/, 15);
  });

  await t.test('other processes and the keys to itself, in /proc', async () => {
    const of = (pid: number | string, ...names: string[]): string[] => names.map((name) => `/proc/${pid}/${name}`);
    const files = [
      ...[service.pid, engine, 1].flatMap((pid) =>
        of(pid, 'environ', 'cmdline', 'maps', 'mem', 'status', 'stack', 'auxv', 'cgroup', 'task/' + pid + '/comm'),
      ),
      ...of('self', 'root/etc/passwd', 'cwd/etc/passwd'),
      ...of('thread-self', 'root/etc/passwd'),
      '/proc/version',
      '/proc/cmdline',
      '/proc/mounts',
      '/proc/kallsyms',
      '/proc/kcore',
      '/proc/sys/kernel/hostname',
      '/proc/net/tcp',
      '/proc/modules',
      '/proc/stat',
      '/proc/loadavg',
    ].filter((path) => path.includes('self') || existsSync(path));
    const outcome = await attacker.run('Read', {
      files,
      folders: [
        '/proc',
        `/proc/${service.pid}`,
        `/proc/${service.pid}/fd`,
        `/proc/${engine}/fd`,
        `/proc/${service.pid}/task`,
        '/proc/1',
        '/proc/self/root',
        '/proc/self/cwd',
        '/proc/sys',
      ],
    });
    // What leads to another place may not be there to be seen.
    assertAllAttempts(
      outcome,
      /^(UnauthorizedAccessException|FileNotFoundException|DirectoryNotFoundException|IOException)$/,
      30,
    );
  });

  await t.test('writing, anywhere', async () => {
    const outcome = await attacker.run('Write', { folder: outside, file });
    assertAllAttempts(outcome, /^(UnauthorizedAccessException|IOException|errno (1|13))$/, 18);
    assert.equal(readFileSync(file, 'utf8'), 'as it was');
    assert.equal(statSync(file).mode & 0o777, 0o666);
    assert.ok(statSync(file).mtimeMs > 0);
    assert.deepEqual(readdirSync(outside), ['file']);
    const own = await attacker.run('Write', {
      folder: join(ROOT, 'dist', 'dotnet', 'runner'),
      file: join(ROOT, 'dist', 'dotnet', 'runner', 'Statefold.Runner.dll'),
    });
    assertAllAttempts(own, /^(UnauthorizedAccessException|IOException|errno (1|13))$/, 18);
  });

  await t.test('the environment of the service, and who it is', async () => {
    const known = [
      'DOTNET_DbgEnableMiniDump',
      'DOTNET_DefaultStackSize',
      'DOTNET_EnableDiagnostics',
      'DOTNET_EnableWriteXorExecute',
      'DOTNET_GCHeapHardLimit',
      'DOTNET_SYSTEM_GLOBALIZATION_INVARIANT',
      'DOTNET_gcConcurrent',
      'DOTNET_gcServer',
      'MALLOC_ARENA_MAX',
      'TZ',
    ].join(',');
    const isRoot = process.geteuid?.() === 0;
    assertAttempts(await attacker.run('Environment'), {
      variables: new RegExp(`^did ${known}$`),
      raw: new RegExp(`^did ${known}$`),
      folder: /^did \/$/,
      user: isRoot ? /^did [1-9]\d{3,}$/ : new RegExp(`^did ${process.geteuid?.()}$`),
      // Of a user without privileges the bounding set is only what it could be given, and no_new_privs says never.
      capabilities: isRoot ? /^did 0{16}$/ : /^did 0{16}(,|$)/,
      arguments: /^did *$/,
      descriptors: /^did $/,
    });
  });

  await t.test('sockets of every family, and using the connection to the service as one', async () => {
    const outcome = await attacker.run('Sockets', { numbers: NUMBERS });
    assertAllAttempts(outcome, /^errno 1$/, 60);
  });

  await t.test('connections, out and in', async () => {
    const seen: string[] = [];
    const tcp = createServer((socket) => {
      seen.push('tcp');
      socket.destroy();
    });
    const path = join(outside, 'socket');
    const unix = createServer((socket) => {
      seen.push('unix');
      socket.destroy();
    });
    await Promise.all([
      new Promise<void>((resolve) => tcp.listen(0, '127.0.0.1', resolve)),
      new Promise<void>((resolve) => unix.listen(path, resolve)),
    ]);
    t.after(() => void [tcp.close(), unix.close()]);
    chmodSync(path, 0o777);
    const outcome = await attacker.run('Connections', { port: (tcp.address() as { port: number }).port, unix: path });
    assertAllAttempts(outcome, /^(SocketException|HttpRequestException|UnauthorizedAccessException)$/, 6);
    assert.deepEqual(seen, []);
  });

  await t.test('new programs and processes', async () => {
    const made = join(outside, 'made-by-a-shell');
    const outcome = await attacker.run('Processes', { file: made, parent: service.pid });
    assertAllAttempts(
      outcome,
      /^(Win32Exception|UnauthorizedAccessException|ArgumentException|InvalidOperationException|IOException|errno (1|22|13))$/,
      10,
    );
    assert.equal(existsSync(made), false);
    const [runner] = runnersOf(service);
    assert.ok(runner !== undefined);
    assert.deepEqual(childrenOf(runner), []);
  });

  await t.test('system calls that name others, or change what all share', async () => {
    const calls = refusedCalls(service.pid);
    const outcome = await attacker.run<Report>('Calls', { calls });
    assertAllAttempts(outcome, /^errno (1|38)$/, 90);
    const attempts = outcome.state?.attempts ?? {};
    // These must look absent, so that the C library falls back to a call that can be looked into.
    for (const name of ['clone3', 'openat2']) assert.equal(attempts[name], 'errno 38', name);
    for (const name of Object.keys(CALLS).filter((call) => !AFTER_EXEC.has(call)))
      assert.ok(name in attempts || NUMBERS[name] === -1, name);
    assertAllAttempts(
      await attacker.run('Calls', { calls: calls.filter(({ name }) => name === 'kill the parent') }),
      /^errno 1$/,
      1,
    );
    // Its own way in is closed: the descriptor went with the one exec, and its number can't be had again.
    assertAllAttempts(
      await attacker.run('Calls', {
        calls: [{ name: 'execveat', number: NUMBERS['execveat'], arguments: [200, 0, 0, 0, 0x1000] }],
      }),
      /^errno (9|14)$/,
      1,
    );
  });

  await t.test('and the service has not noticed', () => {
    assert.deepEqual(
      childrenOf(service.pid).filter((pid) => children.includes(pid)),
      children,
      'every child lives',
    );
    assert.match(service.output, /Uploaded code is jailed \(landlock \d+, seccomp\)/);
    assert.doesNotMatch(service.output, /"level":"(error|fatal)"/);
  });
});
