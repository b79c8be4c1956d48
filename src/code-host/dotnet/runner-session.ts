import { nextTurn, oneSlice, type Sliced } from '../../core/slices.js';
import { FrameWriter } from './frame-writer.js';
import { HostProcess, type ProcessEnd } from './host-process.js';
import { type Launch, launchOf } from './launch.js';
import type { ResolvedOptions } from './options.js';
import { encodeLoad, encodeNamed } from './runner-codec.js';
import { type Frame, FrameTooLargeError, Tag, WireError } from './wire.js';

/** Why a request came to nothing. */
export class RunnerFailure extends Error {
  override readonly name = 'RunnerFailure';
  /**
   * `ended`: the process went, for whatever reason. `overran`: it was killed for taking too long. `start`: it never came up.
   * `too-large`: a frame of this request would pass the limit; the process lives.
   */
  readonly kind: 'ended' | 'overran' | 'start' | 'too-large';
  readonly killedFromOutside: boolean;
  /** It was killed for what it took; which of the events that it ran is to blame is not known. */
  readonly exceeded: boolean;

  constructor(kind: RunnerFailure['kind'], message: string, { killedFromOutside = false, exceeded = false } = {}) {
    super(message);
    this.kind = kind;
    this.killedFromOutside = killedFromOutside;
    this.exceeded = exceeded;
  }
}

export interface Exchange<T> {
  /** Runs from when the runner has this request before it. */
  readonly deadlineMs: number;
  readonly encode: (writer: FrameWriter, requestId: number) => void;
  /** Writes the states that the runner lacks; the writer stands behind the frame's head. */
  readonly supply?: (missing: Buffer, writer: FrameWriter) => Sliced<void>;
  /** @throws WireError */
  readonly decode: (frame: Frame) => Sliced<T>;
}

interface Pending {
  readonly requestId: number;
  readonly exchange: Exchange<unknown>;
  readonly writer: FrameWriter;
  readonly resolve: (value: unknown) => void;
  readonly reject: (failure: RunnerFailure) => void;
  /** The runner has asked for the states that it lacks. */
  supplied: boolean;
}

/**
 * One life of a runner's process. Requests are answered in the order in which they were sent; the first of those that wait is
 * the one that the process is at, and only its deadline runs.
 */
export class RunnerSession {
  readonly #options: ResolvedOptions;
  readonly #process: HostProcess;
  readonly #pending: Pending[] = [];
  readonly #writers: FrameWriter[] = [];
  readonly #loaded = new Set<string>();
  #requestId = 0;
  #timer: NodeJS.Timeout | undefined;
  #overran: number | undefined;
  #exceeded = false;
  #isReady = false;
  /** A frame is being worked off; those that came behind it wait. */
  #working = false;
  readonly #frames: Frame[] = [];

