import assert from 'node:assert/strict';
import test from 'node:test';
import { InvariantError, NotOwnerError, StatefoldError } from '../../src/core/errors.js';
import { silentLogger, type Logger } from '../../src/core/logger.js';
import { Activation } from '../../src/tenancy/activation.js';
import { TaskRegistry } from '../../src/tenancy/task-registry.js';
import { until } from '../support/service.js';

/** A task whose opening waits until it is told how it ends; closing ends it too. */
class FakeTask extends Activation {
  readonly idle = true;
  closed = false;
  readonly #restored: Promise<void>;
  restored!: (error?: Error) => void;

  constructor(
    readonly slotKey: string,
    readonly section: string,
    onStopped: (error: Error) => void,
  ) {
    super(onStopped);
    this.#restored = new Promise((resolve, reject) => {
      this.restored = (error) => (error === undefined ? resolve() : reject(error));
    });
    this.#restored.catch(() => undefined);
  }

  protected override restore(): Promise<void> {
    return this.#restored;
  }
  protected override follow(): void {
    return;
  }
  protected override take(): Promise<void> {
    return Promise.resolve();
  }
  protected override lead(): Promise<void> {
    return Promise.resolve();
  }
  protected override serve(): void {
    return;
  }
  protected override suspend(): void {
    return;
  }
  protected override shutDown(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }
}

interface World {
  readonly registry: TaskRegistry<FakeTask>;
  readonly made: FakeTask[];
  /** What the tenant is stored as now. */
  section: string | undefined;
  readonly opened: FakeTask[];
  readonly closed: FakeTask[];
}

function world(
  t: test.TestContext,
  prepare?: (section: string) => Promise<void>,
  logger: Logger = silentLogger,
): World {
  const made: FakeTask[] = [];
  const [opened, closed] = [[] as FakeTask[], [] as FakeTask[]];
  const registry = new TaskRegistry<FakeTask>({
    sectionOf: () => it.section,
    create: (key, onStopped) => {
      const task = new FakeTask(key, it.section ?? '', onStopped);
      made.push(task);
      return task;
    },
    prepare,
    logger,
    idleMs: 600_000,
    ownership: { ownerOf: () => 'self', owns: () => true, onChange: () => undefined },
    onOpened: (task) => void opened.push(task),
    onClosed: (task) => void closed.push(task),
  });
  const it: World = { registry, made, section: 'acme', opened, closed };
  t.after(() => {
    for (const task of made) task.restored();
    return registry.close();
  });
  return it;
}

