import { Worker, type ResourceLimits } from 'node:worker_threads';
import { OfOneEventError, StatefoldError } from '../core/errors.js';
import { TenantTurns } from '../inspection/tenant-turns.js';
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
   * The data, JSON, held against a schema that is JSON too; violations lie at JSON pointers below `at`. Those of a tenant are done in the
   * order of the calls, and tenants take turns.
   * @throws StatefoldError INVALID_REQUEST where the schema is none; RATE_LIMITED where its turn does not come in time; UNAVAILABLE where the
   * check takes too long, or the service ends
   */
  check(tenantId: string, schema: string, data: Buffer, at: string): Promise<DataCheck>;
}

/** Of the thread. The data of one event, parsed, takes a quarter of it. */
const HEAP: ResourceLimits = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32 };

const MIB = 1024 * 1024;
/** How long one may take, milliseconds: steps and bytes bound it to less than a second for each MiB, on a processor of its own. */
const deadlineMs = (bytes: number): number => 5_000 + (5_000 * bytes) / MIB;
/** How long a check waits for those of other tenants, milliseconds: more than one of them takes, of the largest body by default. */
const TURN_MS = 2 * deadlineMs(MIB);
const RETRY_AFTER_SECONDS = 5;

interface Asked {
  resolve(check: DataCheck): void;
  reject(error: unknown): void;
}

/** One thread for all tenants, which begins with the first large event. Of the tenants that wait the one that was served the longest ago is next. */
export class CheckThread implements LargeChecks {
  readonly #turns = new TenantTurns(1, 'a check of a large event', OfOneEventError);
  #asked: Asked | undefined;
  #isLate = false;
  #worker: Worker | undefined;
  #closed = false;
  readonly #heap: ResourceLimits;

  /** `heap`: what its parsed values may take; past it a value is too costly. */
  constructor(heap: ResourceLimits = HEAP) {
    this.#heap = heap;
  }

  check(tenantId: string, schema: string, data: Buffer, at: string): Promise<DataCheck> {
    return this.#turns.take(tenantId, TURN_MS, () => this.#check(schema, data, at));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#worker?.terminate();
  }

  async #check(schema: string, given: Buffer, at: string): Promise<DataCheck> {
    if (this.#closed) throw ending();
    const worker = (this.#worker ??= this.#start());
    worker.ref();
    this.#isLate = false;
    // A thread that is at something can be stopped from outside alone.
    const deadline = setTimeout(() => {
      this.#isLate = true;
      void worker.terminate();
    }, deadlineMs(given.length));
    // Its own bytes alone: a slice would bring along what it is a slice of.
    const data = new Uint8Array(given);
    try {
      return await new Promise<DataCheck>((resolve, reject) => {
        this.#asked = { resolve, reject };
        const question: CheckQuestion = { schema, data, at };
        worker.postMessage(question, [data.buffer]);
      });
    } finally {
      clearTimeout(deadline);
      this.#asked = undefined;
      worker.unref();
    }
  }

  #start(): Worker {
    const worker = new Worker(new URL('./check-worker.js', import.meta.url), { resourceLimits: this.#heap });
    let failure: NodeJS.ErrnoException | undefined;
    worker.on('message', (answer: CheckAnswer) => {
      if (this.#isLate) return; // the thread is ending
      const asked = this.#asked;
      if (answer.kind === 'unusable') asked?.reject(new StatefoldError('INVALID_REQUEST', answer.message));
      else asked?.resolve(answer);
    });
    worker.on('error', (error) => (failure = error as NodeJS.ErrnoException));
    worker.on('exit', () => {
      this.#worker = undefined;
      const asked = this.#asked;
      if (failure?.code === 'ERR_WORKER_OUT_OF_MEMORY') asked?.resolve(TOO_COSTLY);
      else if (this.#closed) asked?.reject(ending());
      else asked?.reject(this.#isLate ? tooLate() : (failure ?? new Error('the thread of checks ended')));
    });
    return worker;
  }
}

const tooLate = (): StatefoldError =>
  new OfOneEventError(
    'UNAVAILABLE',
    'the check of a large event took longer than it may, and was ended: send the request again later, with less data or a simpler schema of its type',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );

const ending = (): StatefoldError => new StatefoldError('UNAVAILABLE', 'the service is ending');
