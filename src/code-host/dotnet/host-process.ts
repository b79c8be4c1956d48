import { type ChildProcess, spawn } from 'node:child_process';
import type { Duplex, Readable } from 'node:stream';
import { FrameSplitter } from './frame-splitter.js';
import type { Launch } from './launch.js';
import { type Frame, Tag, WireError } from './wire.js';

export interface HostProcessHandlers {
  /** Any frame but `Ready`. A throw ends the process as one that speaks garbage. */
  readonly onFrame: (frame: Frame) => void;
  /** Whether it may speak now; unless given, always. Bytes that are not for an answer would only fill the host's memory. */
  readonly expects?: () => boolean;
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
  /** The head of what it wrote to stderr. */
  readonly stderr: string;
}

const MAX_STDERR = 16 * 1024;
/** A process that has ended may have left its stderr to another; nobody waits for that one. */
const STDERR_GRACE_MS = 200;
const FRAMES = 3;
const LIFE = 4;
/** The exit code that the runner chooses when memory ran out. */
const OUT_OF_MEMORY = 75;

/**
 * A child that speaks frames on descriptor 3. Descriptor 4 only exists to be closed: the child ends when its parent does, however
 * busy it is. It has no stdin and no stdout, and a session of its own, so that a terminal's Ctrl-C doesn't reach it.
 */
export class HostProcess {
  /** Resolves true when it is ready for requests, false when it ended before. */
  readonly ready: Promise<boolean>;
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;
  readonly #handlers: HostProcessHandlers;
  readonly #frames: Duplex | undefined;
  readonly #stderr: Buffer[] = [];
  #stderrBytes = 0;
  readonly #release: () => void;
  #isReady = false;
  #ended: ProcessEnd | undefined;
  #killReason: string | undefined;
  #markReady!: (ready: boolean) => void;
  #markEnded!: () => void;

  constructor(launch: Launch, cwd: string, handlers: HostProcessHandlers) {
    this.#handlers = handlers;
    this.ready = new Promise((resolve) => (this.#markReady = resolve));
    this.ended = new Promise((resolve) => (this.#markEnded = resolve));
    this.#release = launch.release;
    this.#child = spawn(launch.command, [...launch.args], {
      cwd,
      env: { ...launch.env },
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
    });
    this.#child.once('error', (error) => this.#end(`could not be started: ${error.message}`, false));
    this.#child.once('close', (code, signal) => this.#ending(code, signal));
    this.#child.once('exit', (code, signal) => setTimeout(() => this.#ending(code, signal), STDERR_GRACE_MS).unref());
    // After a failed spawn there are no streams.
    const [, , stderr, frames, life] = this.#child.stdio as (Duplex | null | undefined)[];
    this.#frames = frames ?? undefined;
    stderr?.on('data', (chunk: Buffer) => this.#keepStderr(chunk, stderr)).on('error', ignore);
    life?.on('error', ignore).on('data', () => this.kill('spoke garbage: it wrote where nothing is read'));
    frames?.on('error', ignore);
    const splitter = new FrameSplitter((frame) => this.#receive(frame));
    (frames as Readable | undefined)?.on('data', (chunk: Buffer) => {
      if (this.#killReason !== undefined) return;
      try {
        if (this.#isReady && handlers.expects?.() === false) throw new WireError('it was not asked');
        splitter.push(chunk);
      } catch (error) {
        if (!(error instanceof WireError)) throw error;
        this.kill(`spoke garbage: ${error.message}`);
      }
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** It takes requests: it has neither ended nor been told to. */
  get alive(): boolean {
    return this.#ended === undefined && this.#killReason === undefined;
  }

  /** The bytes must stay as they are until the child has answered them. */
  send(frame: Buffer): void {
    if (this.alive) this.#frames?.write(frame);
  }

  /** Ends the process and whatever it has started, at once. */
  kill(reason: string): void {
    if (!this.alive) return;
    this.#killReason = reason;
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      this.#child.kill('SIGKILL');
    }
  }

  #receive(frame: Frame): void {
    if (this.#killReason !== undefined) return;
    if (frame.tag === Tag.Ready) {
      if (this.#isReady) throw new WireError('it was ready before');
      this.#isReady = true;
      this.#markReady(true);
    } else this.#handlers.onFrame(frame);
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
      killedFromOutside,
      stderr: this.#stderrText(),
    };
    for (const index of [2, FRAMES, LIFE]) (this.#child.stdio[index] as Duplex | null | undefined)?.destroy();
    this.#markReady(false);
    this.#handlers.onEnd(this.#ended);
    this.#markEnded();
  }

  #stderrText(): string {
    return Buffer.concat(this.#stderr).toString('utf8');
  }
}

const ignore = (): void => undefined;

function reasonOf(code: number | null, signal: NodeJS.Signals | null, stderr: string): string {
  if (stderr.startsWith('Stack overflow')) return 'stack overflow';
  if (code === OUT_OF_MEMORY || stderr.startsWith('Out of memory')) return 'out of memory';
  if (stderr.startsWith('Process terminated')) return 'fail fast';
  if (stderr.startsWith('Unhandled exception')) return 'unhandled exception';
  if (signal === 'SIGKILL') return 'killed';
  return signal === null ? `exit code ${code ?? 'unknown'}` : signal;
}
