import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Diagnostic } from '../../src/code-host/code-host.js';
import { formatDiagnostics } from '../../src/cli/project/diagnostics.js';
import { canonicalLines, diffLines } from '../../src/cli/project/json-diff.js';
import { exactText, parseExactly } from '../../src/core/exact-json.js';
import { readFixtures } from '../../src/fixtures/fixtures.js';
import { formatDiff, formatOutcome } from '../../src/cli/project/report.js';
import { styleFor } from '../../src/cli/project/style.js';

const plain = styleFor({}, {});
const at = (
  severity: Diagnostic['severity'],
  code: string,
  file: string | null,
  line: number | null,
  column: number | null,
): Diagnostic => ({ severity, code, message: `${code} it is`, file, line, column });

test('errors are shown as a compiler shows them, with the line and a caret, errors first', () => {
  const sources = [{ path: 'src/a.cs', text: 'one\r\n\tint x = y;\nthree' }];
  const shown = formatDiagnostics(
    [
      at('warning', 'CS8600', 'src/a.cs', 3, 1),
      at('error', 'CS0103', 'src/a.cs', 2, 10),
      at('error', 'SF0001', null, null, null),
      at('error', 'SF0005', 'src/a.cs', null, null),
      at('error', 'CS1', 'gone.cs', 9, 9),
    ],
    sources,
    plain,
  );
  assert.equal(
    shown,
    [
      'src/a.cs(2,10): error CS0103: CS0103 it is',
      '    2 |  int x = y;',
      '      |          ^',
      'error SF0001: SF0001 it is',
      'src/a.cs: error SF0005: SF0005 it is',
      'gone.cs(9,9): error CS1: CS1 it is',
      'src/a.cs(3,1): warning CS8600: CS8600 it is',
      '    3 | three',
      '      | ^',
      '4 errors, 1 warning',
      '',
    ].join('\n'),
  );
  assert.equal(formatDiagnostics([], sources, plain), '');
});

test('colours are for terminals that want them', () => {
  assert.equal(styleFor({ isTTY: true }, {}).red('x'), '\u001b[31mx\u001b[39m');
  assert.equal(styleFor({ isTTY: true }, { NO_COLOR: '1' }).red('x'), 'x');
});

test('lines of JSON have members by name, and numbers as they are written', () => {
  assert.deepEqual(canonicalLines(parseExactly('{"b":[1,{"d":1,"c":12345678901234567890}],"a":null}')), [
    '{',
    '  "a": null,',
    '  "b": [',
    '    1,',
    '    {',
    '      "c": 12345678901234567890,',
    '      "d": 1',
    '    }',
    '  ]',
    '}',
  ]);
});

test('a difference is shown with what lies around it', () => {
  const lines = (from: number, to: number): string[] =>
    Array.from({ length: to - from + 1 }, (_, i) => `line ${from + i}`);
  assert.deepEqual(
    diffLines(['a', 'b', 'c', 'd'], ['a', 'c', 'x', 'd']).map(({ kind, text }) => `${kind} ${text}`),
    ['same a', 'expected b', 'same c', 'actual x', 'same d'],
  );
  const shown = formatDiff(lines(1, 20), [...lines(1, 9), 'changed', ...lines(11, 20), 'more'], plain);
  assert.equal(
    shown,
    [
      '  …',
      '  line 7',
      '  line 8',
      '  line 9',
      '- line 10',
      '+ changed',
      '  line 11',
      '  line 12',
      '  line 13',
      '  …',
      '  line 18',
      '  line 19',
      '  line 20',
      '+ more',
      '',
    ].join('\n'),
  );
  assert.equal(formatDiff(['null'], ['1'], plain), '- null\n+ 1\n');
});

test('what failed says what was expected and what came', () => {
  const fault = {
    eventId: 'e',
    aggregateId: 'a',
    version: 3,
    className: 'N.R',
    message: 'InvalidOperationException: no',
    file: 'a.cs',
    line: 2,
    at: '',
  };
  const shown = formatOutcome(
    { name: 'a case' },
    {
      status: 'failed',
      milliseconds: 1.25,
      failures: [
        { kind: 'state', key: 'k', expected: { n: 1 }, actual: { n: 2 } },
        { kind: 'state', key: 'other', expected: undefined, actual: 5 },
        { kind: 'fault', key: 'k', expected: 'yes', fault, given: false },
        { kind: 'fault', key: '', expected: undefined, fault, given: true },
        { kind: 'fault', key: 'k', expected: 'yes', fault: undefined, given: false },
      ],
    },
    [{ path: 'a.cs', text: 'x\n  throw;' }],
    plain,
  );
  assert.equal(
    shown,
    [
      '  ✖ a case (1.3 ms)',
      '      k: - expected + actual',
      '        {',
      '      -   "n": 1',
      '      +   "n": 2',
      '        }',
      '      other: is not in then.states, and when changes it to',
      '        5',
      '      k: stopped at version 3, but not with "yes":',
      '      a.cs(2): error in N.R: InvalidOperationException: no',
      '          2 |   throw;',
      '      stopped at version 3, which is one of the given events:',
      '      a.cs(2): error in N.R: InvalidOperationException: no',
      '          2 |   throw;',
      '      k: was to stop with "yes", and did not',
      '',
    ].join('\n'),
  );
});

test('a fixture that is malformed is told with its place', () => {
  const when = '"when":[{"eventType":"x"}]';
  const cases: [text: string, expected: RegExp][] = [
    ['{', /^f\.json is not JSON: /],
    ['7', /^f\.json: /],
    ['{"when":[],"then":{"state":1}}', /^f\.json: \/when must have an event\.$/],
    ['{"when":[{"eventTpe":"x"}],"then":{"state":1}}', /^f\.json: \/when\/0 has 'eventTpe', which is not known\.$/],
    [
      `[{${when},"then":{"state":1}},{"name":"second",${when},"then":{"states":5}}]`,
      /^f\.json: second: \/then\/states must be an object/,
    ],
    [`{${when},"then":{}}`, /^f\.json, case 1: then needs a state/],
    [`{${when},"then":{"state":1,"states":{}}}`, /give one of them/],
    [`{"reducer":"A","projection":"B",${when},"then":{"state":1}}`, /not both/],
    [`{"when":[{"eventType":"x","timestamp":"yesterday"}],"then":{"state":1}}`, /must be a time like/],
  ];
  for (const [text, expected] of cases)
    assert.throws(() => readFixtures({ path: 'f.json', text }), { name: 'FixtureError', message: expected });
  const [one] = readFixtures({
    path: 'fixtures/order.json',
    text: `{"when":[{"eventType":"x","data":{"n":12345678901234567890}}],"then":{"state":null}}`,
  });
  assert.deepEqual(
    [one?.name, exactText(one?.when[0]?.data), one?.then],
    ['order 1', '{"n":12345678901234567890}', { state: null }],
  );
});
