// Who calls off a rebuild of the read store asks each process that may have one.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readStoreRebuildCancel } from '../../src/app/read-store-rebuild.js';
import { StatefoldError, type ErrorCode } from '../../src/core/errors.js';
import { problemOf } from '../../src/http/problem.js';

const slots = { owned: 1, standbys: 0, notified: 0 };
const ALL = [
  { url: 'http://a', self: true as const, ...slots },
  { url: 'http://b', ...slots },
  { url: 'http://c', ...slots },
];

/** `undefined`: it calls one off. */
const cancelWhere = (own: ErrorCode | undefined, others: Readonly<Record<string, ErrorCode | 'away' | undefined>>) => {
  const asked: string[] = [];
  const run = readStoreRebuildCancel({
    cancel: () => {
      asked.push('self');
      return own === undefined ? Promise.resolve() : Promise.reject(new StatefoldError(own, 'of this one'));
    },
    peers: {
      ask: (method, url, target) => {
        asked.push(`${method} ${url}${target}`);
        const code = others[url];
        if (code === 'away') return Promise.reject(new Error('connection refused'));
        if (code === undefined) return Promise.resolve({ status: 204, text: '' });
        const { status, body } = problemOf(new StatefoldError(code, 'of another one'), 'r');
        return Promise.resolve({ status, text: body.toString() });
      },
    },
  });
  return { run: () => run(ALL), asked };
};

describe('calling off a rebuild of the read store', () => {
  it('asks all, each for its own, and is done where one had one', async () => {
    const { run, asked } = cancelWhere('NO_REBUILD', { 'http://b': 'NO_REBUILD' });
    await run();
    assert.deepEqual(asked, [
      'self',
      'DELETE http://b/admin/read-store/rebuild?url=http%3A%2F%2Fb',
      'DELETE http://c/admin/read-store/rebuild?url=http%3A%2F%2Fc',
    ]);
  });

  it('says that there is none where none has one', async () => {
    const { run } = cancelWhere('NO_REBUILD', { 'http://b': 'NO_REBUILD', 'http://c': 'NO_REBUILD' });
    await assert.rejects(run(), { code: 'NO_REBUILD' });
  });

  it('tells what one refuses, and by which, when all were asked', async () => {
    const { run, asked } = cancelWhere(undefined, { 'http://b': 'REBUILD_NOT_CANCELLABLE' });
    await assert.rejects(run(), {
      code: 'REBUILD_NOT_CANCELLABLE',
      message: 'the process at http://b answered 409: of another one',
    });
    assert.equal(asked.length, 3);
  });

  it('may be asked again where one is away, or refuses for another reason', async () => {
    for (const code of ['away', 'READ_STORE_DISABLED', 'UNAUTHENTICATED'] as const) {
      const { run } = cancelWhere(undefined, { 'http://b': code });
      await assert.rejects(run(), { code: 'UNAVAILABLE', message: /^the process at http:\/\/b / });
    }
  });
});
