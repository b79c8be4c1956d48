// What walks the pages can fail: each of its rules refuses something.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { text as output } from 'node:stream/consumers';
import { test } from 'node:test';
import { statOf } from '../../src/jail/process-usage.js';
import { answers, parsePage } from '../support/page.js';
import { temporaryDirectory, until } from '../support/service.js';
import { Reader } from '../support/terminal.js';

const json = (text: string, printed: string): boolean => answers({ text, format: 'json' }, printed);
const text = (shown: string, printed: string): boolean => answers({ text: shown, format: 'text' }, printed);
const page = (...lines: string[]): string => lines.join('\n').replaceAll('~', '`');

test('JSON is compared without whitespace, and … is what was left out', () => {
  assert.ok(json('{ "a": 1, "b": [1, 2] }', '{"a":1,"b":[1,2]}\n'));
  assert.ok(json('{"id":"…","n":2}', '{"id":"x \\" y","n":2}'));
  for (const printed of ['{"a":1}', '{"z":0,"a":1}', '{"a":1,"b":2}', '{"z":0,"a":1,"b":{"c":2}}'])
    assert.ok(json('{…,"a":1,…}', printed), printed);
  assert.ok(json('{"a":1,…,"b":2}', '{"a":1,"b":2}'));
  for (const printed of ['{"a":10}', '{"a":2}', '{"a":1', '{"a":1}{"a":1', '{"ba":1}'])
    assert.ok(!json('{…,"a":1,…}', printed), printed);
  assert.ok(!json('{"id":"…","n":2}', '{"id":"x","m":1,"n":2}'), 'within a string it ends with the string');
  assert.ok(!json('{"text":"a b"}', '{"text":"ab"}'), 'whitespace of a string counts');
});

test('text is compared line by line', () => {
  assert.ok(text('a   b\n…\nlast …', 'a b\n1\n2\nlast one\n'));
  assert.ok(text('a\n…', 'a'));
  assert.ok(text('…\na', '1\n2\na'));
  for (const printed of ['a b', 'a b\nlast', 'a b\nlast one\nmore', 'x a b\nlast one'])
    assert.ok(!text('a   b\n…\nlast …', printed), printed);
  assert.ok(!text('a … c', 'a\nc'), 'within a line it ends with the line');
});

test('a page is cut into commands with what they print', () => {
  const { steps, notRun } = parsePage(
    page(
      'Words.',
      '',
      '~~~sh',
      'one',
      '# → 1',
      'two \\',
      '  three',
      '# → 2',
      '#   3',
      'four # a remark',
      '~~~',
      '~~~json',
      '{}',
      '~~~',
      '',
      '1. In a list',
      '',
      '   ~~~sh',
      '   five',
      '   ~~~',
      '',
      '<!-- walk: not run: it needs a moon -->',
      '~~~sh',
      'six',
      '~~~',
      '',
      '~~~js',
      '// folder/seven.mjs',
      'seven();',
      '~~~',
      '<!-- walk: ends with 3 -->',
      '~~~sh',
      'eight',
      'nine',
      '~~~',
      'Prose.',
      '~~~json',
      '{}',
      '~~~',
    ),
  );
  assert.deepEqual(
    steps.map((step) => [
      step.kind,
      step.line,
      step.text,
      'answer' in step ? step.answer?.text : undefined,
      'exit' in step ? step.exit : undefined,
    ]),
    [
      ['run', 3, 'one', '1', 0],
      ['run', 3, 'two \\\n  three', '2\n3', 0],
      ['run', 3, 'four # a remark', '{}', 0],
      ['run', 18, 'five', undefined, 0],
      ['file', 27, '// folder/seven.mjs\nseven();\n', undefined, undefined],
      ['run', 32, 'eight\nnine', undefined, 3],
    ],
  );
  assert.deepEqual(notRun, [{ line: 23, reason: 'it needs a moon' }]);
});

