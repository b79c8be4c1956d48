// The simulator's log is one more adapter: what is proved on it holds of the others only if it keeps what they keep.
import { logContract } from '../contracts/log.contract.js';
import type { Log } from '../../src/log/log.js';
import { Scheduler, type SimProcess } from './scheduler.js';
import { NO_FAULTS, SimLog } from './sim-log.js';

logContract(
  "the simulator's",
  () => {
    const scheduler = new Scheduler(7);
    const timers = new Set<NodeJS.Timeout>();
    let moved = 0;
    const sim = new SimLog(scheduler, NO_FAULTS, {
      whole: true,
      after: (milliseconds, run) => {
        const timer = setTimeout(() => {
          timers.delete(timer);
          run();
        }, milliseconds);
        timers.add(timer);
      },
      now: () => Date.now() + moved,
    });
    const process: SimProcess = { id: 'p', alive: true, paused: false };
    // What may happen next happens, one thing after the other, until the test is over.
    let running = true;
    void (async () => {
      while (running) if (!(await scheduler.next())) await scheduler.turn();
    })();
    let log = sim.client(process);
    return Promise.resolve({
      log,
      upkeep: {
        advance: (milliseconds) => void (moved += milliseconds),
        clean: () => Promise.resolve(sim.clean()),
      },
      reopen: async (): Promise<Log> => {
        await log.close();
        return (log = sim.client(process));
      },
      dispose: () => {
        running = false;
        process.alive = false;
        for (const timer of timers) clearTimeout(timer);
        return Promise.resolve();
      },
    });
  },
  { upkeep: true },
);
