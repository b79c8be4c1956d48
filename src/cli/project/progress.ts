import progress from 'cli-progress';
import { pause } from '../../core/pause.js';
import type { CliIo } from '../io.js';
import type { CatchUpRecord } from './remote.js';

const POLL_MS = 200;

/** One wait: a bar on a terminal, elsewhere a line when it is over. */
export class Progress {
  readonly #output: CliIo['stdout'];
  readonly #what: string;
  readonly #bar: progress.SingleBar | undefined;
  #shown = false;

  constructor(output: CliIo['stdout'], what: string) {
    this.#output = output;
    this.#what = what;
    this.#bar =
      output.isTTY === true
        ? new progress.SingleBar(
            { format: `${what} {bar} {value}/{total} {rate}`, stream: output, clearOnComplete: true, hideCursor: true },
            progress.Presets.shades_classic,
          )
        : undefined;
  }

  show({ processed, total, eventsPerSecond }: Pick<CatchUpRecord, 'processed' | 'total' | 'eventsPerSecond'>): void {
    const payload = { rate: `${Math.round(eventsPerSecond).toLocaleString('en-US')} events/s` };
    if (!this.#shown) this.#bar?.start(total, processed, payload);
    this.#shown = true;
    this.#bar?.setTotal(total);
    this.#bar?.update(processed, payload);
  }

  done(outcome: string): void {
    this.#bar?.stop();
    this.#output.write(`${this.#what}: ${outcome}\n`);
  }

  stop(): void {
    this.#bar?.stop();
  }
}

/** Asks until there is an answer. */
export async function poll<T>(ask: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await pause(POLL_MS, { ref: true });
  }
}
