// `npm test [pattern…]`: builds, runs every dist/test/**/*.test.js (or those whose path holds a pattern) and the xunit
// projects, and ends with one line: N passed, M failed, K skipped. `npm test dotnet` runs xunit alone. `--durations[=20]` lists
// the files that took the most processor time before that. `--part=2/4` takes, of what is slow, the second of four parts, and all
// that is quick. With KAFKA_HOME one
// broker is started for the whole run, with KAFKA_BROKERS that one is used; then what of test/e2e is about the log runs a second time, with
// the log on Kafka. What needs a Kafka that is not there says so.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join, relative, resolve, sep } from 'node:path';
import { Worker } from 'node:worker_threads';
import { archiveClasses, startKafka } from './kafka-cluster.mjs';
import { JOB, ProcessorTime } from './processor-time.mjs';
import { fail, PROGRAMS, ROOT, setup, SetupError, SHORT_LIVED } from './setup.mjs';

/** A whole file; the slowest ones kill and restart real processes. */
const FILE_TIMEOUT_MS = 300_000;
/** A fresh clone is installed and built, which may wait for the network. */
const DOCS_TIMEOUT_MS = 900_000;
const TESTS = join(ROOT, 'dist', 'test');
const SOLUTION = join(ROOT, 'dotnet', 'Statefold.slnx');
const HOSTS = join(ROOT, 'dotnet', 'hosts.proj');

function* testFiles(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* testFiles(path);
    else if (entry.name.endsWith('.test.js')) yield path;
  }
}

const within = (file) => relative(TESTS, file);
/** What Node is started with for each test file; the thread that starts it hands its own on. */
const TRACKING = ['--import', new URL('test-tracking.mjs', import.meta.url).href];
/** Pure parts: a minute or two, and most mistakes show here. They come before all else. */
const QUICK = ['unit/', 'simulator/named'];
const isQuick = (file) => QUICK.some((start) => within(file).startsWith(start));
/** Then the slowest kinds first: none of them is left for the end, where one core would idle. */
const ORDER = ['docs/', 'dotnet', 'faults/', 'hostile/', 'simulator/', 'integration/', 'e2e/'];
const placeOf = ({ name, on }) => {
  const place = ORDER.findIndex((folder) => name.startsWith(folder));
  return (place < 0 ? ORDER.length : place) - (on === '' ? 0 : 0.5);
};

/**
 * Of test/e2e, what would find nothing else where the log is on Kafka: pages, documents, checks of what is sent, turns and shares before
 * the log, the jail, what only an embedded log has. All others run once more there.
 */
const ON_ANY_LOG = [
  'assistants',
  'asyncapi',
  'bad-input',
  'client-endpoints',
  'client',
  'console-charts',
  'console-code',
  'console-deeds',
  'console-edges',
  'console-first-run',
  'console-lists',
  'console-names',
  'console-narrow',
  'console-operations',
  'console-owner',
  'console-types',
  'console-ways',
  'console',
  'dry-runs',
  'failing-starts',
  'fair-shares',
  'fixtures',
  'hostile-code',
  'in-a-browser',
  'notification-config',
  'openapi',
  'restored-beside-a-server',
  'sql',
  'sql-accounts',
  'streams-for-browsers',
  'strict-bodies',
  'traces',
  'types',
  'upload-checks',
].map((name) => `e2e/${name}.test.js`);

const nothing = () => ({ passed: 0, failed: 0, skipped: 0, problems: [], left: [] });

const processorTime = new ProcessorTime();
/** Of each job, in the order of their ends: what it is called, and its seconds. */
const durations = [];
/** Notes what the job took, and says so: by the clock, and of the processors with all processes that it had started. */
function tookOf(of, started) {
  processorTime.look();
  const seconds = (performance.now() - started) / 1000;
  const processor = processorTime.of(of);
  durations.push({ of, seconds, processor });
  return `${seconds.toFixed(1)} s${processor === undefined ? '' : `, ${processor.toFixed(1)} s of processors`}`;
}

function end(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended meanwhile.
  }
}

