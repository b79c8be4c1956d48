// `npm start`: makes everything fresh, then serves in this same process, so that there is one process to signal and to wait for.
import { constants } from 'node:os';
import { fail, setup } from './setup.mjs';

/** A repeat within this time is the same Ctrl-C: npm passes on what the terminal has sent to the whole group already. */
const SAME_PRESS_MS = 1_000;

/**
 * Absorbs repeats of a signal. Without it the second one would kill a service that is closing; after SAME_PRESS_MS it is
 * meant, and ends the process at once.
 */
function absorbRepeats(signal) {
  let first;
  process.on(signal, () => {
    const served = process.listenerCount(signal) > 1;
    if (first === undefined && served) first = performance.now();
    else if (first === undefined || performance.now() - first > SAME_PRESS_MS)
      process.exit(128 + constants.signals[signal]);
  });
}

await setup().catch(fail);
absorbRepeats('SIGINT');
absorbRepeats('SIGTERM');
const main = new URL('../dist/program/main.js', import.meta.url);
process.argv.splice(1, process.argv.length - 1, main.pathname, 'serve', ...process.argv.slice(2));
await import(main.href);
