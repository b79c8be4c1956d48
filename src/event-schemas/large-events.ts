import { Worker, type ResourceLimits } from 'node:worker_threads';
import { StatefoldError } from '../core/errors.js';
import { TOO_COSTLY, type DataCheck } from './data-check.js';
import type { CheckAnswer, CheckQuestion } from './check-worker.js';

/**
 * Data of an event from this size on, bytes, is parsed and checked by a thread of its own. Parsing alone holds a thread for 130 ms where
 * a megabyte is of small objects with names that all differ, and a check may take as long.
 */
export const LARGE_EVENT = 64 * 1024;

/** Checks data that is too large for the event loop. */
export interface LargeChecks {
  /**
   * The data, JSON, held against a schema that is JSON too; violations lie at JSON pointers below `at`. Done in the order of the calls.
   * @throws StatefoldError INVALID_REQUEST where the schema is none; UNAVAILABLE where the service ends
   */
  check(schema: string, data: Buffer, at: string): Promise<DataCheck>;
}

/** Of the thread. The data of one event, parsed, takes a quarter of it. */
const HEAP: ResourceLimits = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32 };

interface Waiting {
  readonly schema: string;
  readonly data: Buffer;
  readonly at: string;
  resolve(check: DataCheck): void;
  reject(error: unknown): void;
}

/** One thread for all tenants, which begins with the first large event; a tenant asks for its next check when it has the last one. */
export class CheckThread implements LargeChecks {
  readonly #waiting: Waiting[] = [];
  #asked: Waiting | undefined;
  #worker: Worker | undefined;
  #closed = false;
  readonly #heap: ResourceLimits;

  /** `heap`: what its parsed values may take; past it a value is too costly. */
  constructor(heap: ResourceLimits = HEAP) {
    this.#heap = heap;
  }

  check(schema: string, data: Buffer, at: string): Promise<DataCheck> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ schema, data, at, resolve, reject });
      if (this.#asked === undefined) this.#next();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#worker?.terminate();
  }

  #next(): void {
    if (this.#closed) for (const one of this.#waiting.splice(0)) one.reject(ending());
    const next = this.#waiting.shift();
    this.#asked = next;
    if (next === undefined) {
      this.#worker?.unref();
      return;
    }
    const worker = (this.#worker ??= this.#start());
    worker.ref();
    // Its own bytes alone: a slice would bring along what it is a slice of.
    const data = new Uint8Array(next.data);
    const question: CheckQuestion = { schema: next.schema, data, at: next.at };
    worker.postMessage(question, [data.buffer]);
  }

  #start(): Worker {
    const worker = new Worker(new URL('./check-worker.js', import.meta.url), { resourceLimits: this.#heap });
    let failure: NodeJS.ErrnoException | undefined;
    worker.on('message', (answer: CheckAnswer) => {
      const asked = this.#asked;
      if (answer.kind === 'unusable') asked?.reject(new StatefoldError('INVALID_REQUEST', answer.message));
      else asked?.resolve(answer);
      this.#next();
    });
    worker.on('error', (error) => (failure = error as NodeJS.ErrnoException));
    worker.on('exit', () => {
      this.#worker = undefined;
      const asked = this.#asked;
      if (failure?.code === 'ERR_WORKER_OUT_OF_MEMORY') asked?.resolve(TOO_COSTLY);
      else asked?.reject(this.#closed ? ending() : (failure ?? new Error('the thread of checks ended')));
      this.#next();
    });
    return worker;
  }
}

const ending = (): StatefoldError => new StatefoldError('UNAVAILABLE', 'the service is ending');
