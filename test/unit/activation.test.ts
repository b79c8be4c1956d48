import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NotOwnerError } from '../../src/core/errors.js';
import { Activation } from '../../src/tenancy/activation.js';

/** One whose steps end when they are told to. */
class SteppedTask extends Activation {
  readonly slotKey = 't1';
  readonly section = 't1';
  readonly idle = true;
  readonly told: string[] = [];
  led!: () => void;
  shut!: () => void;

  protected override restore(): Promise<void> {
    return Promise.resolve();
  }
  protected override follow(): void {
    this.told.push('follow');
  }
  protected override take(): Promise<void> {
    return Promise.resolve();
  }
  protected override lead(): Promise<void> {
    this.told.push('lead');
    return new Promise((resolve) => (this.led = resolve));
  }
  protected override serve(): void {
    this.told.push('serve');
  }
  protected override suspend(): void {
    this.told.push('suspend');
  }
  protected override shutDown(): Promise<void> {
    return new Promise((resolve) => (this.shut = resolve));
  }
}

for (const standby of [false, true])
  test(`${standby ? 'a standby' : 'one'} that is closed while it is made ready serves never`, async () => {
    const task = new SteppedTask(() => assert.fail('it did not stop by itself'));
    const served = standby ? task.open({ standby }).then(() => task.promote()) : task.open();
    const refused = assert.rejects(served, NotOwnerError);
    while (!task.told.includes('lead')) await Promise.resolve();
    const closed = task.close();
    task.led();
    await refused;
    task.shut();
    await closed;
    assert.deepEqual(task.told, [...(standby ? ['follow'] : []), 'lead', 'suspend']);
    assert.equal(task.status, 'CLOSED');
  });

test('one that is made ready serves', async () => {
  const task = new SteppedTask(() => assert.fail('it did not stop by itself'));
  const opened = task.open();
  while (!task.told.includes('lead')) await Promise.resolve();
  assert.equal(task.status, 'RESTORING');
  task.led();
  await opened;
  assert.deepEqual([task.status, ...task.told], ['RUNNING', 'lead', 'serve']);
});
