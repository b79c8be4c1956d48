// `npm test [pattern…]`: builds, runs every dist/test/**/*.test.js (or those whose path holds a pattern) and the xunit
// projects, and ends with one line: N passed, M failed, K skipped. `npm test dotnet` runs xunit alone. With KAFKA_HOME one
// broker is started for the whole run, with KAFKA_BROKERS that one is used; then test/e2e runs a second time, with the log on
// Kafka. What needs a Kafka that is not there says so.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { run as runTests } from 'node:test';
import { spec } from 'node:test/reporters';
import { startKafka } from './kafka-cluster.mjs';
import { fail, ROOT, setup, SetupError } from './setup.mjs';

/** A whole file; the slowest ones kill and restart real processes. */
const FILE_TIMEOUT_MS = 300_000;
/** A fresh clone is installed and built, which may wait for the network. */
const DOCS_TIMEOUT_MS = 900_000;
const TESTS = join(ROOT, 'dist', 'test');
const SOLUTION = join(ROOT, 'dotnet', 'Statefold.slnx');

function* testFiles(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* testFiles(path);
    else if (entry.name.endsWith('.test.js')) yield path;
  }
}

/** The slowest kinds first: none of them is left for the end, where one core would idle. */
const ORDER = ['docs/', 'faults/', 'hostile/', 'integration/', 'e2e/'];
/** Pure parts: a minute or two, and most mistakes show here. They come before all else. */
const QUICK = ['unit/', 'simulator/named'];
const placeOf = (file) => {
  const place = ORDER.findIndex((folder) => relative(TESTS, file).startsWith(folder));
  return place < 0 ? ORDER.length : place;
};

async function runNode(files, on = '') {
  const sum = { passed: 0, failed: 0, skipped: 0, problems: [], left: [] };
  const waiting = [...files].sort((a, b) => placeOf(a) - placeOf(b));
  const worker = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) await runFile(file, on, sum);
  };
  await Promise.all(Array.from({ length: Math.min(4, availableParallelism()) }, worker));
  return sum;
}

/** One file in a run of its own: its tests are known as its own, wherever the code that declares them is. */
async function runFile(file, on, sum) {
  const of = `${relative(TESTS, file)}${on}`;
  const stream = runTests({
    files: [file],
    concurrency: 1,
    timeout: of.startsWith('docs/') ? DOCS_TIMEOUT_MS : FILE_TIMEOUT_MS,
  });
  let ran = false;
  const isFile = (event) => event.nesting === 0 && event.name === file;
  stream.on('test:pass', (event) => {
    const skipped = event.skip !== undefined || event.todo !== undefined;
    if (isFile(event) || (event.details.type === 'suite' && !skipped)) return;
    ran = true;
    if (!skipped) {
      sum.passed++;
      return;
    }
    sum.skipped++;
    sum.left.push(
      `${of}: ${event.name}${typeof event.skip === 'string' && event.skip !== '' ? ` (${event.skip})` : ''}`,
    );
  });
  stream.on('test:fail', (event) => {
    ran = true;
    // What fails with a test in it is that test, which is counted.
    if (event.details.error?.failureType === 'subtestsFailed') return;
    sum.failed++;
    sum.problems.push(isFile(event) ? `${of}: ${event.details.error?.message ?? 'failed'}` : `${of}: ${event.name}`);
  });
  let shown = '';
  const started = performance.now();
  for await (const text of stream
    .filter((event) => event.type !== 'test:diagnostic' || event.data.file !== undefined)
    .compose(new spec()))
    shown += text;
  if (!ran) {
    sum.failed++;
    sum.problems.push(`${of}: ran no test`);
  }
  process.stdout.write(`\n${of} (${((performance.now() - started) / 1000).toFixed(1)} s)\n${shown}`);
}

async function runDotnet() {
  const sum = { passed: 0, failed: 0, skipped: 0, problems: [], left: [] };
  const results = mkdtempSync(join(tmpdir(), 'statefold-test-'));
  try {
    const child = spawn('dotnet', ['test', SOLUTION, '--nologo', '--logger', 'trx', '--results-directory', results], {
      cwd: ROOT,
      stdio: 'inherit',
      // The tools end after seconds: profiles for a later recompilation would cost a sixth of the build.
      env: { ...process.env, DOTNET_TieredPGO: '0' },
    });
    const code = await new Promise((resolve) => child.once('exit', resolve).once('error', resolve));
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

await setup().catch(fail);
const patterns = process.argv.slice(2);
const files = [...testFiles(TESTS)]
  .sort()
  .filter((file) => patterns.length === 0 || patterns.some((pattern) => relative(TESTS, file).includes(pattern)));
const withDotnet = existsSync(SOLUTION) && (patterns.length === 0 || patterns.includes('dotnet'));
if (files.length === 0 && !withDotnet) fail(new SetupError(`No test file matches ${patterns.join(', ')}`));

const isQuick = (file) => QUICK.some((start) => relative(TESTS, file).startsWith(start));
const say = (line) => process.stdout.write(`\n== ${line}\n`);
const sums = [];
const endToEnd = files.filter((file) => relative(TESTS, file).startsWith('e2e/'));
// Tests run commands in other folders too.
if (process.env['KAFKA_HOME']) process.env['KAFKA_HOME'] = resolve(process.env['KAFKA_HOME']);
const { KAFKA_HOME, KAFKA_BROKERS } = process.env;
const kafka =
  files.length > 0 && KAFKA_HOME && !KAFKA_BROKERS
    ? await startKafka({ heap: ['-Xms256m', '-Xmx512m'] }).catch(fail)
    : undefined;
const brokers = KAFKA_BROKERS || kafka?.brokers.join(',');
if (brokers) process.env['STATEFOLD_TEST_KAFKA'] = brokers;
const quick = files.filter(isQuick);
const slow = files.filter((file) => !isQuick(file));
if (quick.length > 0) {
  say(`the quick half first: ${quick.length} files of pure parts`);
  sums.push(await runNode(quick));
}
if (slow.length > 0) {
  say(`${slow.length} files on real processes${brokers ? ', with Kafka' : ''}`);
  sums.push(await runNode(slow));
}
if (endToEnd.length > 0 && brokers) {
  say(`${endToEnd.length} of them again, with the log on Kafka`);
  process.env['STATEFOLD_TEST_LOG'] = 'kafka';
  sums.push(await runNode(endToEnd, ' on Kafka'));
} else if (endToEnd.length > 0)
  sums.push({
    passed: 0,
    failed: 0,
    skipped: endToEnd.length,
    problems: [],
    left: ['test/e2e a second time, with the log on Kafka (neither KAFKA_HOME nor KAFKA_BROKERS is set)'],
  });
await kafka?.close();
if (withDotnet) sums.push(await runDotnet());
const total = (key) => sums.reduce((all, sum) => all + sum[key], 0);
const problems = sums.flatMap((sum) => sum.problems);

process.stdout.write('\n');
for (const problem of problems) process.stdout.write(`failed: ${problem}\n`);
for (const name of sums.flatMap((sum) => sum.left)) process.stdout.write(`skipped: ${name}\n`);
const skipped = total('skipped') > 0 ? `, ${total('skipped')} skipped` : '';
process.stdout.write(`${total('passed')} passed, ${total('failed')} failed${skipped}\n`);
process.exitCode = total('failed') === 0 ? 0 : 1;
