import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readdirSync, statSync, truncateSync } from 'node:fs';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, it } from 'node:test';
import { StatefoldError } from '../../src/core/errors.js';
import { silentLogger } from '../../src/core/logger.js';
import { openStore, rowsOf, startEngine, temporaryDirectory, until } from './read-store-fixture.js';

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describe("the embedded engine's process", () => {
  it('never outlives a parent that was killed', async (context) => {
    const code = `
      import { EmbeddedEngine } from ${JSON.stringify(new URL('../../src/read-store/embedded/embedded-engine.js', import.meta.url).href)};
      const logger = { debug() {}, info() {}, warn() {}, error() {} };
      const engine = new EmbeddedEngine({ directory: ${JSON.stringify(temporaryDirectory(context))}, port: 0, password: undefined, memoryLimitBytes: 1e9, logger });
      engine.start();
      await engine.ready(60_000);
      console.log(engine.pid);`;
    const parent = spawn(process.execPath, ['--input-type=module', '-e', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    context.after(() => void parent.kill('SIGKILL'));
    const pid = await new Promise<number>((resolve) =>
      createInterface({ input: parent.stdout }).once('line', (line) => resolve(Number(line))),
    );
    assert.ok(isAlive(pid));
    parent.kill('SIGKILL');
    await until('the engine has ended', () => !isAlive(pid), 10_000);
  });

  it('comes back at the same address with the same password after a crash, and its end is awaited', async (context) => {
    const directory = temporaryDirectory(context);
    const states: string[] = [];
    const engine = startEngine(context, { directory, onState: (state) => void states.push(state) });
    assert.ok(engine.isStarting);
    await engine.ready(60_000);
    assert.ok(!engine.isStarting);
    const { pid } = engine;
    const endpoint = engine.endpoint();
    assert.ok(pid !== undefined && endpoint !== undefined);
    assert.equal(statSync(join(directory, 'password')).mode & 0o777, 0o600);
    process.kill(pid, 'SIGKILL');
    await until('the crash is seen', () => states.includes('BACKOFF'));
    assert.equal(engine.endpoint(), undefined);
    await until('it is started again', () => engine.state === 'STARTING');
    assert.ok(!engine.isStarting, 'it has failed before');
    await engine.ready(60_000);
    assert.deepEqual(engine.endpoint(), endpoint);
    assert.deepEqual(states, ['STARTING', 'READY', 'BACKOFF', 'STARTING', 'READY']);
    const second = engine.pid;
    await engine.stop();
    assert.ok(second !== undefined && !isAlive(second));
    await assert.rejects(engine.ready(50), (error) => error instanceof StatefoldError && error.code === 'UNAVAILABLE');
  });

  it('starts without a definition that a full disk took, and keeps its password', async (context) => {
    const directory = temporaryDirectory(context);
    const before = startEngine(context, { directory });
    await before.ready(60_000);
    await openStore(context, before).ensureSchema();
    const password = before.endpoint()?.password;
    await before.stop();
    const [events = assert.fail('there is no definition')] = readdirSync(directory, {
      recursive: true,
      encoding: 'utf8',
    }).filter((path) => basename(path) === 'events.sql');
    truncateSync(join(directory, events));
    const warnings: string[] = [];
    const logger = { ...silentLogger, warn: (_: object, message: string) => void warnings.push(message) };
    const after = startEngine(context, { directory, logger });
    await after.ready(60_000);
    assert.equal(after.endpoint()?.password, password);
    assert.ok(warnings.some((warning) => /it is filled from the log/.test(warning)));
    const store = openStore(context, after);
    await store.ensureSchema();
    assert.deepEqual(await rowsOf(store, 'SELECT count() AS n FROM events'), [{ n: 0 }]);
  });
});
