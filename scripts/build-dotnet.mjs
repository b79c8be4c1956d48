#!/usr/bin/env node
// Builds the compiler and the runner of tenants' code, the launcher that jails them, and the packages that projects refer to, into dist/dotnet/. Does nothing when dotnet/ is as it was at the last build.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const source = join(root, 'dotnet');
const target = join(root, 'dist', 'dotnet');
const stamp = join(target, '.fingerprint');
const PARTS = {
  launcher: 'Statefold.Launcher',
  compiler: 'Statefold.Compiler',
  runner: 'Statefold.Runner',
  analyzers: 'Statefold.Analyzers',
};
const PACKAGES = ['Statefold.Abstractions', 'Statefold.Testing'];
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const SDK =
  'Statefold needs the .NET SDK 10 (https://dotnet.microsoft.com/download/dotnet/10.0): `dotnet --list-sdks` must list a version that begins with 10.';

const fingerprint = fingerprintOf([
  join(source, 'src'),
  ...['Directory.Build.props', 'Directory.Packages.props'].map((name) => join(source, name)),
]);
if (existsSync(stamp) && readFileSync(stamp, 'utf8') === fingerprint) process.exit(0);

const listed = spawnSync('dotnet', ['--list-sdks'], { encoding: 'utf8' });
if (listed.error !== undefined || !/^10\./m.test(listed.stdout)) fail(SDK);

const started = Date.now();
// A half-finished build must not pass for one.
rmSync(stamp, { force: true });
for (const [part, project] of Object.entries(PARTS)) await publish(part, project);
await pack();
writeFileSync(stamp, fingerprint);
console.log(`built the .NET code host in ${((Date.now() - started) / 1000).toFixed(1)} s`);

async function publish(part, project) {
  const fresh = join(target, `.${part}`);
  const final = join(target, part);
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { recursive: true });
  const { status, output } = await run([
    'publish',
    join(source, 'src', project),
    '--configuration',
    'Release',
    '--output',
    fresh,
    '--nologo',
    '--verbosity',
    'quiet',
  ]);
  if (status !== 0) {
    rmSync(fresh, { recursive: true, force: true });
    process.stderr.write(output);
    fail(`Building ${project} failed.`);
  }
  rmSync(final, { recursive: true, force: true });
  renameSync(fresh, final);
}

/** What `statefold new` puts into a project; the first one brings the analyzers along. */
async function pack() {
  const folder = join(target, 'packages');
  rmSync(folder, { recursive: true, force: true });
  for (const project of PACKAGES) {
    const properties = [`-p:Version=${version}`, `-p:AnalyzersDirectory=${join(target, 'analyzers')}`];
    const { status, output } = await run([
      'pack',
      join(source, 'src', project),
      '--configuration',
      'Release',
      '--output',
      folder,
      ...properties,
      '--nologo',
      '--verbosity',
      'quiet',
    ]);
    if (status === 0) continue;
    process.stderr.write(output);
    fail(`Packing ${project} failed.`);
  }
}

function run(args) {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, DOTNET_CLI_TELEMETRY_OPTOUT: '1', DOTNET_NOLOGO: '1' };
    // No build server: what this script starts has ended when it does.
    const child = spawn('dotnet', [...args, '-nodeReuse:false', '-p:UseSharedCompilation=false'], {
      cwd: source,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const chunks = [];
    child.stdout.on('data', (chunk) => chunks.push(chunk));
    child.stderr.on('data', (chunk) => chunks.push(chunk));
    child.on('error', reject);
    child.on('close', (status) => resolve({ status, output: Buffer.concat(chunks).toString() }));
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
    if (path.endsWith('.props')) hash.update(readFileSync(path));
    else add(path);
  }
  return hash.digest('hex');
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
