import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readStatement } from '../../src/read-store/embedded/statement.js';

describe("reading a statement's head", () => {
  it('finds where the rows of an INSERT begin', () => {
    const cases: [string, { head: string; settings?: string; format: string; data: string }][] = [
      ['INSERT INTO t FORMAT JSONEachRow\n{"a":1}', { head: 'INSERT INTO t ', format: 'JSONEachRow', data: '{"a":1}' }],
      [
        'insert into db.`format` (a, `values`) values (1)',
        { head: 'insert into db.`format` (a, `values`) ', format: 'Values', data: ' (1)' },
      ],
      [
        "/* FORMAT x */ INSERT INTO t (a) SETTINGS x = 'FORMAT y' FORMAT RowBinary\n\u0000;",
        {
          head: '/* FORMAT x */ INSERT INTO t (a) ',
          settings: "SETTINGS x = 'FORMAT y' ",
          format: 'RowBinary',
          data: '\u0000;',
        },
      ],
      ['INSERT INTO TABLE format FORMAT TSV;\n1', { head: 'INSERT INTO TABLE format ', format: 'TSV', data: '1' }],
    ];
    for (const [text, { head, settings = '', format, data }] of cases) {
      const statement = readStatement(text);
      assert.ok(statement.kind === 'insert', text);
      assert.deepEqual(
        [statement.head, statement.settings, statement.format, text.slice(statement.dataAt)],
        [head, settings, format, data],
      );
    }
  });

  it('waits for the rest of an INSERT whose format is cut off', () => {
    for (const text of ['', 'INSERT', 'INSERT INTO t', 'INSERT INTO t FORMAT', 'INSERT INTO t FORMAT JSONEach'])
      assert.equal(readStatement(text, false).kind, 'incomplete', text);
    assert.equal(readStatement('INSERT INTO t SELECT 1').kind, 'other');
  });

  it('takes off the format of a query, and only that', () => {
    const cases: [string, string, string | undefined, string][] = [
      ['SELECT 1', 'SELECT 1', undefined, ''],
      ['SELECT 1 FORMAT JSON', 'SELECT 1 ', 'JSON', ''],
      ['SELECT 1 format CSV SETTINGS max_threads = 1; -- the end', 'SELECT 1 ', 'CSV', 'SETTINGS max_threads = 1'],
      [
        "SELECT format('{}', a), `FORMAT` FROM t WHERE x = ' FORMAT TSV'",
        "SELECT format('{}', a), `FORMAT` FROM t WHERE x = ' FORMAT TSV'",
        undefined,
        '',
      ],
      ['(SELECT 1 AS format) UNION ALL (SELECT 2) FORMAT TSV', '(SELECT 1 AS format) UNION ALL (SELECT 2) ', 'TSV', ''],
      ['WITH x AS (SELECT 1) SELECT format FROM x', 'WITH x AS (SELECT 1) SELECT format FROM x', undefined, ''],
      ['SELECT $$ FORMAT JSON $$', 'SELECT $$ FORMAT JSON $$', undefined, ''],
    ];
    for (const [text, body, format, tail] of cases)
      assert.deepEqual(readStatement(text), { kind: 'rows', body, format, tail }, text);
  });

  it('refuses a second statement, and tells what stays in a session', () => {
    assert.equal(readStatement("SELECT ';'; DROP TABLE t").kind, 'multiple');
    assert.deepEqual(readStatement('SET a = 1;'), { kind: 'other', body: 'SET a = 1', changesSession: true });
    assert.deepEqual(readStatement('OPTIMIZE TABLE t FINAL'), {
      kind: 'other',
      body: 'OPTIMIZE TABLE t FINAL',
      changesSession: false,
    });
    assert.equal(readStatement(' -- nothing\n ;').kind, 'empty');
  });
});

it('what is opened and never closed is read once', () => {
  const most = 256 * 1024;
  const texts = {
    'a quote that is escaped for ever': `SELECT '${"\\'".repeat(most / 2)}`,
    'quotes of another kind within': `SELECT '${'"`'.repeat(most / 2)}`,
    'marks of heredocs, each another one': `SELECT ${Array.from({ length: most / 8 }, (_, i) => `$${i}a$ `).join('')}`,
    'one mark, over and over': `SELECT ${'$a$'.repeat(most / 3)}$b$`,
    'a comment': `SELECT ${'/*'.repeat(most / 2)}`,
    parentheses: '('.repeat(most),
    'an insert': `INSERT INTO t SETTINGS a = '${"\\'".repeat(most / 2)}`,
  };
  for (const [name, text] of Object.entries(texts)) {
    const began = process.cpuUsage();
    readStatement(text);
    const { user } = process.cpuUsage(began);
    // Milliseconds, where each kind took 0.6 to 35 seconds.
    assert.ok(user < 400_000, `${name}: ${user / 1000} ms`);
  }
  const query = readStatement("SELECT $a$ it's $b$ here $a$, 1 FORMAT CSV");
  assert.deepEqual(query.kind === 'rows' && query.format, 'CSV');
  assert.equal(readStatement("SELECT 'open FORMAT CSV").kind, 'rows');
});
