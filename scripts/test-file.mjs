// One test file in a run of its own: its tests are known as its own, wherever the code that declares them is. A thread of
// scripts/test.mjs runs this: the file's process gets the environment of the thread. Tells { passed, failed, skipped, problems,
// left, shown, overran }: the counts, what failed and why, a line each of what was skipped, what the reporter says, and whether the file's
// process was ended at its time-out, when none of its hooks ran.
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { parentPort, workerData } from 'node:worker_threads';

/** `of` is what the file is called; `timeout` in ms. */
const { file, of, timeout } = workerData;
const sum = { passed: 0, failed: 0, skipped: 0, problems: [], left: [], shown: '', overran: false };
const stream = run({ files: [file], concurrency: 1, timeout });
let ran = false;
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
  const reason = typeof event.skip === 'string' && event.skip !== '' ? ` (${event.skip})` : '';
  sum.left.push(`${of}: ${event.name}${reason}`);
});
stream.on('test:fail', (event) => {
  ran = true;
  // What fails with a test in it is that test, which is counted.
  if (event.details.error?.failureType === 'subtestsFailed') return;
  if (isFile(event)) sum.overran = event.details.error?.failureType === 'testTimeoutFailure';
  sum.failed++;
  sum.problems.push(problem(isFile(event) ? of : `${of}: ${event.name}`, event));
});
for await (const text of stream
  .filter((event) => event.type !== 'test:diagnostic' || event.data.file !== undefined)
  .compose(new spec()))
  sum.shown += text;
if (!ran) {
  sum.failed++;
  sum.problems.push(`${of}: ran no test`);
}
// Errors of the tests stay here, as texts: what crosses threads has to be plain.
parentPort.postMessage(sum);
