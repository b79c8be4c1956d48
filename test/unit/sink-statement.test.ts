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
