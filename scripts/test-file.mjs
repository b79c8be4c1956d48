// A test file in a run of its own, or a few that share a process: the tests of each are known as its own, wherever the code that declares
// them is. A thread of scripts/test.mjs runs this: the process of the files gets the environment of the thread. Tells { passed, failed,
// skipped, problems, left, shown, overran }: the counts, what failed and why, a line each of what was skipped, what the reporter says, and
// whether the process was ended at its time-out, when none of its hooks ran.
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath } from 'node:url';
import { parentPort, workerData } from 'node:worker_threads';

/** `files` are [what it is called, its path] each, `of` what they are called together; `timeout` in ms. */
const { files, of, timeout } = workerData;
const shared = files.length > 1;
if (shared) process.env['STATEFOLD_TEST_GROUP'] = JSON.stringify(files);
const program = shared ? fileURLToPath(new URL('test-group.mjs', import.meta.url)) : files[0][1];
const sum = { passed: 0, failed: 0, skipped: 0, problems: [], left: [], shown: '', overran: false };
const stream = run({ files: [program], concurrency: 1, timeout });
/** Files of which no test was told of yet. */
const silent = new Set(files.map(([name]) => name));
const WHY_LINES = 24;
const WHY_CHARACTERS = 240;
/** The line of a failure, and below it why: the whole is in what the reporter says, which may be far above the end of a run. */
function problem(what, { details: { error } }) {
  const why = error?.cause instanceof Error ? error.cause.message : `${error?.cause ?? error?.message ?? ''}`;
  const lines = why.split('\n').filter((line) => line.trim() !== '');
  const told =
    lines.length <= WHY_LINES ? lines : [...lines.slice(0, WHY_LINES / 2), '…', ...lines.slice(-WHY_LINES / 2)];
  return [what, ...told.map((line) => `    ${line.slice(0, WHY_CHARACTERS)}`)].join('\n');
}

/** Told of in their order: the tests of a suite before it. */
let untold = [];
/** Of one that has a process of its own, or of a suite of a shared one: the tests before it are of this file. */
function tell(name) {
  for (const { type, event } of untold) (type === 'test:pass' ? passed : failed)(event, name);
  untold = [];
}

function passed(event, name) {
  const skipped = event.skip !== undefined || event.todo !== undefined;
  if (event.details.type === 'suite' && !skipped) return;
  silent.delete(name);
  if (!skipped) {
    sum.passed++;
    return;
  }
  sum.skipped++;
  const reason = typeof event.skip === 'string' && event.skip !== '' ? ` (${event.skip})` : '';
  sum.left.push(`${name}: ${event.name}${reason}`);
}

function failed(event, name) {
  // What fails with a test in it is that test, which is counted.
  if (event.details.error?.failureType === 'subtestsFailed') return;
  silent.delete(name);
  sum.failed++;
  sum.problems.push(problem(event.name === name ? name : `${name}: ${event.name}`, event));
}

for (const type of ['test:pass', 'test:fail'])
  stream.on(type, (event) => {
    const isProcess = event.nesting === 0 && event.name === program;
    if (isProcess && type === 'test:pass') return;
    if (isProcess) sum.overran = event.details.error?.failureType === 'testTimeoutFailure';
    const [[first]] = files;
    const name = isProcess ? of : shared ? event.name : first;
    untold.push({ type, event: isProcess ? { ...event, name } : event });
    if (event.nesting === 0) tell(name);
  });
for await (const text of stream
  .filter((event) => event.type !== 'test:diagnostic' || event.data.file !== undefined)
  .compose(new spec()))
  sum.shown += text;
tell(of);
for (const name of silent) {
  sum.failed++;
  sum.problems.push(`${name}: ran no test`);
}
// Errors of the tests stay here, as texts: what crosses threads has to be plain.
parentPort.postMessage(sum);