  constructor(tenantId: string, options: ResolvedOptions, onEnd: (session: RunnerSession) => void) {
    this.#options = options;
    const { observer, logger } = options;
    this.#process = new HostProcess(runnerLaunch(options), options.workDir, {
      onFrame: (frame) => this.#receive(frame),
      expects: () => this.#pending.length > 0,
      onEnd: (end) => {
        const { pid } = this.#process;
        observer.onProcessEnd?.({ role: 'runner', tenantId, pid, reason: end.reason });
        const level = ([IDLE, CLOSED, YIELDED] as string[]).includes(end.reason) ? 'debug' : 'warn';
        logger[level]({ tenantId, pid, reason: end.reason, stderr: end.stderr }, 'a runner ended');
        this.#failAll(end);
        onEnd(this);
      },
    });
    if (this.#process.pid !== undefined)
      observer.onProcessStart?.({ role: 'runner', tenantId, pid: this.#process.pid });
    this.#arm(options.startDeadlineMs);
    void this.#process.ready.then((ready) => {
      if (!ready) return;
      this.#isReady = true;
      this.#armHead();
    });
  }

  get alive(): boolean {
    return this.#process.alive;
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Resolves when it takes requests, or has ended. */
  get up(): Promise<unknown> {
    return this.#process.ready;
  }

  has(artefactId: string): boolean {
    return this.#loaded.has(artefactId);
  }

  /** Goes before the requests that follow; what is wrong with the artefact shows in them. */
  load(artefactId: string, assembly: Buffer): void {
    this.#loaded.add(artefactId);
    const loading = this.exchange({
      deadlineMs: this.#options.startDeadlineMs,
      encode: (writer, requestId) => encodeLoad(writer, requestId, artefactId, assembly),
      decode: (frame) => oneSlice(() => expectTag(frame, Tag.Loaded)),
    });
    // The request behind it fails with it, and tells.
    loading.catch(() => undefined);
  }

  unload(artefactId: string): void {
    if (this.#loaded.delete(artefactId)) this.#tell(Tag.Unload, artefactId);
  }

  forget(unitId: string): void {
    this.#tell(Tag.Forget, unitId);
  }

  /** @throws RunnerFailure */
  exchange<T>(exchange: Exchange<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (!this.alive) {
        reject(new RunnerFailure('ended', 'its process had ended', { killedFromOutside: true }));
        return;
      }
      const writer = this.#writers.pop() ?? new FrameWriter();
      const requestId = ++this.#requestId;
      try {
        exchange.encode(writer, requestId);
      } catch (error) {
        this.#writers.push(writer);
        reject(error instanceof FrameTooLargeError ? new RunnerFailure('too-large', error.message) : (error as Error));
        return;
      }
      this.#pending.push({
        requestId,
        exchange,
        writer,
        resolve: resolve as (value: unknown) => void,
        reject,
        supplied: false,
      });
      this.#process.send(writer.end());
      if (this.#pending.length === 1) this.#armHead();
    });
  }

  stop(reason: StopReason): Promise<void> {
    this.#process.kill(reason);
    return this.#process.ended;
  }

  /** Kills it for what it takes. */
  exceeded(reason: string): void {
    if (!this.alive) return;
    this.#exceeded = true;
    this.#process.kill(reason);
  }

  #tell(tag: number, name: string): void {
    if (!this.alive) return;
    const writer = new FrameWriter();
    encodeNamed(writer, tag, name);
    this.#process.send(writer.end());
  }

  #receive(frame: Frame): void {
    if (!this.#working) return this.#take(frame);
    // An answer to each request, and no more: a runner that speaks out of turn fills no memory here.
    if (this.#frames.length >= this.#pending.length) throw new WireError('an answer that nobody asked for');
    this.#frames.push(frame);
  }

  #take(frame: Frame): void {
    const head = this.#pending[0];
    if (head === undefined || frame.requestId !== head.requestId)
      throw new WireError('an answer that nobody asked for');
    if (frame.tag === Tag.Missing && head.exchange.supply !== undefined) return this.#supply(head, frame);
    if (frame.tag === Tag.TooLarge)
      return this.#answered(head, new RunnerFailure('too-large', 'the answer would be too large'));
    this.#work(head.exchange.decode(frame), (answer) => this.#answered(head, answer));
  }

  #answered(head: Pending, answer: unknown): void {
    if (this.#pending[0] !== head) return; // the process ended meanwhile, and with it the request
    this.#pending.shift();
    this.#writers.push(head.writer);
    this.#armHead();
    if (answer instanceof RunnerFailure) head.reject(answer);
    else head.resolve(answer);
  }

  #supply(head: Pending, frame: Frame): void {
    if (head.supplied) throw new WireError('it asked twice for the states of one request');
    head.supplied = true;
    // The runner has read the request: its buffer is free.
    head.writer.begin(head.requestId, Tag.States);
    const supply = head.exchange.supply?.(frame.payload, head.writer);
    if (supply === undefined) return;
    this.#work(supply, () => this.#process.send(head.writer.end()));
  }

  /** What is little is done at once, since a push waits for it; the rest in slices, without the deadline of the code. */
  #work<T>(work: Sliced<T>, done: (value: T) => void): void {
    const first = this.#slice(work);
    if (first === undefined) return;
    if (first.done === true) return done(first.value);
    clearTimeout(this.#timer);
    this.#working = true;
    void this.#workOn(work, done);
  }

  async #workOn<T>(work: Sliced<T>, done: (value: T) => void): Promise<void> {
    let slice: IteratorResult<void, T> | undefined;
    try {
      do {
        await nextTurn();
        slice = this.alive ? this.#slice(work) : undefined;
      } while (slice?.done === false);
      this.#working = false;
      if (slice === undefined) return;
      // While a runner waits for the service, that time is not its code's.
      this.#armHead();
      done(slice.value as T);
      // One of them may take its time too.
      while (!this.#isWorking() && this.alive) {
        const frame = this.#frames.shift();
        if (frame === undefined) return;
        this.#take(frame);
      }
    } catch (error) {
      this.#working = false;
      // Whatever it is, it comes of what this runner said: it ends, and nothing else.
      if (!(error instanceof WireError)) this.#options.logger.error({ err: error }, 'an answer of a runner could not be read');
      this.#process.kill(`spoke garbage: ${(error as Error).message}`);
    }
  }

  #isWorking(): boolean {
    return this.#working;
  }

  /** Undefined: the process had to be ended. */
  #slice<T>(work: Sliced<T>): IteratorResult<void, T> | undefined {
    try {
      return work.next();
    } catch (error) {
      if (!(error instanceof FrameTooLargeError)) throw error;
      // It waits for states that can't be sent at once: it has to go, and the events are fed one by one.
      this.#process.kill('the states of one request were too large');
      return undefined;
    }
  }

  #armHead(): void {
    clearTimeout(this.#timer);
    if (!this.#isReady) this.#arm(this.#options.startDeadlineMs);
    else if (this.#pending[0] !== undefined) this.#arm(this.#pending[0].exchange.deadlineMs);
  }

  #arm(milliseconds: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#overran = milliseconds;
      this.#process.kill(`overran its ${milliseconds.toLocaleString('en-US')} ms`);
    }, milliseconds);
  }

  #failAll(end: ProcessEnd): void {
    clearTimeout(this.#timer);
    let failure: RunnerFailure;
    if (end.neverReady && !end.killedFromOutside && end.reason !== CLOSED)
      failure = new RunnerFailure('start', end.reason);
    else if (this.#overran !== undefined) failure = new RunnerFailure('overran', end.reason);
    else {
      const { killedFromOutside } = end;
      failure = new RunnerFailure('ended', end.killedHere ? end.reason : `ended the process (${end.reason})`, {
        killedFromOutside,
        exceeded: this.#exceeded,
      });
    }
    for (const pending of this.#pending.splice(0)) pending.reject(failure);
  }
}

export const IDLE = 'idle';
export const CLOSED = 'closed';
/** Another tenant's turn. */
export const YIELDED = 'made room';
export type StopReason = typeof IDLE | typeof CLOSED | typeof YIELDED;

export function expectTag(frame: Frame, tag: number): void {
  if (frame.tag !== tag) throw new WireError(`expected an answer ${tag}, not ${frame.tag}`);
}

const runnerLaunch = (options: ResolvedOptions): Launch =>
  launchOf(
    'runner',
    options,
    options.heapLimitBytes,
    [options.cacheEntries, options.cacheBytes, options.maxStateBytes].map(String),
  );
