import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A program to be started, in a session of its own. */
export interface Fork {
  /** A path, or a name that is looked for along the PATH of `env`. */
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** All of its environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Its descriptors that lead here; of the three standard ones the others lead nowhere. */
  readonly pipes: readonly number[];
  /** How far it gives way to others; unless given, not at all. */
  readonly niceness?: number | undefined;
}

export interface ForkRequest extends Fork {
  readonly id: number;
  /** Of the socket that `pipes` are connected to. */
  readonly path: string;
  /** What each of these connections says first, with its descriptor. */
  readonly token: string;
}

export interface Exit {
  /** Null where a signal ended it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export type ForkAnswer =
  | { readonly kind: 'started'; readonly id: number; readonly pid: number }
  | { readonly kind: 'failed'; readonly id: number; readonly message: string; readonly isUnreachable: boolean }
  | ({ readonly kind: 'exited'; readonly id: number } & Exit);

/** Within which a start is told of. It takes a millisecond or two where there are processors for it. */
const START_MS = 30_000;
const LF = 0x0a;
/** A token and a descriptor. */
const MOST_GREETING = 64;

/** A process that was started. */
export class Forked {
  /** Resolves when it has ended; others may hold what leads from it. */
  readonly exited: Promise<Exit>;
  /** Resolves when it has ended and nothing more comes from it. */
  readonly closed: Promise<Exit>;

  constructor(
    readonly pid: number,
    /** Paused: who reads one resumes it. */
    readonly pipes: ReadonlyMap<number, Socket>,
    exited: Promise<Exit>,
  ) {
    this.exited = exited;
    const ends = [...pipes.values()].map((pipe) => new Promise<void>((resolve) => pipe.once('close', () => resolve())));
    this.closed = Promise.all(ends).then(() => exited);
  }

  /** Ends it and whatever it has started, at once. */
  kill(): void {
    killSession(this.pid);
  }
}

function killSession(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/** One that is being started, or has not ended. */
interface Entry {
  readonly wanted: number;
  readonly pipes: Map<number, Socket>;
  pid: number | undefined;
  /** It has ended. */
  isOver: boolean;
  readonly started: (pid: number) => void;
  readonly failed: (error: Error) => void;
  readonly exited: (exit: Exit) => void;
}

/** What starts others, and where it finds this process. */
interface Running {
  readonly child: ChildProcess;
  /** The path of the socket, once it is there. */
  listening: Promise<string>;
}

/** The socket is not there. */
class UnreachableError extends Error {}

/**
 * Starts processes by way of a small one (docs/decisions/processes-are-started-by-a-small-one.md). For each that a process starts
 * itself the kernel copies the tables of all its memory, while nothing else runs in it: 12 ms where it has 500 MiB, and 140 ms more,
 * spread over what follows, for pages that are written again.
 */
export class ForkServer {
  #running: Promise<Running> | undefined;
  #entries = new Map<number, Entry>();
  readonly #byToken = new Map<string, Entry>();
  #lastId = 0;

  /** Resolves when it runs. @throws Error when it can't be started */
  async fork(fork: Fork): Promise<Forked> {
    const running = await (this.#running ??= this.#start(fork.cwd).catch((error: unknown) => {
      this.#running = undefined;
      throw error;
    }));
    const { listening } = running;
    try {
      return await this.#ask(running.child, await listening, fork);
    } catch (error) {
      if (!(error instanceof UnreachableError)) throw error;
      // Somebody cleans up what looks left behind in the folder of what is passing.
      if (running.listening === listening) running.listening = this.#listen(running.child, fork.cwd);
      return this.#ask(running.child, await running.listening, fork);
    }
  }

