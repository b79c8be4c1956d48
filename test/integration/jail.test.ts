// Where there is no jail, no code runs, and all else does; where it can't be had in full, it is said why.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, describe, it } from 'node:test';
import { ForkServer } from '../../src/jail/fork-server.js';
import { describeJail, type Jail } from '../../src/jail/jail.js';
import { JailUsers } from '../../src/jail/jail-users.js';
import { jailOf, launchOfEngine } from '../../src/jail/launch.js';
import { tally } from '../support/csharp.js';
import { commandLineOf } from '../support/load-world.js';
import { AS_ADMIN, ROOT, type Service, startService, temporaryDirectory, until } from '../support/service.js';

const PATH = process.env['PATH'] ?? '';
const DOTNET =
  PATH.split(delimiter)
    .map((folder) => join(folder, 'dotnet'))
    .find(existsSync) ?? 'dotnet';
const MIB = 1024 * 1024;
const cleanups: (() => unknown)[] = [];
const context = { after: (cleanup: () => unknown): void => void cleanups.push(cleanup) } as Parameters<
  typeof temporaryDirectory
>[0];

/** A `dotnet` that is the real one, but answers the check of the jail as another machine would. */
function machine(check: string): string {
  const folder = temporaryDirectory(context);
  const path = join(folder, 'dotnet');
  writeFileSync(path, `#!/bin/sh\nif [ "$2" = check ]; then\n${check}\nfi\nexec ${DOTNET} "$@"\n`);
  chmodSync(path, 0o755);
  return folder;
}

const NO_LANDLOCK = 'echo "jail: this kernel has no landlock" >&2; exit 70';
const SENTENCE =
  /^No uploaded code is run here, because it could not be jailed \(this kernel has no landlock\): use Linux 5\.13 or newer with landlock on, or start the service with --unsafe-no-sandbox \(UNSAFE_NO_SANDBOX=true\) if you trust everyone who can upload\.$/m;

const detected = (folder: string): Jail =>
  jailOf({ dotnet: 'dotnet', searchPath: `${folder}${delimiter}${PATH}`, assembliesDir: join(ROOT, 'dist', 'dotnet') });

async function upload(service: Service): Promise<{ status: string; compilationError?: string }> {
  const { reducerId } = (await service.upload('reducers', { 'Tally.cs': tally('tally') })).json<{
    reducerId: string;
  }>();
  let record = { status: '' };
  await until(async () => {
    record = (await service.get(`/reducers/${reducerId}/status`)).json();
    return record.status === 'failed' || record.status === 'compiled';
  }, 60_000);
  return record;
}

const append = async (service: Service): Promise<{ state?: { count: number }; stateStatus?: string }> => {
  const answer = await service.post('/events', { aggregateId: 'tally-1', eventType: 'A', data: {} });
  assert.equal(answer.status, 201, answer.text);
  return answer.json();
};

after(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
});

describe('without a jail', () => {
  it('a service serves what needs no code, and refuses the rest with one sentence', async () => {
    const env = { PATH: `${machine(NO_LANDLOCK)}${delimiter}${PATH}`, FOLD_DEADLINE_MS: '60000' };
    const dataDirectory = temporaryDirectory(context);
    const trusting = await startService(context, { dataDirectory, env, args: ['--unsafe-no-sandbox'] });
    assert.match(trusting.output, /^Uploaded code is NOT jailed/m);
    assert.equal((await upload(trusting)).status, 'compiled');
    assert.deepEqual((await append(trusting)).state?.count, 1);
    await trusting.stop();

    const service = await startService(context, { dataDirectory, env });
    assert.match(service.output, SENTENCE);
    const { state, stateStatus } = await append(service);
    assert.equal(state, undefined);
    assert.equal(typeof stateStatus, 'string');
    assert.equal((await service.get('/events/tally-1')).json<{ events: object[] }>().events.length, 2);
    const { status, compilationError } = await upload(service);
    assert.equal(status, 'failed');
    assert.match(compilationError ?? '', /^error SF0007: No uploaded code is run here/);
    const read = await service.get('/aggregate-types/tally/tally-1/state');
    assert.deepEqual([read.status, read.json<{ code: string }>().code], [503, 'UNAVAILABLE']);
    assert.match(read.json<{ detail: string }>().detail, SENTENCE);
    const ready = await service.get('/health/ready', { key: null });
    assert.equal(ready.status, 200);
    assert.match(ready.text, /codeHost/);
    const metrics = await service.get('/metrics', AS_ADMIN);
    assert.match(metrics.text, /^statefold_code_host_landlock_version 0$/m);
    await service.stop();
  });

  it('what the launcher says of the machine is the reason', () => {
    assert.deepEqual(detected(machine(NO_LANDLOCK)), { kind: 'refused', reason: 'this kernel has no landlock' });
    assert.deepEqual(detected(machine('kill -9 $$')), { kind: 'refused', reason: 'the launcher ended with SIGKILL' });
    assert.deepEqual(detected(machine('echo landlock 7; exit 1')), {
      kind: 'refused',
      reason: 'the launcher ended with 1',
    });
  });
});

