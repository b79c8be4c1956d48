#!/usr/bin/env node
// Builds the compiler and the runner of tenants' code, the launcher that jails them, and the packages that projects refer to, into dist/dotnet/. Does nothing when dotnet/ is as it was at the last build.
import { spawn, spawnSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SHORT_LIVED } from './setup.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const source = join(root, 'dotnet');
const target = join(root, 'dist', 'dotnet');
const stamp = join(target, '.fingerprint');
const PARTS = ['launcher', 'compiler', 'runner', 'analyzers'];
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
/** Where there is a precompiler whose names these scripts know. */
const CAN_PRECOMPILE = process.platform === 'linux' && ['x64', 'arm64'].includes(process.arch);
const SDK =
  'Statefold needs the .NET SDK 10 (https://dotnet.microsoft.com/download/dotnet/10.0): `dotnet --list-sdks` must list a version that begins with 10.';

const fingerprint = fingerprintOf([
  join(source, 'src'),
  ...['Directory.Build.props', 'Directory.Build.targets', 'Directory.Packages.props', 'hosts.proj'].map((name) =>
    join(source, name),
  ),
]);
if (existsSync(stamp) && readFileSync(stamp, 'utf8') === fingerprint) process.exit(0);

const listed = spawnSync('dotnet', ['--list-sdks'], { encoding: 'utf8' });
if (listed.error !== undefined || !/^10\./m.test(listed.stdout)) fail(SDK);

const started = Date.now();
// A half-finished build must not pass for one.
rmSync(stamp, { force: true });
await build();
writeFileSync(stamp, fingerprint);
console.log(`built the .NET code host in ${((Date.now() - started) / 1000).toFixed(1)} s`);

/** Beside what is there, which is replaced only by a whole build. */
async function build() {
  const fresh = join(target, '.fresh');
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { recursive: true });
  // One compiler for all projects, under a name of its own: this build may end it. One that a killed build leaves ends by itself.
  const compiler = `statefold-${randomUUID()}`;
  const hosts = (precompile) =>
    run([
      ...['msbuild', 'hosts.proj', '-restore', '-nologo', '-verbosity:quiet', '-nodeReuse:false'],
      ...[`-p:PublishRoot=${fresh}/`, `-p:PackageVersion=${version}`, `-p:SharedCompilationId=${compiler}`],
      `-p:Precompile=${precompile}`,
    ]);
  let { status, output } = await hosts(CAN_PRECOMPILE);
  // Its package is all that is downloaded, and all goes without it.
  if (status !== 0 && CAN_PRECOMPILE && /\berror NU\d{4}\b/.test(output)) {
    console.error(
      `The C# hosts are built without machine code, so that a compiler takes 0.2 s longer to start: ${/\berror (NU\d{4}: .*?)(?: \[|$)/m.exec(output)?.[1]}`,
    );
    ({ status, output } = await hosts(false));
  }
  if (status !== 0) {
    rmSync(fresh, { recursive: true, force: true });
    process.stderr.write(output);
    fail('Building the C# hosts failed.');
  }
  for (const part of [...PARTS, 'packages']) {
    rmSync(join(target, part), { recursive: true, force: true });
    renameSync(join(fresh, part), join(target, part));
  }
  rmSync(fresh, { recursive: true, force: true });
}

function run(args) {
  return new Promise((resolve, reject) => {
    const quick = { DOTNET_CLI_TELEMETRY_OPTOUT: '1', DOTNET_NOLOGO: '1', ...SHORT_LIVED };
    // A package that can't be had is done without: not after minutes of trying.
    const patience = {
      NUGET_ENHANCED_MAX_NETWORK_TRY_COUNT: '2',
      NUGET_ENHANCED_NETWORK_RETRY_DELAY_MILLISECONDS: '200',
    };
    const child = spawn('dotnet', args, {
      cwd: source,
      env: { ...patience, ...process.env, ...quick, UseSharedCompilation: 'true' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const chunks = [];
    child.stdout.on('data', (chunk) => chunks.push(chunk));
    child.stderr.on('data', (chunk) => chunks.push(chunk));
    child.on('error', reject);
    child.on('exit', (status) => resolve({ status, output: Buffer.concat(chunks).toString() }));
  });
}

function fingerprintOf(paths) {
  const hash = createHash('sha256')
    .update(readFileSync(fileURLToPath(import.meta.url)))
    .update(version);
  const add = (path) => {
    const entries = readdirSync(path, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const entry of entries) {
      const inner = join(path, entry.name);
      if (entry.isDirectory()) add(inner);
      else hash.update(inner.slice(root.length)).update('\0').update(readFileSync(inner)).update('\0');
    }
  };
  for (const path of paths) {
    if (/\.(props|targets|proj)$/.test(path)) hash.update(readFileSync(path));
    else add(path);
  }
  return hash.digest('hex');
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