test('what would not be walked is refused', () => {
  for (const [markdown, reason] of [
    [page('~~~bash', 'ls', '~~~'), /line 1: what a reader runs is in a block of `sh`/],
    [page('~~~', '$ ls', '~~~'), /line 1: .* without a prompt/],
    [page('<!-- walk: never -->', '~~~sh', 'ls', '~~~'), /is none of the directives/],
    [page('<!-- walk: not run: why -->', '', 'Words.'), /stands before no block/],
    [page('~~~sh', 'ls', '# → 1', '~~~', '~~~text', '1', '~~~'), /line 1: two answers/],
    [page('<!-- walk: soon -->', '~~~js', '// a.js', '~~~'), /line 2: only what is run/],
  ] as const)
    assert.throws(() => parsePage(markdown), reason);
});

test('a reader stops at the first difference, and says where', async (t) => {
  const walk = async (...lines: string[]): Promise<void> => {
    const reader = new Reader({ cwd: tmpdir(), env: { MINE: 'yes' } });
    t.after(() => reader.close());
    await reader.walk('a.md', parsePage(page(...lines)));
    assert.ok(await reader.close());
  };
  await walk(
    '~~~sh',
    'A=1; cd /',
    'echo "$A $MINE $PWD"',
    '# → 1 yes /',
    'echo "$A"; false',
    '# → 1',
    'true',
    '~~~',
  ).then(
    () => assert.fail('false ends with 1'),
    (error: Error) => assert.match(error.message, /^a\.md, line 1:\n {4}echo "\$A"; false\nended with 1, not 0/),
  );
  await assert.rejects(walk('~~~sh', 'echo 1', '# → 2', '~~~'), /shows:\n {4}2\nbut it printed:\n {4}1$/);
  await assert.rejects(
    walk('~~~sh', `echo '{"status":409,"code":"X"}'`, '~~~'),
    /was refused, which the page does not say/,
  );
  await assert.rejects(walk('~~~sh', 'export KEY=sf_…', '~~~'), /nothing that was printed says what KEY is/);
  await assert.rejects(walk('~~~sh', 'echo a … b', '~~~'), /can't be run as it is written/);
  await assert.rejects(
    walk('<!-- walk: another terminal -->', '~~~sh', 'echo 1; exit 3', '~~~', '~~~text', '2', '~~~'),
    /ended with 3:\n1/,
  );
  await walk(
    '<!-- walk: another terminal -->',
    '~~~sh',
    'echo "  export KEY=sf_abc"; exec sleep 600',
    '~~~',
    '~~~text',
    '…sf_…',
    '~~~',
    '~~~sh',
    `export KEY=sf_…`,
    `echo "$KEY" '{"id":"x-1"}'`,
    '# → sf_abc {"id":"x-1"}',
    '~~~',
    '<!-- walk: the other terminal shows -->',
    '~~~text',
    'export KEY=…',
    '~~~',
    '~~~sh',
    'ID=…   # the id of the answer',
    'echo $ID',
    '# → x-1',
    '~~~',
  );
});

test('what a page starts ends with the process that walks it', async (t) => {
  const terminal = new URL('../support/terminal.js', import.meta.url).href;
  const script = `
    const { Terminal } = await import(${JSON.stringify(terminal)});
    const served = await new Terminal('/', process.env).serve('echo pid $BASHPID; exec sleep 600', (text) => /pid \\d+\\n/.test(text));
    process.stdout.write(served(), () => process.kill(process.pid, 'SIGKILL'));`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, TMPDIR: temporaryDirectory(t) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  const pid = Number(/pid (\d+)/.exec(await output(child.stdout))?.[1]);
  assert.ok(pid > 0);
  await until(() => !alive(pid), 10_000);
});

/** Neither gone nor a zombie. */
function alive(pid: number): boolean {
  const stat = statOf(pid);
  return stat !== undefined && stat.state !== 'Z';
}
