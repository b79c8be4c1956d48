// A process that does one thing to a whole projection, or to a whole tenant, and kills itself between two of its slices:
// `many-keys-process.js <directory> <operation> <slices>`.
import { fileURLToPath } from 'node:url';
import { silentLogger } from '../../src/core/logger.js';
import { StorePace } from '../../src/jobs/sliced-job.js';
import { LocalStore } from '../../src/store/local-store.js';
import { ManyKeysWorld, PROJECTION, TENANT } from './many-keys-world.js';

export const OPERATIONS = ['redeploy', 'rebuild', 'rollback', 'follow', 'drop', 'trim', 'remove'] as const;
export type Operation = (typeof OPERATIONS)[number];

/** So small that there are many slices, and the disk has what the last of them did. */
export const SMALL = { rowsPerSlice: 8, flushEntries: 50 };

/** Dies when so many slices have been done, from now on, and what they did up to then is on the disk, or some of it. */
function dieAfter(slices: number): void {
  const { next } = Object.getOwnPropertyDescriptors(StorePace.prototype);
  let left = slices;
  StorePace.prototype.next = async function (): Promise<void> {
    await next.value?.call(this);
    if (--left === 0) process.kill(process.pid, 'SIGKILL');
  };
}

async function run(directory: string, operation: Operation, slices: number): Promise<void> {
  const world = new ManyKeysWorld({ after: () => undefined }, { directory, ...SMALL });
  world.deployed(2, 2);
  if (operation === 'follow') {
    const standby = await world.open('standby', { standby: true });
    const owner = await world.open('store');
    world.deploy(owner, 3, 3);
    await owner.untilLive(3);
    await owner.untilSwept();
    // An input after the swap: a standby takes no swap for whole before.
    dieAfter(slices);
    await world.append(owner, 1);
    await standby.untilSwept();
    return;
  }
  const seat = await world.open('store');
  if (operation === 'remove') {
    await seat.close();
    const store = new LocalStore({ path: seat.store.path, logger: silentLogger });
    const immediate = setImmediate;
    let left = slices;
    // Between the slices of a removal the event loop turns once.
    Object.assign(globalThis, {
      setImmediate: (then: () => void) =>
        immediate(() => (--left === 0 ? process.kill(process.pid, 'SIGKILL') : then())),
    });
    return store.drop(TENANT);
  }
  if (operation === 'trim') await world.expire();
  dieAfter(slices);
  if (operation === 'redeploy') world.deploy(seat, 3, 3);
  else if (operation === 'rebuild') world.deploy(seat, 3, 2, 'rebuild');
  else if (operation === 'rollback') world.deploy(seat, 3, 1, 'rollback');
  else if (operation === 'drop') world.drop(seat);
  else await seat.task.changes.of(PROJECTION).start();
  await new Promise((resolve) => setTimeout(resolve, 600_000));
}

/** The compiled entry, for whoever starts it. */
export const MANY_KEYS_PROCESS = fileURLToPath(import.meta.url);

const [, program, directory, operation, slices] = process.argv;
if (program === MANY_KEYS_PROCESS && directory !== undefined)
  await run(directory, operation as Operation, Number(slices));