/** A job of one file, or of a few that share a process. */
function jobOf(files, on = '', env = {}) {
  const names = files.map(within);
  const [name] = names;
  const of = files.length === 1 ? `${name}${on}` : `${name} to ${names.at(-1)}${on} (${files.length} files)`;
  const run = async () => {
    const started = performance.now();
    const each = name.startsWith('docs/') ? DOCS_TIMEOUT_MS : FILE_TIMEOUT_MS;
    const worker = new Worker(new URL('test-file.mjs', import.meta.url), {
      workerData: { files: files.map((file, i) => [`${names[i]}${on}`, file]), of, timeout: files.length * each },
      env: { ...process.env, ...env, [JOB]: of },
      execArgv: TRACKING,
    });
    const { shown, overran, ...sum } = await new Promise((resolve, reject) => {
      worker.once('message', resolve).once('error', reject);
      worker.once('exit', (code) => reject(new Error(`the run of ${of} ended with ${code}`)));
    }).catch((error) => ({ ...nothing(), failed: 1, problems: [`${of}: ${error.message}`], shown: '' }));
    // Its services would take the processors from all files after it.
    if (overran) for (const pid of processorTime.running(of)) end(pid);
    process.stdout.write(`\n${of} (${tookOf(of, started)})\n${shown}`);
    return sum;
  };
  return { name, on, run, files: files.length };
}

/** What changes the whole process, looks at it, or depends on what was imported before: a file that says such a thing has one of its own. */
const OF_THE_PROCESS =
  /\bprocess\.(on|once|exit|chdir|emitWarning|memoryUsage|resourceUsage|cpuUsage)\b|\bprocess\.env\[[^\]]*\] (=|\?\?=)|\bmock\.|\bglobalThis\b|\bregister\(|'wire-types\.mjs'/;
/** So has what imports test/support/kafka.js, which drops the topics of its file when the process ends. */
const ON_KAFKA = /\/support\/(cluster-world|connect\/worker|kafka|kafka-scenario|nemesis|tcp-proxy|two-logs)\.js'/;
/**
 * Folders whose files share processes, and how many share one: what a file imports takes a third of a second to read. Few where services
 * start, since a long job at the end of a run leaves cores idle.
 */
const SHARING = new Map([
  ['unit', 30],
  ['integration', 4],
  ['e2e', 4],
]);

/** The files in their order, those that share a process together. */
function groupsOf(files) {
  const groups = [];
  const open = new Map();
  for (const file of files) {
    const folder = within(file).split(sep)[0];
    const text = readFileSync(file, 'utf8');
    const alone = !SHARING.has(folder) || OF_THE_PROCESS.test(text) || ON_KAFKA.test(text);
    const group = alone ? undefined : open.get(folder);
    if (group !== undefined && group.length < SHARING.get(folder)) {
      group.push(file);
      continue;
    }
    const fresh = [file];
    groups.push(fresh);
    if (!alone) open.set(folder, fresh);
  }
  return groups;
}

/** How many of the dearest jobs are listed, and which part of what is slow is run, counted from 0. */
function optionsOf(options) {
  const read = { listed: 0, part: 0, parts: 1 };
  for (const option of options) {
    const durations = /^--durations(?:=(\d+))?$/.exec(option);
    const [, part, parts] = /^--part=([1-9]\d*)\/([1-9]\d*)$/.exec(option)?.map(Number) ?? [];
    if (durations !== null) read.listed = Number(durations[1] ?? 20);
    else if (part <= parts) Object.assign(read, { part: part - 1, parts });
    else
      fail(
        new SetupError(
          `npm test has no option ${option}: it takes --durations[=20], --part=1/4, and words that the paths of test files hold.`,
        ),
      );
  }
  return read;
}

/**
 * Folders that a part of a run takes its share of: what starts services and brokers for minutes. Each file of them is in one part, and once
 * more, on Kafka, in another.
 */
const IN_PARTS = ['docs', 'faults', 'integration', 'e2e'];
const inPart = (files, shift) =>
  files.filter(
    (file) => !IN_PARTS.includes(within(file).split(sep)[0]) || (allFiles.indexOf(file) + shift) % parts === part,
  );

/** How many of the programs of a file are told. */
const PROGRAMS_OF_A_FILE = 4;

function sayDurations() {
  const seconds = (value) => `${value.toFixed(1)} s`.padStart(9);
  const dearest = durations.sort((a, b) => (b.processor ?? b.seconds) - (a.processor ?? a.seconds)).slice(0, listed);
  if (dearest.length === 0) return;
  process.stdout.write('\nby the clock, of processors\n');
  for (const { of, seconds: clock, processor } of dearest) {
    process.stdout.write(`${seconds(clock)} ${processor === undefined ? '' : seconds(processor)} ${of}\n`);
    const parts = processorTime.programs(of).slice(0, PROGRAMS_OF_A_FILE);
    const told = parts.map(({ program, starts, seconds: taken }) => `${taken.toFixed(1)} s ${starts} ${program}`);
    process.stdout.write(`${' '.repeat(20)} ${told.join(', ')}\n`);
  }
  process.stdout.write('\nof processors, starts, by program\n');
  for (const { program, starts, seconds: taken } of processorTime.programs().slice(0, listed))
    process.stdout.write(`${seconds(taken)} ${`${starts}`.padStart(6)} ${program}\n`);
}

async function runDotnet() {
  const sum = nothing();
  const started = performance.now();
  const results = mkdtempSync(join(tmpdir(), 'statefold-test-'));
  // One compiler for all projects, under a name of its own, so that it may be ended.
  const compiler = `-p:SharedCompilationId=statefold-${randomUUID()}`;
  try {
    const shown = [];
    const dotnet = async (...args) => {
      const child = spawn('dotnet', [...args, compiler], {
        cwd: ROOT,
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, UseSharedCompilation: 'true', [JOB]: 'xunit' },
      });
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => shown.push(chunk));
      // Not until its pipes are closed: the compiler has them, too, until it is ended.
      return await new Promise((resolve) => child.once('exit', resolve).once('error', resolve));
    };
    const code = await dotnet('test', SOLUTION, '--nologo', '--logger', 'trx', '--results-directory', results);
    await dotnet('msbuild', HOSTS, '-nologo', '-verbosity:quiet', '-target:EndCompiler');
    process.stdout.write(`\nxunit (${tookOf('xunit', started)})\n${Buffer.concat(shown)}`);
    for (const file of readdirSync(results).filter((entry) => entry.endsWith('.trx'))) {
      const counters = /<Counters ([^>]*)>/.exec(readFileSync(join(results, file), 'utf8'))?.[1] ?? '';
      const counter = (key) => Number(new RegExp(`\\b${key}="(\\d+)"`).exec(counters)?.[1] ?? 0);
      sum.passed += counter('passed');
      sum.failed += counter('failed');
      sum.skipped += counter('total') - counter('executed');
    }
    if (sum.failed > 0) sum.problems.push(`xunit: ${sum.failed} failed`);
    else if (code !== 0 || sum.passed === 0) {
      sum.failed++;
      sum.problems.push(code === 0 ? 'xunit: ran no test' : `xunit: dotnet test ended with ${code}`);
    }
  } finally {
    rmSync(results, { recursive: true, force: true });
  }
  return sum;
}

