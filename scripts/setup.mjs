// Installs packages and builds TypeScript and C#, each only when stale. Plain Node without packages, because it also
// runs in a fresh clone: `npm start`, `npm test`, the CLI and .ci/run all begin here.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const DIST = join(ROOT, 'dist');
const FINGERPRINT = join(DIST, '.fingerprint');
const BUNDLE = join(ROOT, 'scripts', 'bundle.mjs');
const BUILD_CONSOLE = join(ROOT, 'scripts', 'build-console.mjs');
/** What runs: one folder of few files. */
export const PROGRAMS = join(DIST, 'program');
const DOTNET_HOSTS = join(DIST, 'dotnet');
/**
 * For tools of .NET that end after seconds (the time in ms is hexadecimal): to profile their own code, and to compile it a second time, takes two
 * fifths of a build.
 */
export const SHORT_LIVED = { DOTNET_TieredPGO: '0', DOTNET_TC_CallCountingDelayMs: 'FFFF' };
const SIGNALS = ['SIGINT', 'SIGTERM'];

/** A reason that the user can act on; shown as one sentence, without a stack. */
export class SetupError extends Error {}

/** @throws {SetupError} */
function checkNode() {
  const wanted = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).engines.node.replace('>=', '');
  const [major, minor] = process.versions.node.split('.').map(Number);
  const [wantedMajor, wantedMinor] = wanted.split('.').map(Number);
  if (major < wantedMajor || (major === wantedMajor && minor < wantedMinor))
    throw new SetupError(
      `Statefold needs Node.js ${wanted} or newer, and this is ${process.versions.node}: install a current one from https://nodejs.org and run this again.`,
    );
}

/** @throws {SetupError} */
function checkDotnet() {
  const answer = spawnSync('dotnet', ['--list-sdks'], { encoding: 'utf8', cwd: ROOT });
  const sdks = answer.status === 0 ? answer.stdout.split('\n').filter(Boolean) : [];
  if (sdks.some((line) => Number.parseInt(line, 10) >= 10)) return;
  const found =
    sdks.length > 0
      ? `only ${sdks.map((line) => line.split(' ')[0]).join(', ')} is here`
      : '`dotnet` is not on the PATH';
  throw new SetupError(
    `Statefold needs the .NET SDK 10 to compile and run C#, and ${found}: install it from https://dotnet.microsoft.com/download/dotnet/10.0 and run this again.`,
  );
}

/** Compares the lockfile with npm's own record of what it installed: a checkout changes times, not contents. */
function packagesAreCurrent() {
  const read = (path) => JSON.parse(readFileSync(path, 'utf8')).packages;
  try {
    const installed = read(join(ROOT, 'node_modules', '.package-lock.json'));
    return Object.entries(read(join(ROOT, 'package-lock.json'))).every(
      ([path, { version, optional, peer }]) =>
        path === '' || installed[path]?.version === version || (!installed[path] && (optional || peer)),
    );
  } catch {
    return false;
  }
}

const SOURCES = /\.(ts|tsx|css|html|svg)$/;

function* sources(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    // What is packed is made of these.
    if (entry.name === 'dist') continue;
    if (entry.isDirectory()) yield* sources(path);
    else if (SOURCES.test(entry.name)) yield path;
  }
}

const filesOf = (...folders) =>
  folders
    .map((folder) => join(ROOT, folder))
    .filter(existsSync)
    .flatMap((folder) => [...sources(folder)]);

/**
 * Over names, sizes and times: a change of content that keeps all three is not worth reading every file at each start. The names
 * are those within the checkout, so that a copy of a built one is built too.
 */
function typescriptFingerprint(files) {
  const hash = createHash('sha256').update(process.versions.node);
  const others = ['tsconfig.json', 'package-lock.json'].map((name) => join(ROOT, name));
  for (const path of [...files, ...others, BUNDLE, BUILD_CONSOLE, join(ROOT, 'console', 'vite.config.mjs')]) {
    const { size, mtimeMs } = statSync(path);
    hash.update(`${relative(ROOT, path)}\0${size}\0${mtimeMs}\n`);
  }
  return hash.digest('hex');
}