  async #ask(child: ChildProcess, path: string, fork: Fork): Promise<Forked> {
    const id = ++this.#lastId;
    const token = randomBytes(16).toString('hex');
    const pipes = new Map<number, Socket>();
    let exited: (exit: Exit) => void = () => undefined;
    const end = new Promise<Exit>((resolve) => (exited = resolve));
    // One that hangs answers nobody any more, and there is to be another.
    const late = setTimeout(() => child.kill('SIGKILL'), START_MS);
    try {
      const pid = await new Promise<number>((started, failed) => {
        const entry = { wanted: fork.pipes.length, pipes, pid: undefined, isOver: false, started, failed, exited };
        this.#entries.set(id, entry);
        this.#byToken.set(token, entry);
        this.#keepAlive(child);
        const request: ForkRequest = { ...fork, id, path, token };
        child.send(request, (error) => error && failed(error));
      });
      return new Forked(pid, pipes, end);
    } catch (error) {
      this.#entries.delete(id);
      for (const pipe of pipes.values()) pipe.destroy();
      throw error;
    } finally {
      clearTimeout(late);
      this.#byToken.delete(token);
      this.#forget(id, child);
    }
  }

  /** Starts what starts others. @param otherwise a folder of this process */
  async #start(otherwise: string): Promise<Running> {
    const child = spawn(process.execPath, [fileURLToPath(new URL('./fork-server-process.js', import.meta.url))], {
      // The session is its own, so that a terminal's Ctrl-C doesn't reach it. Nothing of this process's environment goes along: it holds keys.
      detached: true,
      env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    child.unref();
    child.on('message', (answer) => this.#answered(answer as ForkAnswer, child));
    let isGone = false;
    const gone = (): void => {
      if (isGone) return;
      isGone = true;
      this.#running = undefined;
      this.#lost();
    };
    child.once('error', gone).once('exit', gone);
    const listening = this.#listen(child, otherwise);
    await listening;
    return { child, listening };
  }

  /** Until the child ends. */
  async #listen(child: ChildProcess, otherwise: string): Promise<string> {
    const folder = privateFolder(otherwise);
    const path = join(folder, 's');
    const server = createServer((socket) => this.#greeted(socket)).unref();
    child.once('exit', () => {
      server.close();
      rmSync(folder, { recursive: true, force: true });
    });
    server.listen(path);
    await once(server, 'listening');
    return path;
  }

  #answered(answer: ForkAnswer, child: ChildProcess): void {
    const entry = this.#entries.get(answer.id);
    if (entry === undefined) return;
    if (answer.kind === 'failed')
      return entry.failed(answer.isUnreachable ? new UnreachableError(answer.message) : new Error(answer.message));
    if (answer.kind === 'started') {
      entry.pid = answer.pid;
      return this.#startedWith(entry);
    }
    entry.isOver = true;
    entry.exited({ code: answer.code, signal: answer.signal });
    this.#forget(answer.id, child);
  }

  #startedWith({ pid, pipes, wanted, started }: Entry): void {
    if (pid !== undefined && pipes.size === wanted) started(pid);
  }

  /** It is over, and who asked for it has been told that it began. */
  #forget(id: number, child: ChildProcess): void {
    const entry = this.#entries.get(id);
    if (entry?.isOver === true && (entry.pid === undefined || entry.pipes.size === entry.wanted))
      this.#entries.delete(id);
    this.#keepAlive(child);
  }

  /** A connection says whose it is, and what follows comes from the process. Whoever says anything else is none of them. */
  #greeted(socket: Socket): void {
    let head: Buffer = Buffer.alloc(0);
    const take = (chunk: Buffer): void => {
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf(LF);
      if (end < 0 && head.length <= MOST_GREETING) return;
      socket.off('data', take).pause();
      const [token = '', descriptor = ''] = head.subarray(0, Math.max(0, end)).toString('latin1').split(' ');
      const entry = this.#byToken.get(token);
      if (entry === undefined) return void socket.destroy();
      if (end + 1 < head.length) socket.unshift(head.subarray(end + 1));
      entry.pipes.set(Number(descriptor), socket);
      this.#startedWith(entry);
    };
    socket.on('data', take).on('error', () => undefined);
  }

  /** Nobody tells any more how they end. */
  #lost(): void {
    const entries = [...this.#entries.values()];
    this.#entries = new Map();
    for (const { pid, failed, exited } of entries) {
      failed(new Error('the process that starts others has ended'));
      if (pid !== undefined) killSession(pid);
      exited({ code: null, signal: 'SIGKILL' });
    }
  }

  /** While there is one, this process is not at its end. */
  #keepAlive({ channel }: ChildProcess): void {
    if (this.#entries.size > 0) channel?.ref();
    else channel?.unref();
  }
}

/** The length of a socket's path is bounded, and a system may have no folder for what is passing. */
function privateFolder(otherwise: string): string {
  try {
    return mkdtempSync(join(tmpdir(), 'statefold-'));
  } catch {
    return mkdtempSync(join(otherwise, 's-'));
  }
}

/** Of this process; it is there from the first time that it is asked. */
export const forkServer = new ForkServer();