/** How often it is looked whether the cores have room, and how much of them has to have been idle since. */
const LOOK_MS = 2_000;
const ROOM = 0.3;

/**
 * Runs the jobs in their order, as many at once as there are cores. What waits for its processes leaves these idle: then one more, until
 * there are twice as many.
 */
async function runAll(jobs) {
  const cores = Math.min(4, availableParallelism());
  const most = 2 * cores;
  const sums = [];
  const waiting = [...jobs];
  let running = 0;
  await new Promise((resolve, reject) => {
    const begin = () => {
      const job = waiting.shift();
      if (job === undefined) return;
      running++;
      job.run().then((sum) => {
        sums.push(sum);
        running--;
        if (running < cores) begin();
        if (running === 0) resolve();
      }, reject);
    };
    const busy = () =>
      cpus().map(({ times: { idle, ...rest } }) => [idle, Object.values(rest).reduce((a, b) => a + b)]);
    const total = (all, at) => all.reduce((sum, each) => sum + each[at], 0);
    let before = busy();
    const look = setInterval(() => {
      const now = busy();
      const idle = total(now, 0) - total(before, 0);
      const all = idle + total(now, 1) - total(before, 1);
      before = now;
      if (all > 0 && idle / all > ROOM && running < most) begin();
    }, LOOK_MS);
    look.unref();
    for (let i = 0; i < cores; i++) begin();
    if (running === 0) resolve();
  });
  return sums;
}

const words = process.argv.slice(2);
const { listed, part, parts } = optionsOf(words.filter((word) => word.startsWith('-')));
await setup().catch(fail);
// Services of the tests are what users start, as it was just built.
process.env['STATEFOLD_TEST_PROGRAMS'] = PROGRAMS;
// The C# tests are such tools, and some tests start others. Services give their own environment to none of their processes.
Object.assign(process.env, SHORT_LIVED);
// Hundreds of services are given the same few sources, and a compiler's start is most of what some tests take.
const compilations = mkdtempSync(join(tmpdir(), 'statefold-compilations-'));
process.env['STATEFOLD_TEST_COMPILATIONS'] = compilations;
process.on('exit', () => rmSync(compilations, { recursive: true, force: true }));
const patterns = words.filter((word) => !word.startsWith('-'));
const allFiles = [...testFiles(TESTS)].sort();
const matching = allFiles.filter(
  (file) => patterns.length === 0 || patterns.some((pattern) => within(file).includes(pattern)),
);
const files = inPart(matching, 0);
const withDotnet = existsSync(SOLUTION) && (patterns.length === 0 || patterns.includes('dotnet'));
if (matching.length === 0 && !withDotnet) fail(new SetupError(`No test file matches ${patterns.join(', ')}`));