/** A compiled file whose source is gone would go on being imported, or run as a test. */
function pruneCompiled(files) {
  const kept = new Set(files.map((path) => path.slice(ROOT.length, -'.ts'.length)));
  const visit = (folder) => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) visit(path);
      else if (!kept.has(path.slice(DIST.length).replace(/\.js(\.map)?$/, ''))) rmSync(path);
    }
  };
  for (const folder of ['src', 'packages', 'test'].map((name) => join(DIST, name)).filter(existsSync)) visit(folder);
}

const children = new Set();

/** Children end with this process, also where the signal came to it alone. */
function endWithChildren(signal) {
  for (const child of children) child.kill(signal);
  process.exit(128 + constants.signals[signal]);
}

/** Runs a program with its output on stderr, so that a command's own output stays clean. @throws {SetupError} when it fails. */
export async function run(what, program, args) {
  const child = spawn(program, args, {
    cwd: ROOT,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32' && program === 'npm',
  });
  if (children.size === 0) for (const signal of SIGNALS) process.on(signal, endWithChildren);
  children.add(child);
  const code = await new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (exitCode, signal) => resolve(exitCode ?? signal));
  });
  children.delete(child);
  if (children.size === 0) for (const signal of SIGNALS) process.off(signal, endWithChildren);
  if (code !== 0) throw new SetupError(`${what} failed (${code}); the reason is above.`);
}

async function installPackages(say) {
  if (packagesAreCurrent()) return;
  say('Installing packages (npm ci)…');
  await run('Installing packages', 'npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error']);
}

async function buildTypeScript(say) {
  const files = filesOf('src', 'packages', 'test');
  const fingerprint = typescriptFingerprint([...files, ...filesOf('console')]);
  if (existsSync(PROGRAMS) && existsSync(FINGERPRINT) && readFileSync(FINGERPRINT, 'utf8') === fingerprint) return;
  say('Compiling TypeScript…');
  pruneCompiled(files);
  await run('Compiling TypeScript', process.execPath, [
    join(ROOT, 'node_modules', 'typescript-native', 'bin', 'tsc'),
    '-p',
    'tsconfig.json',
  ]);
  // What others install beside their own code, with its types; the programs have it from the first.
  const client = run('Compiling the client package', process.execPath, [
    join(ROOT, 'node_modules', 'typescript-native', 'bin', 'tsc'),
    '-p',
    join('packages', 'client'),
  ]);
  const pages = run('Building the console', process.execPath, [BUILD_CONSOLE]);
  await Promise.all([client, pages, run('Putting the programs together', process.execPath, [BUNDLE])]);
  writeFileSync(FINGERPRINT, fingerprint);
}

/** Everything that a run needs; next to nothing when all is fresh. `say` gets one line a step that takes time. */
export async function setup({ dotnet = true, say = (line) => process.stderr.write(`${line}\n`) } = {}) {
  checkNode();
  if (dotnet && !existsSync(DOTNET_HOSTS)) checkDotnet();
  await installPackages(say);
  const builds = [buildTypeScript(say)];
  if (dotnet) builds.push(run('Building the C# hosts', process.execPath, [join(ROOT, 'scripts', 'build-dotnet.mjs')]));
  const failed = (await Promise.allSettled(builds)).find(({ status }) => status === 'rejected');
  if (failed) throw failed.reason;
}

/** Ends the program with the reason when it is one for the user, and with the stack when it is a fault of ours. */
export function fail(error) {
  process.stderr.write(`${error instanceof SetupError ? error.message : error.stack}\n`);
  process.exit(1);
}

if (process.argv[1] && pathToFileURL(process.argv[1]).href === import.meta.url) await setup().catch(fail);
