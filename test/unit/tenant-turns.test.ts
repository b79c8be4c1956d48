import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StatefoldError } from '../../src/core/errors.js';
import { TenantTurns } from '../../src/inspection/tenant-turns.js';

const limited = (error: unknown): boolean => error instanceof StatefoldError && error.code === 'RATE_LIMITED';

/** Pieces of work that end when they are told to. */
class Works {
  readonly begun: string[] = [];
  readonly #ends = new Map<string, () => void>();

  take(turns: TenantTurns, tenantId: string, waitMs = 60_000): Promise<void> {
    return turns.once(tenantId, () =>
      turns.take(tenantId, waitMs, () => {
        this.begun.push(tenantId);
        return new Promise((resolve) => this.#ends.set(tenantId, resolve));
      }),
    );
  }

  async end(tenantId: string): Promise<void> {
    this.#ends.get(tenantId)?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test('a tenant that asks without end comes behind those who have not been served', async () => {
  const turns = new TenantTurns(2, 'a dry run');
  const works = new Works();
  const [a, b] = [works.take(turns, 'a'), works.take(turns, 'b')];
  await assert.rejects(works.take(turns, 'a'), limited);
  const c = works.take(turns, 'c');
  const d = works.take(turns, 'd');
  assert.deepEqual(works.begun, ['a', 'b']);
  await works.end('a');
  await a;
  // At once again, before anybody who waits is through.
  const again = works.take(turns, 'a');
  assert.deepEqual(works.begun, ['a', 'b', 'c']);
  await works.end('b');
  await b;
  assert.deepEqual(works.begun, ['a', 'b', 'c', 'd']);
  const late = works.take(turns, 'e');
  await works.end('c');
  assert.deepEqual(works.begun, ['a', 'b', 'c', 'd', 'e'], 'who was never served is before who was');
  for (const one of ['d', 'e', 'a']) await works.end(one);
  await Promise.all([c, d, late, again]);
});

test('one whose turn does not come in time is told so, and takes no place', async () => {
  const turns = new TenantTurns(1, 'a dry run');
  const works = new Works();
  const a = works.take(turns, 'a');
  await assert.rejects(works.take(turns, 'b', 5), limited);
  await works.end('a');
  await a;
  const b = works.take(turns, 'b');
  assert.deepEqual(works.begun, ['a', 'b']);
  await works.end('b');
  await b;
});

test('work that fails gives its place up', async () => {
  const turns = new TenantTurns(1, 'a dry run');
  await assert.rejects(
    turns.take('a', 1000, () => Promise.reject(new Error('no'))),
    /no/,
  );
  assert.equal(await turns.take('a', 1000, () => Promise.resolve(1)), 1);
});