/** Lets all go on that waits for nothing but a promise that is settled. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function taskOf({ made }: World, i: number): Promise<FakeTask> {
  while (made[i] === undefined) await turn();
  return made[i];
}

test('what is removed while it is being opened never serves, and the next one does not wait for it', async (t) => {
  const it = world(t);
  const first = it.registry.open('acme');
  const doomed = await taskOf(it, 0);
  const removal = it.registry.remove('acme');
  assert.equal(it.registry.active('acme'), undefined);
  it.section = 'acme_2';
  const second = it.registry.open('acme');
  const next = await taskOf(it, 1);
  next.restored();
  assert.equal(await second, next, 'though the first one hangs');
  await removal;
  assert.ok(doomed.closed);
  doomed.restored();
  await assert.rejects(first, NotOwnerError);
  assert.equal(it.registry.active('acme'), next);
  assert.deepEqual([it.opened, it.closed], [[next], []]);
});

test('what is removed on the turn on which it is asked for leaves nothing that waits', async (t) => {
  const it = world(t);
  const opening = it.registry.open('acme');
  const removal = it.registry.remove('acme');
  await assert.rejects(opening, NotOwnerError);
  await removal;
  const again = it.registry.open('acme');
  (await taskOf(it, it.made.length)).restored();
  assert.equal(await again, it.made.at(-1));
});

test('what is being opened keeps nothing from being closed', async (t) => {
  const it = world(t);
  const opening = it.registry.open('acme');
  const hanging = await taskOf(it, 0);
  it.section = 'other';
  const served = it.registry.open('other');
  (await taskOf(it, 1)).restored();
  const task = await served;
  await it.registry.close();
  assert.deepEqual([hanging.closed, task.closed], [true, true]);
  hanging.restored();
  await assert.rejects(opening, NotOwnerError);
});

test('nothing of one section is opened before what had it is closed', async (t) => {
  const it = world(t);
  const first = it.registry.open('acme');
  (await taskOf(it, 0)).restored();
  const task = await first;
  let close = (): void => undefined;
  const closing = new Promise<void>((resolve) => (close = resolve));
  task.close = () => closing;
  void it.registry.passivate('acme');
  const second = it.registry.open('acme');
  await turn();
  assert.equal(it.made.length, 1);
  close();
  (await taskOf(it, 1)).restored();
  assert.equal(await second, it.made[1]);
  assert.deepEqual(it.closed, [task]);
});

test('what its log keeps from being opened is tried again after a pause, anything else at once', async (t) => {
  const { registry, made } = world(t);
  const attempt = async (error: Error): Promise<void> => {
    const refused = assert.rejects(registry.open('acme'), { code: 'UNAVAILABLE' });
    // It is made by then, if one is.
    await new Promise((resolve) => setImmediate(resolve));
    made.at(-1)?.restored(error);
    await refused;
  };
  for (let i = 1; i <= 3; i++) {
    await attempt(new Error('the log is away'));
    assert.equal(made.length, i);
  }
  for (let i = 0; i < 100; i++) await attempt(new InvariantError('a record of a schema that is not known'));
  assert.equal(made.length, 4);
  await until(() => {
    registry.open('acme').catch(() => undefined);
    return made.length === 5;
  });
  made[4]?.restored();
  assert.equal(await registry.open('acme'), made[4]);
});

test('a tenant that can not be restored for what its log has lost is told of behind one that the log was away for', async (t) => {
  const lines: unknown[] = [];
  const { registry, made } = world(t, undefined, {
    ...silentLogger,
    error: (fields: object) => void lines.push((fields as { readonly err: Error }).err.message),
  });
  for (const error of [new Error('away'), new Error('away'), new InvariantError('the log lost data')]) {
    const opening = registry.open('acme').catch((refusal: unknown) => refusal);
    await new Promise((resolve) => setImmediate(resolve));
    made.at(-1)?.restored(error);
    await opening;
  }
  assert.deepEqual(lines, ['away', 'the log lost data']);
});

test('a tenant that can not be restored is told of once, and when it is', async (t) => {
  const lines: string[] = [];
  const note = (_fields: object, message: string): void => void lines.push(message);
  const { registry, made } = world(t, undefined, { ...silentLogger, error: note, info: note });
  const attempt = async (error?: Error): Promise<unknown> => {
    const opening = registry.open('acme').catch((refusal: unknown) => refusal);
    await new Promise((resolve) => setImmediate(resolve));
    made.at(-1)?.restored(error);
    return opening;
  };
  for (let i = 0; i < 20; i++)
    assert.equal(((await attempt(new Error('the log is away'))) as StatefoldError).code, 'UNAVAILABLE');
  assert.deepEqual(lines, ['a tenant could not be restored; it is tried again']);
  assert.equal(await attempt(), made.at(-1));
  assert.deepEqual(lines.slice(1), ['the tenant is restored now']);
  await registry.remove('acme');
  await attempt(new Error('the log is away'));
  assert.equal(lines.length, 3);
});

test('a removal before the task is made makes none', async (t) => {
  let prepared = (): void => undefined;
  const it = world(t, () => new Promise<void>((resolve) => (prepared = resolve)));
  const opening = it.registry.open('acme');
  await turn();
  const removal = it.registry.remove('acme');
  prepared();
  await assert.rejects(opening, NotOwnerError);
  await removal;
  assert.equal(it.made.length, 0);
});

test('a standby is promoted, also while it only begins to follow; one of a tenant that is not there says so', async (t) => {
  const it = world(t);
  void it.registry.standBy('acme');
  const standby = await taskOf(it, 0);
  const opening = it.registry.open('acme');
  assert.equal(it.registry.open('acme'), opening);
  standby.restored();
  assert.equal(await opening, standby);
  assert.deepEqual([standby.status, it.registry.standbyKeys, it.registry.activeKeys], ['RUNNING', [], ['acme']]);
  await it.registry.passivate('acme');
  it.section = undefined;
  for (const attempt of [it.registry.open('acme'), it.registry.standBy('acme')])
    await assert.rejects(attempt, (error) => error instanceof StatefoldError && error.code === 'NOT_FOUND');
});

test('what stops by itself makes room; a late stop of a former one takes nothing from the next', async (t) => {
  const it = world(t);
  const first = it.registry.open('acme');
  const former = await taskOf(it, 0);
  former.restored();
  await first;
  former.stopped(new Error('the log is broken'));
  assert.equal(it.registry.active('acme'), undefined);
  const second = it.registry.open('acme');
  const next = await taskOf(it, 1);
  next.restored();
  await second;
  former.stopped(new Error('again'));
  assert.equal(it.registry.active('acme'), next);
  assert.deepEqual(it.closed, [former]);
});
