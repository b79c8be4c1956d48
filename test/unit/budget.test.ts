import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import fc from 'fast-check';
import { memoryLimits } from '../../src/app/memory-limits.js';
import { BUDGET_KINDS, MemoryBudget, type BudgetKind, type Hold } from '../../src/core/budget.js';
import { StatefoldError } from '../../src/core/errors.js';
import { EventLoopHolds } from '../../src/core/event-loop.js';

const refusedAs = (code: string) => (error: unknown) =>
  error instanceof StatefoldError && error.code === code && error.retryable && error.retryAfterSeconds === 1;
// Waits for memory alone keep no process up.
const alive = setInterval(() => undefined, 1000);
after(() => clearInterval(alive));
/** A time that no test reaches. */
const LONG = 1_000_000;

describe('the budgets of memory', () => {
  it('refuse past the share of a kind, by whose budget is spent, and go on when something is given back', () => {
    const budget = new MemoryBudget({ processBytes: 1600, tenantBytes: 800 });
    const [a, b] = [budget.tenant('a').hold('answers'), budget.tenant('b').hold('answers')];
    a.take(150);
    assert.throws(() => a.take(51), refusedAs('RATE_LIMITED'), 'a quarter of the budget of the tenant is 200');
    a.take(50);
    b.take(200);
    const c = budget.tenant('c').hold('answers');
    assert.throws(() => c.take(1), refusedAs('UNAVAILABLE'), 'a quarter of that of the process is 400');
    budget.tenant('a').hold('appends').take(400);
    b.sub(1);
    c.take(1);
    assert.deepEqual(
      [budget.held('answers'), budget.held('appends'), budget.held(), budget.largestTenant],
      [400, 400, 800, 600],
    );
    assert.deepEqual([budget.refusals('answers', 'tenant'), budget.refusals('answers', 'process')], [1, 1]);
  });

  it('are spent by all kinds together', () => {
    const budget = new MemoryBudget({ processBytes: 8000, tenantBytes: 800 });
    const tenant = budget.tenant('a');
    tenant.hold('appends').take(400);
    tenant.hold('entries').take(390);
    assert.equal(tenant.full('folds'), undefined);
    tenant.hold('folds').take(10);
    assert.equal(tenant.full('catch_ups'), 'tenant');
  });

  it('take one item of any size where nothing else of its kind is held', () => {
    const budget = new MemoryBudget({ processBytes: 1000, tenantBytes: 100 });
    const hold = budget.tenant('a').hold('uploads');
    assert.equal(hold.tryAdd(5000), true);
    assert.equal(hold.tryAdd(1), false);
  });

  it('give to those who wait in their order, as soon as there is room, and refuse who waited too long', async () => {
    const budget = new MemoryBudget({ processBytes: 1000, tenantBytes: 400 });
    const tenant = budget.tenant('a');
    const first = await tenant.acquire('answers', 60, LONG);
    const order: string[] = [];
    const waiting = ['second', 'third'].map((name) =>
      tenant.acquire('answers', 60, LONG).then((hold) => (order.push(name), hold)),
    );
    const other = await tenant.acquire('uploads', 60, LONG);
    await assert.rejects(tenant.acquire('answers', 1, 1), refusedAs('RATE_LIMITED'));
    assert.deepEqual(order, []);
    first.close();
    const second = (await waiting[0]) as Hold;
    assert.deepEqual(order, ['second']);
    second.close();
    ((await waiting[1]) as Hold).close();
    other.close();
    assert.deepEqual([order, budget.held()], [['second', 'third'], 0]);
  });

  it('look at one waiter a kind, however many wait, when something is given back or a wait is over', async () => {
    const budget = new MemoryBudget({ processBytes: 100_000, tenantBytes: 40_000 });
    const tenant = budget.tenant('a');
    const held = await tenant.acquire('uploads', 10_000, LONG);
    const other = await tenant.acquire('answers', 100, LONG);
    let looked = 0;
    const { account } = tenant;
    const takes = account.takes.bind(account);
    account.takes = (kind, bytes) => (looked++, takes(kind, bytes));
    const waiting = Array.from({ length: 2_000 }, (_, i) =>
      tenant.acquire('uploads', 10, i < 1_000 ? 1 : LONG).then(
        (hold) => hold.close(),
        (error: unknown) => assert.ok(refusedAs('RATE_LIMITED')(error)),
      ),
    );
    other.close();
    await Promise.all(waiting.slice(0, 1_000));
    // Each that is over is asked about once, for what to tell it, and the one behind it at most once.
    assert.ok(looked <= 2_100, `looked ${looked} times at who waits`);
    assert.equal(tenant.waiting('uploads'), 1_000);
    held.close();
    await Promise.all(waiting);
    assert.deepEqual([tenant.waiting('uploads'), budget.held()], [0, 0]);
  });

  it('ask before someone waits, tell when the wait is over, and keep nothing of who may not wait', async () => {
    const budget = new MemoryBudget({ processBytes: 1000, tenantBytes: 400 });
    const tenant = budget.tenant('a');
    let open = 0;
    const begin = (): (() => void) => {
      if (open === 2) throw new StatefoldError('RATE_LIMITED', 'too many wait', { retryAfterSeconds: 1 });
      open++;
      return () => void open--;
    };
    const first = await tenant.acquire('uploads', 90, LONG, begin);
    assert.equal(open, 0, 'it did not wait');
    const second = tenant.acquire('uploads', 90, LONG, begin);
    const third = tenant.acquire('uploads', 90, 1, begin);
    await assert.rejects(tenant.acquire('uploads', 90, LONG, begin), /too many wait/);
    assert.deepEqual([open, tenant.waiting('uploads')], [2, 2]);
    await assert.rejects(third, refusedAs('RATE_LIMITED'));
    first.close();
    (await second).close();
    assert.deepEqual([open, tenant.waiting('uploads'), budget.held()], [0, 0, 0]);
  });

  it('are 0 again whatever was held, given back, given back twice, or closed', () => {
    const kind = fc.constantFrom(...BUDGET_KINDS);
    const step = fc.record({
      hold: fc.nat(7),
      what: fc.constantFrom('add', 'tryAdd', 'sub', 'set', 'close'),
      bytes: fc.nat(300),
    });
    fc.assert(
      fc.property(fc.array(kind, { minLength: 8, maxLength: 8 }), fc.array(step), (kinds, steps) => {
        const budget = new MemoryBudget({ processBytes: 2000, tenantBytes: 1000 });
        const holds = kinds.map((one: BudgetKind, i) => budget.tenant(`t${i % 3}`).hold(one));
        for (const { hold, what, bytes } of steps) {
          const one = holds[hold] as Hold;
          if (what === 'close') one.close();
          else one[what as 'add' | 'sub' | 'set'](bytes);
          assert.equal(
            budget.held(),
            holds.reduce((sum, each) => sum + each.bytes, 0),
          );
        }
        for (const one of holds) one.close();
        assert.deepEqual(
          [budget.held(), budget.largestTenant, ...BUDGET_KINDS.map((one) => budget.held(one))],
          [...Array<number>(2 + BUDGET_KINDS.length).fill(0)],
        );
      }),
    );
  });

  it('leave room to a tenant that holds little, however many others hold as much as they may', () => {
    for (const kind of BUDGET_KINDS)
      for (const busy of [4, 8]) {
        const budget = new MemoryBudget({ processBytes: 64e6, tenantBytes: 16e6 });
        const holds = Array.from({ length: busy }, (_, i) => budget.tenant(`busy${i}`).hold(kind));
        for (const hold of holds) while (hold.tryAdd(1000));
        const idle = budget.tenant('idle');
        assert.equal(idle.full(kind), undefined, `${busy} tenants that are busy with ${kind}`);
        assert.equal(idle.hold(kind).tryAdd(100), true, `${busy} tenants that are busy with ${kind}`);
        assert.notEqual(holds[0]?.full, undefined);
      }
  });

  it('leave room to such a tenant where the others hold something of all kinds', () => {
    const budget = new MemoryBudget({ processBytes: 64e6, tenantBytes: 16e6 });
    for (let i = 0; i < 6; i++)
      for (const kind of BUDGET_KINDS) {
        const hold = budget.tenant(`busy${i}`).hold(kind);
        while (hold.tryAdd(1000));
      }
    for (const kind of BUDGET_KINDS) assert.equal(budget.tenant('idle').hold(kind).tryAdd(100), true, kind);
  });

  it('give to who waits behind one that waited too long', async () => {
    const budget = new MemoryBudget({ processBytes: 4000, tenantBytes: 1000 });
    const tenant = budget.tenant('a');
    tenant.hold('uploads').add(50);
    const large = assert.rejects(tenant.acquire('uploads', 240, 20), refusedAs('RATE_LIMITED'));
    const small = tenant.acquire('uploads', 100, LONG);
    await large;
    assert.equal((await small).bytes, 100);
  });

  it('come from the machine unless they are set', () => {
    const MIB = 1024 * 1024;
    const auto = { memoryBudgetBytes: 'auto', tenantMemoryBudgetBytes: 'auto' } as const;
    assert.deepEqual(memoryLimits(auto, { heap: 2048 * MIB, total: 8192 * MIB }), {
      processBytes: 1024 * MIB,
      tenantBytes: 128 * MIB,
    });
    assert.deepEqual(memoryLimits(auto, { heap: 2048 * MIB, total: 1024 * MIB }), {
      processBytes: 256 * MIB,
      tenantBytes: 64 * MIB,
    });
    assert.deepEqual(
      memoryLimits({ memoryBudgetBytes: 20 * MIB, tenantMemoryBudgetBytes: 30 * MIB }, { heap: 1, total: 1 }),
      { processBytes: 20 * MIB, tenantBytes: 20 * MIB },
    );
  });
});

it('the longest hold of the event loop is that of the last one to two minutes, by kind', () => {
  let now = 0;
  const holds = new EventLoopHolds(() => now);
  const slice = (milliseconds: number): unknown => holds.slice('pages', () => (now += milliseconds));
  slice(20);
  slice(70);
  assert.throws(() => holds.slice('store', () => (now += 5) && assert.fail('thrown')), /thrown/);
  assert.deepEqual([holds.longest('pages'), holds.longest('store'), holds.longest('bodies')], [0.07, 0.005, 0]);
  assert.deepEqual([holds.long('pages'), holds.long('store')], [1, 0]);
  now = 61_000;
  slice(30);
  assert.equal(holds.longest('pages'), 0.07);
  now += 61_000;
  assert.equal(holds.longest('pages'), 0.03);
  now += 200_000;
  assert.deepEqual([holds.longest('pages'), holds.long('pages')], [0, 1]);
});
