import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { findProjectRoot } from '../../src/config/project-root.js';
import { ERROR_CODES, StatefoldError } from '../../src/core/errors.js';
import { knownError, problemOf, statusOf } from '../../src/http/problem.js';

describe('problem documents', () => {
  it('are documented code by code, with the status that is answered', () => {
    const page = readFileSync(join(findProjectRoot(), 'docs/reference/errors.md'), 'utf8');
    const rows = [...page.matchAll(/^\| `([A-Z_]+)` \| (\d{3}) \|/gm)].map(([, code, status]) => [
      code,
      Number(status),
    ]);
    assert.deepEqual(
      rows,
      ERROR_CODES.map((code) => [code, statusOf(code)]),
    );
  });

  it('tell what a client may know, and splice bytes as they are', () => {
    const error = new StatefoldError('VERSION_CONFLICT', 'at 5', {
      details: { expectedVersion: 3, currentVersion: 5 },
      errors: [{ pointer: '/a', message: 'm' }],
    });
    const { status, headers, body } = problemOf(error, 'r1', { conflicts: Buffer.from('[{"n":1.0}]') });
    assert.equal(status, 409);
    assert.equal(headers['Content-Type'], 'application/problem+json');
    assert.equal(headers['Retry-After'], undefined);
    assert.equal(
      body.toString(),
      '{"type":"/problems/version-conflict","title":"The aggregate is at another version","status":409,"detail":"at 5","code":"VERSION_CONFLICT","requestId":"r1","errors":[{"pointer":"/a","message":"m"}],"expectedVersion":3,"currentVersion":5,"conflicts":[{"n":1.0}]}',
    );
  });

  it('tell some of very many faults, and how many more there are', () => {
    const errors = Array.from({ length: 90_000 }, (_, i) => ({ pointer: `/${i}`, message: 'm'.repeat(2_000) }));
    const { body } = problemOf(new StatefoldError('INVALID_REQUEST', 'many', { errors }), 'r1');
    const told = (JSON.parse(body.toString()) as { errors: typeof errors }).errors;
    assert.deepEqual(
      told.map(({ pointer }) => pointer),
      [...errors.slice(0, 20).map(({ pointer }) => pointer), ''],
    );
    assert.match(told.at(-1)?.message ?? '', /at least 89980 more/);
    assert.ok(body.length < 30_000);
  });

  it('keep the detail of what is not known to themselves', () => {
    const problem = problemOf(knownError(new TypeError('secret table missing')), 'r2');
    assert.equal(problem.status, 500);
    assert.doesNotMatch(problem.body.toString(), /secret/);
  });

  it('say when to try again', () => {
    assert.equal(problemOf(new StatefoldError('UNAVAILABLE', 'x'), 'r').headers['Retry-After'], '1');
    assert.equal(
      problemOf(new StatefoldError('RATE_LIMITED', 'x', { retryAfterSeconds: 2.2 }), 'r').headers['Retry-After'],
      '3',
    );
    assert.match(problemOf(new StatefoldError('UNAVAILABLE', 'x'), 'r').body.toString(), /"retryable":true/);
  });
});
