import { NotOwnerError } from '../core/errors.js';

/*
 *   CREATED ──open──► RESTORING ──tail folded, claimed──► RUNNING ──close──► SUSPENDED ──flushed──► CLOSED
 *                        │                                  ▲                    ▲
 *                        └──as a standby──► STANDBY ──promoted, claimed          │
 *                                               └──────────close─────────────────┘
 *   RESTORING ──close──► CLOSED;  RESTORING, STANDBY, RUNNING ──deposed, or broken──► CLOSED
 */
export type ActivationStatus = 'CREATED' | 'RESTORING' | 'STANDBY' | 'RUNNING' | 'SUSPENDED' | 'CLOSED';

/** What may come after each. */
const NEXT: Readonly<Record<ActivationStatus, readonly ActivationStatus[]>> = {
  CREATED: ['RESTORING', 'CLOSED'],
  RESTORING: ['STANDBY', 'RUNNING', 'CLOSED'],
  STANDBY: ['RUNNING', 'SUSPENDED', 'CLOSED'],
  RUNNING: ['SUSPENDED', 'CLOSED'],
  SUSPENDED: ['CLOSED'],
  CLOSED: [],
};

/**
 * What is served here under one slot key: a tenant with the first partition of its events, or a further partition of one. Each
 * says what it does on the way; the way itself is here alone, with the one path on which it stops.
 */
export abstract class Activation {
  /** What it is known by, and the name of its section of the local store. */
  abstract readonly slotKey: string;
  abstract readonly section: string;
  /** Nothing waits for an answer, a change or a push: it may be closed when it has been unused for a while. */
  abstract readonly idle: boolean;
  readonly #onStopped: (error: Error) => void;
  readonly #endListeners = new Set<() => void>();
  #ended = false;
  #status: ActivationStatus = 'CREATED';
  #promoting: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  /** `onStopped`: called once when it stops by itself, deposed or broken; it is to be closed then. */
  constructor(onStopped: (error: Error) => void) {
    this.#onStopped = onStopped;
  }

  get status(): ActivationStatus {
    return this.#status;
  }

  /** This process serves it, as far as it knows. */
  get owned(): boolean {
    return this.#status === 'RUNNING';
  }

  /** Folds what is there and takes it; as a standby it goes on folding what the owner writes. */
  async open({ standby = false }: { readonly standby?: boolean } = {}): Promise<void> {
    this.#become('RESTORING');
    await this.restore(!standby);
    this.mustRestore();
    if (standby) {
      this.#become('STANDBY');
      this.follow();
    } else await this.#serve();
  }

  /** A standby takes over; resolves when it serves. @throws StatefoldError UNAVAILABLE when it stopped, or is being closed */
  promote(): Promise<void> {
    return (this.#promoting ??= this.#promote());
  }

  /** Flushes and closes; what waits is answered UNAVAILABLE. One that stopped by itself comes here too: its section is free for the next one only when this is through. */
  close(): Promise<void> {
    return (this.#closing ??= this.#shutDown());
  }

  /** Its part of the log is another's now, or broken: the one way on which it stops by itself. */
  stopped(error: Error): void {
    if (this.#status === 'SUSPENDED' || this.#status === 'CLOSED') return;
    this.#become('CLOSED');
    this.suspend();
    this.#end();
    this.#onStopped(error);
  }

  /**
   * Called once when it stops, by itself or since it is closed; soon when it has. The result ends that: no promise, which would hold
   * on to all that waits for it as long as this lives.
   */
  onEnded(listener: () => void): () => void {
    if (this.#ended) queueMicrotask(listener);
    else this.#endListeners.add(listener);
    return () => this.#endListeners.delete(listener);
  }

  #end(): void {
    this.#ended = true;
    for (const listener of [...this.#endListeners]) listener();
    this.#endListeners.clear();
  }

  /** For what an opening does after it has waited. @throws NotOwnerError when it was closed, or has stopped, meanwhile */
  protected mustRestore(): void {
    if (this.#closing !== undefined || this.#status !== 'RESTORING') throw new NotOwnerError();
  }

  /** Folds all that is there, and takes it with `claim`. */
  protected abstract restore(claim: boolean): Promise<void>;
  /** It follows as a standby from now on. */
  protected abstract follow(): void;
  /** A standby claims what it follows. */
  protected abstract take(): Promise<void>;
  /** The claims hold: makes ready what must be there before it serves. */
  protected abstract lead(): Promise<void>;
  /** All is ready, and the status is RUNNING. */
  protected abstract serve(): void;
  /** Answers nothing from now on. */
  protected abstract suspend(): void;
  /** Waits for what is in flight, and puts all in the store. */
  protected abstract shutDown(): Promise<void>;

  async #promote(): Promise<void> {
    await this.take();
    if (this.#status !== 'STANDBY') throw new NotOwnerError();
    await this.#serve();
  }

  async #serve(): Promise<void> {
    const from = this.#status;
    await this.lead();
    // One that is closed meanwhile keeps its status until all is in the store.
    if (this.#closing !== undefined || this.#status !== from) throw new NotOwnerError();
    this.#become('RUNNING');
    this.serve();
  }

  async #shutDown(): Promise<void> {
    if (this.#status === 'RUNNING' || this.#status === 'STANDBY') this.#become('SUSPENDED');
    this.suspend();
    this.#end();
    await this.shutDown();
    if (this.#status !== 'CLOSED') this.#become('CLOSED');
  }

  #become(status: ActivationStatus): void {
    if (!NEXT[this.#status].includes(status))
      throw new Error(`${this.slotKey} does not go from ${this.#status} to ${status}`);
    this.#status = status;
  }
}
