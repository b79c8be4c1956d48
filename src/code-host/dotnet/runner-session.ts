import { eventLoop } from '../../core/event-loop.js';
import type { HostEvent, Unit } from '../code-host.js';
import { unitIdOf } from './unit-id.js';
import { FrameWriter } from './frame-writer.js';
import { HostProcess, type ProcessEnd } from './host-process.js';
import { type Launch, launchOf } from '../../jail/launch.js';
import type { ResolvedOptions } from './options.js';
import { encodeLoad, encodeNamed } from './runner-codec.js';
import type { Sliced } from '../../core/slices.js';
import { sliceFrame } from './frame-slices.js';
import { type Frame, FrameTooLargeError, Tag, WireError } from './wire.js';
import { type Overrun, WorkDeadline } from './work-deadline.js';

/** Why a request came to nothing. */
export class RunnerFailure extends Error {
  override readonly name = 'RunnerFailure';
  /**
   * `ended`: the process went, for whatever reason. `overran`: it was killed for taking too long. `breach`: it was killed for what
   * it said, and whose code that was has a strike already. `start`: it never came up. `starved`: others kept it from the processors.
   * `too-large`: a frame of this request would pass the limit; the process lives.
   */
  readonly kind: 'ended' | 'overran' | 'breach' | 'start' | 'starved' | 'too-large';
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
  /** Of the payload of whatever the runner may say to it; more is refused before it is read. */
  readonly mostBytes: number;
  /** What it is fed; undefined: nothing. */
  readonly events?: () => readonly HostEvent[];
  readonly encode: (writer: FrameWriter, requestId: number) => void;
  /** Writes the states that the runner lacks; the writer stands behind the frame's head. */
  readonly supply?: (missing: Buffer, writer: FrameWriter) => Sliced<void>;
  /** @throws WireError */
  readonly decode: (frame: Frame) => Sliced<T>;
}

interface Pending {
  readonly requestId: number;
  readonly exchange: Exchange<unknown>;
  /** Whose code runs in it. */
  readonly units: readonly Unit[];
  readonly writer: FrameWriter;
  readonly resolve: (value: unknown) => void;
  readonly reject: (failure: Error) => void;
  /** The runner has asked for the states that it lacks. */
  supplied: boolean;
  /** What it said is large: a process that ends over it leaves that behind. */
  marked: boolean;
}

/**
 * One life of a runner's process. Requests are answered in the order in which they were sent; the first of those that wait is
 * the one that the process is at, and only its deadline runs.
 */
export class RunnerSession {
  readonly #options: ResolvedOptions;
  readonly #tenantId: string;
  readonly #process: HostProcess;
  readonly #pending: Pending[] = [];
  readonly #writers: FrameWriter[] = [];
  readonly #loaded = new Set<string>();
  #requestId = 0;
  readonly #deadline: WorkDeadline;
  #overran: Overrun | undefined;
  #exceeded = false;
  #isReady = false;
  /** Its answer is here, and being read: whatever becomes of the process. */
  #reading: Pending | undefined;
  /** Of the request that was answered last. */
  #lastUnits: readonly Unit[] = [];
  /** When it began what it is at; undefined: it has nothing to do. */
  #busySince: number | undefined = performance.now();
  #busyMs = 0;