const say = (line) => process.stdout.write(`\n== ${line}\n`);
const endToEnd = inPart(matching, 1).filter(
  (file) => within(file).startsWith('e2e/') && !ON_ANY_LOG.includes(within(file)),
);
// Tests run commands in other folders too.
if (process.env['KAFKA_HOME']) process.env['KAFKA_HOME'] = resolve(process.env['KAFKA_HOME']);
const { KAFKA_HOME, KAFKA_BROKERS } = process.env;

// What is started for no file.
process.env[JOB] = 'the brokers of the run';
processorTime.start();
/** The brokers of the whole run, beside what needs none. The run's many brokers start in half the time from an archive of their classes. */
async function openKafka() {
  if (files.length === 0 || !KAFKA_HOME) return undefined;
  if (patterns.length === 0) await archiveClasses();
  return KAFKA_BROKERS ? undefined : await startKafka({ heap: ['-Xms256m', '-Xmx512m'] });
}
const opening = openKafka().catch(fail);

/** Clients of the tests hold each answer to the OpenAPI document: its schemas are compiled once, and loaded by every file. */
async function writeOpenapiChecks() {
  const parent = join(ROOT, '.build');
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, 'openapi-'));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  const program = join(TESTS, 'support', 'openapi-checks.js');
  const writer = spawn(process.execPath, [program, folder], {
    stdio: 'inherit',
    env: { ...process.env, [JOB]: 'the checks of answers' },
  });
  const code = await new Promise((resolve, reject) => writer.once('exit', resolve).once('error', reject));
  if (code !== 0) throw new SetupError(`${program} ended with ${code}`);
  process.env['STATEFOLD_TEST_OPENAPI'] = folder;
}
const checks = files.some((file) => !isQuick(file)) ? writeOpenapiChecks().catch(fail) : undefined;

const filesOf = (jobs) => jobs.reduce((sum, { files }) => sum + files, 0);
const quick = groupsOf(files.filter(isQuick)).map((group) => jobOf(group));
const slow = groupsOf(files.filter((file) => !isQuick(file))).map((group) => jobOf(group));
if (withDotnet) slow.push({ name: 'dotnet', on: '', run: runDotnet, files: 0 });
const sums = [];
if (endToEnd.length > 0 && (KAFKA_HOME || KAFKA_BROKERS))
  slow.push(...groupsOf(endToEnd).map((group) => jobOf(group, ' on Kafka', { STATEFOLD_TEST_LOG: 'kafka' })));
else if (endToEnd.length > 0)
  sums.push({
    ...nothing(),
    skipped: endToEnd.length,
    left: ['test/e2e a second time, with the log on Kafka (neither KAFKA_HOME nor KAFKA_BROKERS is set)'],
  });
slow.sort((a, b) => placeOf(a) - placeOf(b));
let told = false;
const onRealProcesses = (job) => ({
  ...job,
  run: async () => {
    const brokers = KAFKA_BROKERS || (await opening)?.brokers.join(',');
    if (brokers) process.env['STATEFOLD_TEST_KAFKA'] = brokers;
    await checks;
    if (!told) {
      const first = filesOf(slow.filter(({ on }) => on === ''));
      const again = filesOf(slow.filter(({ on }) => on !== ''));
      const kafka = brokers ? `, with Kafka; ${again} of them again, with the log on it` : '';
      say(`then ${first} files on real processes${kafka}${withDotnet ? '; the C# tests beside them' : ''}`);
    }
    told = true;
    return job.run();
  },
});
if (parts > 1) say(`part ${part + 1} of ${parts} of what is slow; \`npm test\` runs all of it`);
if (quick.length > 0) say(`the quick half first: ${filesOf(quick)} files of pure parts`);
sums.push(...(await runAll([...quick, ...slow.map(onRealProcesses)])));
await (await opening)?.close();
processorTime.stop();
sayDurations();
const total = (key) => sums.reduce((all, sum) => all + sum[key], 0);
const problems = sums.flatMap((sum) => sum.problems);

process.stdout.write('\n');
for (const problem of problems) process.stdout.write(`failed: ${problem}\n`);
for (const name of sums.flatMap((sum) => sum.left)) process.stdout.write(`skipped: ${name}\n`);
const took = processorTime.all;
if (took > 0)
  process.stdout.write(`${Math.round(took)} s of processors, ${Math.round(process.uptime())} s by the clock\n`);
const skipped = total('skipped') > 0 ? `, ${total('skipped')} skipped` : '';
process.stdout.write(`${total('passed')} passed, ${total('failed')} failed${skipped}\n`);
process.exitCode = total('failed') === 0 ? 0 : 1;
