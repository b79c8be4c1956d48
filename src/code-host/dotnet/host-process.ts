import type { Readable } from 'node:stream';
import type { Socket } from 'node:net';
import { FrameSplitter } from './frame-splitter.js';
import { forkServer, LostError, type Forked } from '../../jail/fork-server.js';
import type { Launch } from '../../jail/launch.js';
import { Seal, SEAL_BYTES } from './seal.js';
import { type Frame, MAX_FRAME, Tag, WireError } from './wire.js';

export interface HostProcessHandlers {
  /**
   * Any frame but `Ready`. A throw ends the process as one that speaks garbage. What comes behind the frame waits until the
   * promise is settled, in the child past a few KiB.
   */
  readonly onFrame: (frame: Frame) => Promise<void> | undefined;
  /** Bytes that the payload of the next frame may have; unless given, as many as a frame can. */
  readonly mostBytes?: () => number;
  /** What was thrown over a frame that isn't a `WireError`: the process is ended, this one goes on. */
  readonly onUnexpected?: (error: unknown) => void;
  /** Whether it may speak now; unless given, always. Bytes that are not for an answer would only fill the host's memory. */
  readonly expects?: () => boolean;
  /** Once, when the process is there; not where it could not be started. */
  readonly onStart?: (pid: number) => void;
  /** Once, when the process has ended or could not be started. */
  readonly onEnd: (end: ProcessEnd) => void;
}

/** How a process came to its end. */
export interface ProcessEnd {
  /** e.g. `stack overflow`, `exit code 3`, `killed`. */
  readonly reason: string;
  /** It ended before it was ready for requests. */
  readonly neverReady: boolean;
  /** It got SIGKILL, and not from here: someone else's doing, not the code's. */
  readonly killedFromOutside: boolean;
  /** It was killed from here, for that reason. */
  readonly killedHere: boolean;
  /** It was killed for what it said: something that no honest program says. */
  readonly breach: boolean;
  /** The head of what it wrote to stderr. */
  readonly stderr: string;
}

const MAX_STDERR = 16 * 1024;
/** A process that has ended may have left its stderr to another; nobody waits for that one. */
const STDERR_GRACE_MS = 200;
const STDERR = 2;
const FRAMES = 3;
const LIFE = 4;
/** The exit code that the runner chooses when memory ran out. */
const OUT_OF_MEMORY = 75;
/** Of a frame after its length: request id and tag. */
const HEAD = 5;
const NOTHING = Buffer.alloc(0);

/**
 * A child that speaks frames on descriptor 3. Descriptor 4 only exists to be closed: the child ends when its parent does, however
 * busy it is. It has no stdin and no stdout, and a group of its own, so that a terminal's Ctrl-C doesn't reach it.
 */
export class HostProcess {
  /** Resolves true when it is ready for requests, false when it ended before. */
  readonly ready: Promise<boolean>;
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;
  /** Undefined until it is there. */
  #child: Forked | undefined;
  readonly #handlers: HostProcessHandlers;
  /** What was sent before it was there. */
  #early: Buffer[] = [];
  readonly #stderr: Buffer[] = [];
  #stderrBytes = 0;
  readonly #release: () => void;
  #isReady = false;
  #ended: ProcessEnd | undefined;
  #killReason: string | undefined;
  #breach = false;
  /** A frame is being worked off, and those behind it wait. */
  #holding = false;
  readonly #seal = new Seal();
  readonly #splitter: FrameSplitter;
  #markReady!: (ready: boolean) => void;
  #markEnded!: () => void;