describe('users of jailed processes', () => {
  const map = (...ranges: string[]): string => `${ranges.join('\n')}\n`;

  it('are of a range that nobody has, moved to where a container has any', () => {
    assert.equal(JailUsers.open(1_900_000_000, map('         0          0 4294967295'))?.first, 1_900_000_000);
    assert.equal(JailUsers.open(1_900_000_000, map('0 100000 65536'))?.first, 57_344);
    assert.equal(JailUsers.open(1_900_000_000, map('0 1000 1', '1 100000 65536'))?.first, 57_345);
    assert.equal(JailUsers.open(1_900_000_000, map('0 1000 1')), undefined);
  });

  it('are one a process', () => {
    const users = JailUsers.open(1_900_000_000, map('0 0 4294967295')) as JailUsers;
    const taken = new Set(Array.from({ length: 4096 }, () => users.take()));
    assert.equal(taken.size, 4096);
    assert.ok([...taken].every((user) => user >= 1_900_000_000 && user < 1_900_004_096));
    users.release(1_900_000_007);
    assert.equal(users.take(), 1_900_000_007);
  });

  it(
    'stay the service’s own where another one can’t read what it needs, which is said',
    { skip: process.geteuid?.() === 0 ? false : 'needs root' },
    () => {
      const jail = detected(
        machine('if [ "$3" != - ]; then echo "jail: no such folder" >&2; exit 72; fi; echo landlock 3; exit 0'),
      );
      assert.equal(jail.kind, 'jailed');
      assert.match(
        describeJail(jail),
        /^Uploaded code is jailed \(landlock 3, seccomp\), as this user, because another user can't start it here \(no such folder\)/,
      );
    },
  );
});

const SCHED_IDLE = 5;

const launchOfSleep = (): ReturnType<typeof launchOfEngine> => {
  const jail = {
    ...{ folder: temporaryDirectory(context), fileBytes: MIB, readable: [] },
    ...{ dataBytes: 512 * MIB, addressBytes: 16 * 1024 * MIB, threads: 512 },
  };
  const options = { dotnet: DOTNET, searchPath: PATH, assembliesDir: join(ROOT, 'dist', 'dotnet') };
  return launchOfEngine(options, jail, '/bin/sleep', ['1000']);
};

/** Fields of `/proc/<pid>/stat`, counted as its manual counts them. */
function statOf(pid: number | 'self'): { group: number; session: number; policy: number } {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const behindName = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const field = (number: number): number => Number(behindName[number - 3]);
  return { group: field(5), session: field(6), policy: field(41) };
}

describe('a jailed process', () => {
  it('has a group of its own in the session of the service, and a statement no processor that somebody else wants', async (t) => {
    if (detected(PATH).kind !== 'jailed') return t.skip('this machine has no jail');
    const forks = new ForkServer();
    const forked = await forks.fork({ ...launchOfSleep(), cwd: '/', pipes: [2] });
    t.after(() => forked.kill());
    forked.pipe(2).resume();
    // Not `dotnet` any more: it has come through.
    await until(() => commandLineOf(forked.pid).startsWith('/bin/sleep'));
    const { group, session, policy } = statOf(forked.pid);
    assert.equal(group, forked.pid);
    assert.equal(session, statOf('self').session);
    if (availableParallelism() > 1) assert.equal(policy, SCHED_IDLE);
    forked.kill();
    assert.equal((await forked.closed).signal, 'SIGKILL');
    await forks.close();
  });

  it('ends with who started it, also where that was killed before the jail was there', async (t) => {
    if (detected(PATH).kind !== 'jailed') return t.skip('this machine has no jail');
    const launch = launchOfSleep();
    const program = `
      const { forkServer } = await import(${JSON.stringify(new URL('../../src/jail/fork-server.js', import.meta.url).href)});
      const { pid } = await forkServer.fork(${JSON.stringify({ ...launch, cwd: '/', pipes: [2] })});
      process.stdout.write(String(pid));
      process.kill(process.pid, 'SIGKILL');`;
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const pid = Number(stdout);
    assert.ok(pid > 0);
    context.after(() => {
      if (commandLineOf(pid) !== '') process.kill(pid, 'SIGKILL');
    });
    // It may have come through before who starts it was gone, too: then it runs for a moment.
    await until(() => commandLineOf(pid) === '');
  });
});
