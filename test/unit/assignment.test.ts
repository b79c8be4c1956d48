import assert from 'node:assert/strict';
import test, { mock } from 'node:test';
import { StatefoldError } from '../../src/core/errors.js';
import { silentLogger } from '../../src/core/logger.js';
import { Assignment } from '../../src/tenancy/assignment.js';
import { ToldOwnership } from '../support/edge-pair.js';

test('what went to another process is closed at once, however many are still being opened', () => {
  const ownership = new ToldOwnership();
  const passivated: string[] = [];
  const opening: string[] = [];
  const assignment = new Assignment({
    ownership,
    tenants: {
      activeKeys: ['lost', 'kept'],
      standbyKeys: [],
      open: (key) => {
        opening.push(key);
        return new Promise(() => undefined);
      },
      standBy: () => Promise.resolve(),
      passivate: (key) => {
        passivated.push(key);
        return Promise.resolve();
      },
      onStopped: () => undefined,
    },
    activity: { keys: () => Array.from({ length: 20 }, (_, i) => `new-${i}`) },
    standbys: false,
    notified: { wanted: [], wants: () => false, onUnwanted: () => undefined },
    logger: silentLogger,
    onReassigned: () => undefined,
  });
  ownership.tell('self');
  assert.deepEqual([opening.length < 20, passivated], [true, []], 'all that may be opened at once are being opened');
  ownership.tell(undefined);
  assert.deepEqual(passivated, [], 'nobody has them yet: they are served on');
  ownership.tell((key) => (key === 'lost' ? { url: 'http://elsewhere' } : 'self'));
  assert.deepEqual(passivated, ['lost']);
  assignment.close();
});

/** An assignment of what is active as it is told, over tasks that open as `refusal` says. */
function world(t: test.TestContext): {
  readonly ownership: ToldOwnership;
  readonly activeKeys: string[];
  readonly tried: string[];
  refusal: StatefoldError | undefined;
  stopped(slotKey: string, deposed: boolean): void;
  /** Lets the time pass, a second at a time, and what follows from it. */
  pass(ms: number): Promise<void>;
} {
  mock.timers.enable({ apis: ['setTimeout'] });
  const ownership = new ToldOwnership();
  const [activeKeys, tried] = [[] as string[], [] as string[]];
  let stopped = (_slotKey: string, _deposed: boolean): void => undefined;
  const assignment = new Assignment({
    ownership,
    tenants: {
      activeKeys,
      standbyKeys: [],
      open: (key) => {
        tried.push(key);
        if (it.refusal !== undefined) return Promise.reject(it.refusal);
        activeKeys.push(key);
        return Promise.resolve();
      },
      standBy: () => Promise.resolve(),
      passivate: () => Promise.resolve(),
      onStopped: (listener) => (stopped = listener),
    },
    activity: { keys: () => ['acme'] },
    standbys: false,
    notified: { wanted: [], wants: () => false, onUnwanted: () => undefined },
    logger: silentLogger,
    onReassigned: () => undefined,
  });
  t.after(() => {
    assignment.close();
    mock.timers.reset();
  });
  const it = {
    ownership,
    activeKeys,
    tried,
    refusal: undefined as StatefoldError | undefined,
    stopped: (slotKey: string, deposed: boolean) => stopped(slotKey, deposed),
    pass: async (ms: number) => {
      for (let passed = 0; passed < ms; passed += 1000) {
        mock.timers.tick(1000);
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
  };
  return it;
}

test("what can not be opened at a takeover is tried again, ever more seldom, until it is open or another's", async (t) => {
  const it = world(t);
  it.refusal = new StatefoldError('UNAVAILABLE', 'the disk is full');
  it.ownership.tell('self');
  await it.pass(600_000);
  const tries = it.tried.length;
  assert.ok(tries >= 20 && tries <= 50, `${tries} tries in ten minutes`);
  it.refusal = undefined;
  await it.pass(30_000);
  assert.deepEqual(it.activeKeys, ['acme']);
  const opened = it.tried.length;
  await it.pass(120_000);
  assert.equal(it.tried.length, opened, 'it is open');

  it.refusal = new StatefoldError('UNAVAILABLE', 'the disk is full');
  it.activeKeys.length = 0;
  it.ownership.tell('self');
  await it.pass(1000);
  it.ownership.tell({ url: 'http://elsewhere' });
  const released = it.tried.length;
  await it.pass(120_000);
  assert.equal(it.tried.length, released);
});

test('a tenant that is suspended is not tried again', async (t) => {
  const it = world(t);
  it.refusal = new StatefoldError('TENANT_SUSPENDED', 'suspended');
  it.ownership.tell('self');
  await it.pass(120_000);
  assert.deepEqual(it.tried, ['acme']);
});

test('what stopped by itself is opened again, and what another process has claimed much later', async (t) => {
  const it = world(t);
  it.ownership.tell('self');
  await it.pass(1000);
  assert.equal(it.tried.length, 1);
  it.stopped('acme', false);
  await it.pass(3000);
  assert.equal(it.tried.length, 2);
  it.stopped('acme', true);
  await it.pass(20_000);
  assert.equal(it.tried.length, 2, 'its new owner is left alone');
  await it.pass(15_000);
  assert.equal(it.tried.length, 3, "the slot is still this process's");
});