  constructor({ release, ...program }: Launch, cwd: string, handlers: HostProcessHandlers) {
    this.#handlers = handlers;
    this.ready = new Promise((resolve) => (this.#markReady = resolve));
    this.ended = new Promise((resolve) => (this.#markEnded = resolve));
    this.#release = release;
    this.#splitter = new FrameSplitter(
      (frame) => this.#receive(frame),
      () => HEAD + SEAL_BYTES + (this.#isReady ? (handlers.mostBytes?.() ?? MAX_FRAME) : 0),
    );
    forkServer.fork({ ...program, cwd, pipes: [STDERR, FRAMES, LIFE] }).then(
      (child) => this.#begun(child),
      (error: unknown) => this.#end(`could not be started: ${(error as Error).message}`, error instanceof LostError),
    );
  }

  #begun(child: Forked): void {
    this.#child = child;
    void child.closed.then(({ code, signal }) => this.#ending(code, signal));
    void child.exited.then(({ code, signal }) => {
      setTimeout(() => this.#ending(code, signal), STDERR_GRACE_MS).unref();
    });
    const [stderr, frames] = [child.pipe(STDERR), child.pipe(FRAMES)];
    stderr.on('data', (chunk: Buffer) => this.#keepStderr(chunk, stderr)).resume();
    child
      .pipe(LIFE)
      .on('data', () => this.refuse(new WireError('it wrote where nothing is read')))
      .resume();
    frames.on('data', (chunk: Buffer) => this.#take(chunk)).resume();
    if (this.#killReason !== undefined) return child.kill();
    // Before all else: while nothing but the program itself is in the process.
    frames.write(sealFrame(this.#seal.key));
    for (const frame of this.#early) frames.write(frame);
    this.#early = [];
    this.#handlers.onStart?.(child.pid);
  }

  get #frames(): Socket | undefined {
    return this.#child?.pipe(FRAMES);
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** It takes requests: it has neither ended nor been told to. */
  get alive(): boolean {
    return this.#ended === undefined && this.#killReason === undefined;
  }

  /** The bytes must stay as they are until the child has answered them. */
  send(frame: Buffer): void {
    if (!this.alive) return;
    if (this.#child === undefined) this.#early.push(frame);
    else this.#frames?.write(frame);
  }

  /** Ends the process and whatever it has started, at once. */
  kill(reason: string): void {
    if (!this.alive) return;
    this.#killReason = reason;
    this.#child?.kill();
  }

  /** Ends the process for what came from it. Nothing that is thrown over its bytes goes further than this. */
  refuse(error: unknown): void {
    if (!this.alive) return;
    this.#breach = true;
    if (error instanceof WireError) return this.kill(`spoke garbage: ${error.message}`);
    this.#handlers.onUnexpected?.(error);
    this.kill('spoke garbage: it could not be read');
  }

  #take(chunk: Buffer): void {
    if (this.#killReason !== undefined) return;
    try {
      if (chunk.length > 0) this.#requireExpected();
      this.#splitter.push(chunk);
      if (this.#splitter.held > 0 && !this.#holding) this.#requireExpected();
    } catch (error) {
      this.refuse(error);
    }
  }

  #requireExpected(): void {
    if (this.#isReady && this.#handlers.expects?.() === false) throw new WireError('it was not asked');
  }

  /** False: the frames behind it wait. */
  #receive(sealed: Frame): boolean {
    if (this.#killReason !== undefined) return true;
    const frame = { ...sealed, payload: this.#seal.open(sealed.payload) };
    if (frame.tag === Tag.Ready) {
      if (this.#isReady) throw new WireError('it was ready before');
      if (frame.payload.length > 0) throw new WireError('a frame goes on after its fields');
      this.#isReady = true;
      this.#markReady(true);
      return true;
    }
    const work = this.#handlers.onFrame(frame);
    if (work === undefined) return true;
    this.#holding = true;
    this.#frames?.pause();
    void work.then(() => {
      this.#holding = false;
      // Resumed first: a frame that waits in the splitter may have to pause it once more.
      this.#frames?.resume();
      this.#take(NOTHING);
    });
    return false;
  }

  /** What floods is not read on: it then waits in the child, at the child's own expense. */
  #keepStderr(chunk: Buffer, stderr: Readable): void {
    const room = MAX_STDERR - this.#stderrBytes;
    if (chunk.length >= room) stderr.pause();
    this.#stderr.push(chunk.subarray(0, room));
    this.#stderrBytes += Math.min(room, chunk.length);
  }

  #ending(code: number | null, signal: NodeJS.Signals | null): void {
    const outside = signal === 'SIGKILL' && this.#killReason === undefined;
    this.#end(this.#killReason ?? reasonOf(code, signal, this.#stderrText()), outside);
  }

  #end(reason: string, killedFromOutside: boolean): void {
    if (this.#ended !== undefined) return;
    this.#release();
    this.#ended = {
      reason,
      neverReady: !this.#isReady,
      killedHere: this.#killReason !== undefined,
      breach: this.#breach,
      killedFromOutside,
      stderr: this.#stderrText(),
    };
    for (const pipe of this.#child?.pipes.values() ?? []) pipe.destroy();
    this.#markReady(false);
    this.#handlers.onEnd(this.#ended);
    this.#markEnded();
  }

  #stderrText(): string {
    return Buffer.concat(this.#stderr).toString('utf8');
  }
}

function sealFrame(key: Buffer): Buffer {
  const head = Buffer.alloc(4 + HEAD);
  head.writeUInt32LE(HEAD + key.length);
  head[8] = Tag.Seal;
  return Buffer.concat([head, key]);
}

function reasonOf(code: number | null, signal: NodeJS.Signals | null, stderr: string): string {
  if (stderr.startsWith('Stack overflow')) return 'stack overflow';
  if (code === OUT_OF_MEMORY || stderr.startsWith('Out of memory')) return 'out of memory';
  if (stderr.startsWith('Process terminated')) return 'fail fast';
  if (stderr.startsWith('Unhandled exception')) return 'unhandled exception';
  if (signal === 'SIGKILL') return 'killed';
  return signal === null ? `exit code ${code ?? 'unknown'}` : signal;
}
