import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { InvariantError } from '../core/errors.js';

/** Where programs of the system lie. The service's own PATH does not go along. */
export const SYSTEM_PATH = '/usr/local/bin:/usr/bin:/bin';

/** A program, and what it is to be started with. */
export interface Program {
  /** A path, or a name that is looked for along the PATH of `env`. */
  readonly command: string;
  readonly args: readonly string[];
  /** All of its environment. */
  readonly env: Readonly<Record<string, string>>;
  /** How far it gives way to others; unless given, not at all. */
  readonly niceness?: number | undefined;
  /** It makes a group of processes of its own by itself, and stays in the service's session; unless given, it has a session of its own. */
  readonly isGrouped?: boolean | undefined;
}

/** A program to be started. */
export interface Fork extends Program {
  readonly cwd: string;
  /** Its descriptors that lead here; of the three standard ones the others lead nowhere. */
  readonly pipes: readonly number[];
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
  /** What started it ended, and it was ended with that: nothing of it is its own doing. */
  readonly isLost?: boolean;
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
  /** Resolves when it has ended and nothing more comes from it. */
  readonly closed: Promise<Exit>;
  /** Its number may be another's by then. */
  #isOver = false;

  constructor(
    readonly pid: number,
    /** Paused: who reads one resumes it. */
    readonly pipes: ReadonlyMap<number, Socket>,
    /** Resolves when it has ended; others may hold what leads from it. */
    readonly exited: Promise<Exit>,
  ) {
    const ends = [...pipes.values()].map((pipe) => new Promise<void>((resolve) => pipe.once('close', () => resolve())));
    this.closed = Promise.all(ends).then(() => exited);
    void exited.then(() => (this.#isOver = true));
  }

  /** Of one of the descriptors that were asked for. Nobody else need listen for its errors. */
  pipe(descriptor: number): Socket {
    const pipe = this.pipes.get(descriptor);
    if (pipe === undefined) throw new InvariantError(`descriptor ${descriptor} leads nowhere`);
    return pipe;
  }

  /** Ends it and whatever it has started, at once. */
  kill(): void {
    endGroup(this.pid, this.#isOver);
  }
}

function endGroup(pid: number, isOver: boolean): void {
  // Alone, where it has not come to make a group of its own.
  for (const target of isOver ? [-pid] : [-pid, pid])
    try {
      process.kill(target, 'SIGKILL');
      return;
    } catch {
      // It has ended.
    }
}

/** What starts others has ended meanwhile. */
export class LostError extends Error {}

/** The socket is not there. */
class UnreachableError extends Error {}

/** One that is being started, or has not ended. */
interface Entry {
  /** What started it. */
  readonly child: ChildProcess;
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
  socket: Promise<Listening>;
}

/** A socket in a folder that only this user enters. */
interface Listening {
  readonly path: string;
  readonly close: () => void;
}

/**
 * Starts processes by way of a small one (docs/decisions/processes-are-started-by-a-small-one.md). For each that a process starts
 * itself the kernel copies the tables of all its memory, while nothing else runs in it: 12 ms where it has 500 MiB, and 140 ms more,
 * spread over what follows, for pages that are written again.
 */
export class ForkServer {
  /** Has the socket where the system has no folder for what is passing. */
  home: string | undefined;
  #running: Promise<Running> | undefined;
  readonly #entries = new Map<number, Entry>();
  readonly #byToken = new Map<string, Entry>();
  #lastId = 0;

  /** Resolves when it runs. @throws Error when it can't be started; LostError: not now */
  async fork(fork: Fork): Promise<Forked> {
    const used = this.#opened();
    try {
      return await this.#fork(await used, fork);
    } catch (error) {
      if (!(error instanceof LostError)) throw error;
      // That it has ended may be told later than that nothing reaches it.
      if (this.#running === used) this.#running = undefined;
      return this.#fork(await this.#opened(), fork);
    }
  }

  async #fork(running: Running, fork: Fork): Promise<Forked> {
    const { child, socket } = running;
    try {
      return await this.#ask(child, (await socket).path, fork);
    } catch (error) {
      if (!(error instanceof UnreachableError)) throw error;
      // Somebody cleans up what looks left behind in the folder of what is passing.
      if (running.socket === socket) {
        running.socket = this.#listen();
        socket.then(({ close }) => close(), ignore);
      }
      return this.#ask(child, (await running.socket).path, fork);
    }
  }

  /** Resolves when what starts others has ended. While there is one that it has started it stays: to end it would end that. */
  async close(): Promise<void> {
    const running = await this.#running?.catch(ignore);
    if (running === undefined || this.#entries.size > 0) return;
    const { child } = running;
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /** What starts others: it is started where it isn't there. */
  #opened(): Promise<Running> {
    if (this.#running !== undefined) return this.#running;
    const running = (this.#running = this.#start());
    const forget = (): void => {
      if (this.#running === running) this.#running = undefined;
    };
    running.then(({ child }) => child.once('exit', forget), forget);
    return running;
  }

  async #ask(child: ChildProcess, path: string, fork: Fork): Promise<Forked> {
    const id = ++this.#lastId;
    const token = randomBytes(16).toString('hex');
    const pipes = new Map<number, Socket>();
    let exited: (exit: Exit) => void = ignore;
    const end = new Promise<Exit>((resolve) => (exited = resolve));
    let late: NodeJS.Timeout | undefined;
    try {
      const pid = await new Promise<number>((started, failed) => {
        const wanted = fork.pipes.length;
        const entry: Entry = { child, wanted, pipes, pid: undefined, isOver: false, started, failed, exited };
        this.#entries.set(id, entry);
        this.#byToken.set(token, entry);
        this.#keepAlive(child);
        // What is there by then is read before: this process may have stood still.
        late = setTimeout(() => setImmediate(() => this.#overdue(token)), START_MS);
        const request: ForkRequest = { ...fork, id, path, token };
        child.send(request, (error) => error && failed(new LostError(error.message)));
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

  /** What answers nobody makes room for another. */
  #overdue(token: string): void {
    const entry = this.#byToken.get(token);
    if (entry?.pid === undefined) return void entry?.child.kill('SIGKILL');
    endGroup(entry.pid, entry.isOver);
    entry.failed(new Error('what leads from the process did not come'));
  }

  async #start(): Promise<Running> {
    const child = spawn(process.execPath, [fileURLToPath(new URL('./fork-server-process.js', import.meta.url))], {
      // Nothing of this process's environment goes along: it holds keys.
      env: { PATH: SYSTEM_PATH },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    if (child.pid === undefined) {
      const [error] = (await once(child, 'error')) as [Error];
      throw error;
    }
    child.unref();
    child.on('error', ignore);
    child.on('message', (answer) => this.#answered(answer as ForkAnswer, child));
    child.once('exit', () => this.#lost(child));
    try {
      const socket = await this.#listen();
      const running: Running = { child, socket: Promise.resolve(socket) };
      const close = (): void => void running.socket.then((last) => last.close(), ignore);
      child.once('exit', close);
      if (child.exitCode === null && child.signalCode === null) return running;
      close();
      throw new LostError('the process that starts others has ended');
    } catch (error) {
      child.kill('SIGKILL');
      child.channel?.unref();
      throw error;
    }
  }

  /** @throws UnreachableError where there is no place for a socket now */
  async #listen(): Promise<Listening> {
    let last: unknown;
    for (const within of [tmpdir(), this.home])
      try {
        if (within !== undefined) return await listenIn(within, (socket) => this.#greeted(socket));
      } catch (error) {
        last = error;
      }
    throw new UnreachableError(`there is no place for a socket: ${(last as Error).message}`);
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
  #lost(child: ChildProcess): void {
    for (const [id, { child: by, pid, isOver, failed, exited }] of [...this.#entries]) {
      if (by !== child) continue;
      this.#entries.delete(id);
      failed(new LostError('the process that starts others has ended'));
      if (pid !== undefined) endGroup(pid, isOver);
      exited({ code: null, signal: 'SIGKILL', isLost: true });
    }
  }

  /** While there is one, this process is not at its end. */
  #keepAlive({ channel }: ChildProcess): void {
    if (this.#entries.size > 0) channel?.ref();
    else channel?.unref();
  }
}

async function listenIn(within: string, greeted: (socket: Socket) => void): Promise<Listening> {
  const folder = mkdtempSync(join(within, 'statefold-'));
  const server = createServer(greeted).unref();
  const close = (): void => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    server.listen(join(folder, 's'));
    await once(server, 'listening');
  } catch (error) {
    close();
    throw error;
  }
  // Of one connection that can't be accepted its start is told, when it is overdue.
  server.on('error', ignore);
  return { path: join(folder, 's'), close };
}

function ignore(): void {}

/** Of this process; it is there from the first time that it is asked. */
export const forkServer = new ForkServer();