  constructor(
    tenantId: string,
    options: ResolvedOptions,
    onEnd: (session: RunnerSession, breach: string | undefined) => void,
  ) {
    this.#options = options;
    this.#tenantId = tenantId;
    const { observer, logger } = options;
    const launch = { ...runnerLaunch(options), niceness: options.runnerNiceness(tenantId) };
    this.#process = new HostProcess(launch, options.workDir, {
      onFrame: (frame) => eventLoop.slice('runner_frames', () => this.#receive(frame)),
      expects: () => this.#pending.length > 0,
      mostBytes: () => this.#pending[0]?.exchange.mostBytes ?? 0,
      onUnexpected: (err) => logger.error({ err, tenantId }, 'what a runner said could not be read'),
      onStart: (pid) => observer.onProcessStart?.({ role: 'runner', tenantId, pid }),
      onEnd: (end) => {
        const { pid } = this.#process;
        observer.onProcessEnd?.({ role: 'runner', tenantId, pid, reason: end.reason });
        const level = ([IDLE, CLOSED, YIELDED] as string[]).includes(end.reason) ? 'debug' : 'warn';
        logger[level]({ tenantId, pid, reason: end.reason, stderr: end.stderr }, 'a runner ended');
        const blamed = end.breach ? end.reason : undefined;
        onEnd(this, blamed);
        this.#failAll(end);
      },
    });
    this.#deadline = new WorkDeadline({
      pid: () => this.#process.pid,
      onOverrun: (overrun) => {
        this.#overran = overrun;
        this.#process.kill(overrun.reason);
      },
    });
    this.#deadline.arm(options.startDeadlineMs);
    void this.#process.ready.then((ready) => {
      if (!ready) return;
      this.#isReady = true;
      this.#rest();
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

  /** Whose code is at work, or was last. */
  get units(): readonly Unit[] {
    return this.#pending.find(({ units }) => units.length > 0)?.units ?? this.#lastUnits;
  }

  /** It has a request. */
  get busy(): boolean {
    return this.#pending.length > 0;
  }

  /** Time in which it had something to do, its start included. */
  get busyMs(): number {
    return this.#busyMs + (this.#busySince === undefined ? 0 : performance.now() - this.#busySince);
  }

  has(artefactId: string): boolean {
    return this.#loaded.has(artefactId);
  }

  /** Goes before the requests that follow; what is wrong with the artefact shows in them. */
  load(artefactId: string, assembly: Buffer): void {
    this.#loaded.add(artefactId);
    const loading = this.exchange([], {
      deadlineMs: this.#options.startDeadlineMs,
      mostBytes: 0,
      encode: (writer, requestId) => encodeLoad(writer, requestId, artefactId, assembly),
      // eslint-disable-next-line require-yield -- there is nothing in it to be read
      *decode(frame) {
        expectTag(frame, Tag.Loaded);
        if (frame.payload.length > 0) throw new WireError('a frame goes on after its fields');
      },
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
  exchange<T>(units: readonly Unit[], exchange: Exchange<T>): Promise<T> {
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
      this.#busySince ??= performance.now();
      this.#pending.push({
        requestId,
        exchange,
        units,
        writer,
        resolve: resolve as (value: unknown) => void,
        reject,
        supplied: false,
        marked: false,
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

  #receive(frame: Frame): Promise<void> | undefined {
    const head = this.#pending[0];
    if (head === undefined || frame.requestId !== head.requestId)
      throw new WireError('an answer that nobody asked for');
    if (isLarge(frame)) this.#mark(head);
    if (frame.tag === Tag.Missing && head.exchange.supply !== undefined)
      return this.#supply(head, head.exchange.supply, frame);
    if (frame.tag === Tag.TooLarge) {
      if (frame.payload.length > 0) throw new WireError('a frame goes on after its fields');
      this.#answered(head);
      head.reject(new RunnerFailure('too-large', 'the answer would be too large'));
      return undefined;
    }
    // It has answered: what it takes to read that is not its time.
    this.#deadline.disarm();
    const reading = sliceFrame(
      head.exchange.decode(frame),
      (answer) => {
        this.#reading = undefined;
        this.#answered(head);
        head.resolve(answer);
      },
      (error) => this.#unreadable(head, error),
    );
    if (reading !== undefined) this.#reading = head;
    return reading;
  }

  #answered(head: Pending): void {
    this.#workedOff(head);
    if (this.#pending[0] !== head) return;
    this.#pending.shift();
    if (head.units.length > 0) this.#lastUnits = head.units;
    if (head.writer.isSmall) this.#writers.push(head.writer);
    if (this.#pending.length === 0) this.#rest();
    this.#armHead();
  }

  /** A later part of an answer is garbage. Where the process has ended meanwhile, nobody else tells the one who waits. */
  #unreadable(head: Pending, error: unknown): void {
    this.#reading = undefined;
    this.#workedOff(head);
    this.#process.refuse(error);
    if (this.#pending[0] === head) return;
    const reason = error instanceof WireError ? error.message : 'it could not be read';
    head.reject(new RunnerFailure('breach', `spoke garbage: ${reason}`));
  }

  #supply(
    head: Pending,
    supply: NonNullable<Exchange<unknown>['supply']>,
    frame: Frame,
  ): Promise<void> | undefined {
    if (head.supplied) throw new WireError('it asked twice for the states of one request');
    head.supplied = true;
    // The runner has read the request: its buffer is free.
    head.writer.begin(head.requestId, Tag.States);
    const failed = (error: unknown): void => this.#notSupplied(head, error);
    // It waits for the host, and goes on with what is left of its time.
    this.#deadline.pause();
    try {
      return sliceFrame(
        supply(frame.payload, head.writer),
        () => {
          this.#process.send(head.writer.end());
          if (this.#pending[0] === head) this.#deadline.resume();
        },
        failed,
      );
    } catch (error) {
      failed(error);
      return undefined;
    }
  }

  #notSupplied(head: Pending, error: unknown): void {
    if (error instanceof WireError) this.#process.refuse(error);
    // It waits for states that can't be sent at once: it has to go, and the events are fed one by one.
    else if (error instanceof FrameTooLargeError) this.#process.kill('the states of one request were too large');
    else {
      // No fault of the code: its states could not be had.
      head.reject(error as Error);
      this.#process.kill('its states could not be read');
    }
  }

  /** What is large is told to the next process before this one works it off. */
  #mark(head: Pending): void {
    const events = head.exchange.events?.() ?? [];
    if (events.length === 0) return;
    head.marked = true;
    const units = [...new Set(head.units.map(unitIdOf))];
    this.#options.marks?.begin(this.#tenantId, { units, events: events.map(eventName) });
  }

  #workedOff(head: Pending): void {
    if (head.marked) this.#options.marks?.end(this.#tenantId);
  }

  #rest(): void {
    if (this.#busySince === undefined || this.#pending.length > 0) return;
    this.#busyMs += performance.now() - this.#busySince;
    this.#busySince = undefined;
  }

  #armHead(): void {
    if (!this.#isReady) this.#deadline.arm(this.#options.startDeadlineMs);
    else if (this.#pending[0] !== undefined) this.#deadline.arm(this.#pending[0].exchange.deadlineMs);
    else this.#deadline.disarm();
  }

  #failAll(end: ProcessEnd): void {
    this.#deadline.disarm();
    let failure: RunnerFailure;
    if (end.neverReady && !end.killedFromOutside && end.reason !== CLOSED)
      failure = new RunnerFailure('start', end.reason);
    else if (this.#overran !== undefined)
      failure =
        this.#overran.by === 'starved'
          ? new RunnerFailure('starved', end.reason)
          : new RunnerFailure('overran', end.reason, { killedFromOutside: this.#overran.by === 'outside' });
    else if (end.breach) failure = new RunnerFailure('breach', end.reason);
    else {
      const { killedFromOutside } = end;
      failure = new RunnerFailure('ended', end.killedHere ? end.reason : `ended the process (${end.reason})`, {
        killedFromOutside,
        exceeded: this.#exceeded,
      });
    }
    for (const pending of this.#pending.splice(0)) {
      if (pending === this.#reading) continue;
      this.#workedOff(pending);
      pending.reject(failure);
    }
  }
}

/** Such a frame takes tens of milliseconds, and more memory than all else that is under way. */
const LARGE_BYTES = 1024 * 1024;
const LARGE_QUESTION = 64 * 1024;
const LARGE_COUNT = 16_384;

const isLarge = ({ tag, payload }: Frame): boolean =>
  payload.length >= LARGE_BYTES ||
  (tag === Tag.Missing && payload.length >= LARGE_QUESTION) ||
  (tag === Tag.Projected && payload.length >= 4 && payload.readUInt32LE(0) >= LARGE_COUNT);

/** As a mark has it. */
export const eventName = ({ aggregateId, version }: HostEvent): string => `${aggregateId}@${version}`;

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
