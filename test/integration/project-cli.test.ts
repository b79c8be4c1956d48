// A project of one's own, through the command line as a process: new, build, test.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { type CliOutcome, spawnStatefold, statefold } from '../support/cli.js';
import { childrenOf, commandLineOf } from '../support/load-world.js';
import { temporaryDirectory, until } from '../support/service.js';

function edit(path: string, from: string, to: string): void {
  const text = readFileSync(path, 'utf8');
  assert.ok(text.includes(from), `${path} has '${from}'`);
  writeFileSync(path, text.replace(from, to));
}

const DOTNET = {
  ...process.env,
  DOTNET_CLI_TELEMETRY_OPTOUT: '1',
  DOTNET_NOLOGO: '1',
  // The tools end after seconds: profiles for a later recompilation would cost a sixth of the build.
  DOTNET_TieredPGO: '0',
};

async function dotnetTest(t: TestContext, cwd: string): Promise<{ code: number | null; out: string }> {
  const child = spawn('dotnet', ['test', '--nologo', '-nodeReuse:false', '-p:UseSharedCompilation=false'], {
    cwd,
    env: DOTNET,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  const [out, err, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { code, out: out + err };
}

test('a project is made, builds without a network, and its fixtures run without a service', async (t) => {
  const cwd = temporaryDirectory(t);
  const folder = join(cwd, 'my-shop');
  const run = (...args: string[]): Promise<CliOutcome> => statefold({}, cwd, ...args);
  // A wrong setting is of no matter to it.
  const made = await statefold({ STATEFOLD_API_KEY: 'short' }, cwd, 'new', 'my-shop');
  assert.equal(made.code, 0, made.err);
  assert.match(made.out, /^my-shop\/MyShop\.csproj$[\s\S]*^my-shop\/OrderReducer\.cs$[\s\S]*statefold test my-shop/m);
  const again = await run('new', 'my-shop');
  assert.deepEqual([again.code, again.out], [1, '']);
  assert.match(again.err, /my-shop is not empty/);

  await t.test('it builds, with no source of packages but its own folder', async () => {
    const env = { ...DOTNET, http_proxy: 'http://127.0.0.1:1', https_proxy: 'http://127.0.0.1:1' };
    const { stdout } = await promisify(execFile)(
      'dotnet',
      ['build', 'MyShop.csproj', '--nologo', '-nodeReuse:false', '-p:UseSharedCompilation=false', '-warnaserror'],
      { cwd: folder, env },
    );
    assert.match(stdout, /MyShop\.dll/);
  });

  await t.test('it names what it needs by exact version, and packages of Statefold come from its own folder', () => {
    const references = ['MyShop.csproj', 'tests/MyShop.Tests.csproj'].flatMap((path) => [
      ...readFileSync(join(folder, path), 'utf8').matchAll(/<PackageReference Include="([^"]+)" Version="([^"]+)"/g),
    ]);
    assert.equal(references.length, 5);
    for (const [, name, version = ''] of references) assert.match(version, /^\[\d+\.\d+\.\d+\]$/, name);
    assert.match(
      readFileSync(join(folder, 'nuget.config'), 'utf8'),
      /<packageSource key="statefold">\s*<package pattern="Statefold\.\*" \/>/,
    );
  });

  await t.test('`dotnet test` runs its fixtures, each a test of its own, and tells what differs', async (testing) => {
    const passed = await dotnetTest(testing, folder);
    assert.deepEqual([passed.code, /Passed: +3,/.test(passed.out)], [0, true], passed.out);
    edit(join(folder, 'fixtures', 'order.json'), '"total": 1600', '"total": 1601');
    const failed = await dotnetTest(testing, folder);
    edit(join(folder, 'fixtures', 'order.json'), '"total": 1601', '"total": 1600');
    assert.equal(failed.code, 1, failed.out);
    assert.match(
      failed.out,
      /Failed MyShop\.Tests\.FixtureTests\.Holds\(fixture: "order\.json: an order adds up its lines"\)[\s\S]*"total": 1601[\s\S]*and it is[\s\S]*"total": 1600/,
    );
  });

  await t.test('what the service would refuse is an error of the build', async () => {
    edit(join(folder, 'Customers.cs'), 'e.Timestamp)', 'DateTimeOffset.UtcNow)');
    const refused = await promisify(execFile)(
      'dotnet',
      ['build', 'MyShop.csproj', '--nologo', '-nodeReuse:false', '-p:UseSharedCompilation=false'],
      { cwd: folder, env: DOTNET },
    ).then(
      () => '',
      (error: { stdout: string }) => error.stdout,
    );
    edit(join(folder, 'Customers.cs'), 'DateTimeOffset.UtcNow)', 'e.Timestamp)');
    assert.match(refused, /Customers\.cs\(8,142\): error SF1001: 'DateTimeOffset\.UtcNow' reads the clock/);
  });

  await t.test('its fixtures pass', async () => {
    const { code, out, err } = await run('test', 'my-shop');
    assert.equal(code, 0, out + err);
    assert.match(
      out,
      /fixtures\/customers\.json\n {2}✔ .*\nfixtures\/order\.json\n {2}✔ an order adds up its lines \(.* ms\)\n {2}✔ .*\n\n3 passed\n$/,
    );
  });

  await t.test('one that fails shows the difference, and where the code stopped', async () => {
    edit(join(folder, 'OrderReducer.cs'), 'line.Quantity * line.Price', 'line.Price');
    edit(join(folder, 'fixtures', 'order.json'), 'A line on an order that is Paid', 'something else');
    const { code, out } = await run('test', 'my-shop', '--only', 'order.json');
    assert.equal(code, 1);
    assert.match(
      out,
      /✖ an order adds up its lines.*\n {6}order-1: - expected \+ actual\n[\s\S]*\n {6}- {3}"total": 1600\n {6}\+ {3}"total": 1250\n/,
    );
    assert.match(
      out,
      /stopped at version 3, but not with "something else":\n {6}OrderReducer\.cs\(3\d\): error in MyShop\.OrderReducer: InvalidOperationException: A line on an order that is Paid\.\n {9}3\d \| /,
    );
    assert.match(out, /\n2 failed\n$/);
  });

  await t.test('what does not compile, or can not be replayed, is shown as a compiler does', async () => {
    edit(join(folder, 'Customers.cs'), 'e.Timestamp)', 'DateTimeOffset.UtcNow)');
    const clock = await run('test', 'my-shop');
    assert.equal(clock.code, 2);
    assert.match(
      clock.out,
      /^Customers\.cs\(8,142\): error SF1001: 'DateTimeOffset\.UtcNow' reads the clock.*\n {4}8 \| {5}public Customer\? Apply.*\n {6}\| +\^\n1 error\n$/,
    );
    edit(join(folder, 'Customers.cs'), 'DateTimeOffset.UtcNow)', 'now)');
    const broken = await run('test', 'my-shop');
    assert.deepEqual(
      [broken.code, /error CS0103: The name 'now' does not exist/.test(broken.out)],
      [2, true],
      broken.out,
    );
  });

  await t.test('a project of one kind has only that', async () => {
    const one = await run('new', 'only', '--kind', 'projection');
    assert.equal(one.code, 0, one.err);
    assert.doesNotMatch(one.out, /OrderReducer/);
    assert.doesNotMatch(readFileSync(join(cwd, 'only', 'README.md'), 'utf8'), /OrderReducer|<!--/);
  });

  await t.test('--watch runs them again after a change, until it is interrupted', async (watching) => {
    const child = spawnStatefold({}, cwd, 'test', 'only', '--watch');
    watching.after(() => child.kill('SIGKILL'));
    let out = '';
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    await until(() => out.includes('1 passed'), 120_000);
    edit(join(cwd, 'only', 'Customers.cs'), '?? 0) + 1', '?? 0) + 2');
    await until(() => out.includes('1 failed'), 120_000);
    const ended = once(child, 'close');
    child.kill('SIGINT');
    assert.deepEqual(await ended, [0, null]);
  });

  await t.test('interrupted in the middle it leaves nothing behind', async (interrupted) => {
    const passing = temporaryDirectory(interrupted);
    const child = spawnStatefold({ TMPDIR: passing, COMPILATIONS_DIR: '' }, cwd, 'test', 'only');
    interrupted.after(() => child.kill('SIGKILL'));
    const ended = once(child, 'close');
    await until(() => childrenOf(child.pid ?? 0).some((pid) => commandLineOf(pid).includes('Statefold.Compiler')));
    child.kill('SIGINT');
    assert.deepEqual(await ended, [null, 'SIGINT']);
    await until(() => readdirSync(passing).length === 0);
  });

  await t.test('what can be put right is said in a sentence', async () => {
    const cases: [args: string[], expected: RegExp][] = [
      [['test', 'nowhere'], /^There is no folder .*nowhere/],
      [['test', 'only', '--only', 'nothing of the kind'], /^No fixture's name or file has/],
      [['new', 'x', '--kind', 'both-of-them'], /^--kind is reducer or projection/],
      [['deploy', 'only', '--yes'], /^Set STATEFOLD_API_KEY/],
    ];
    for (const [args, expected] of cases) {
      const { code, err } = await run(...args);
      assert.equal(code, 1);
      assert.match(err, expected);
      assert.doesNotMatch(err, /\n {4}at /, 'no stack');
    }
  });
});
