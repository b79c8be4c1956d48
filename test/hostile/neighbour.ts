import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { Tenant } from './escape-world.js';

const PAUSE_MS = 2;
/** A window with fewer appends says nothing of its 99th percentile. */
const ENOUGH = 20;

/**
 * Milliseconds so far in which the main threads of these processes were ready to run and other programs had the processors: of a busy
 * machine this is what an answer takes longer, whatever the service does.
 */
export const waitedForProcessors = (...pids: readonly number[]): number =>
  pids.reduce((sum, pid) => sum + Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6, 0);

/** Another tenant, which appends all the while and wants the state of each append in its answer. */
export class Neighbour {
  #tenant: Tenant;
  readonly #excused: () => number;
  readonly #windows = new Map<string, number[][]>();
  #window: number[] = [];
  #stop = false;
  #going: Promise<void> | undefined;
  #count = 0;

  /** `excused`: milliseconds so far that an append may take longer without being counted for it. */
  constructor(tenant: Tenant, excused: () => number = () => 0) {
    this.#tenant = tenant;
    this.#excused = excused;
  }

  /** Goes on with what it has measured, at a service that was started again. */
  with(tenant: Tenant): this {
    this.#tenant = tenant;
    return this;
  }

  start(): void {
    this.#stop = false;
    this.#going = this.#run();
    this.#going.catch(() => undefined);
  }

  /** What is measured from here on belongs to that kind of window. */
  measure(kind: 'quiet' | 'nasty' | 'between'): void {
    this.#window = [];
    const windows = this.#windows.get(kind) ?? [];
    windows.push(this.#window);
    this.#windows.set(kind, windows);
  }

  get measured(): number {
    return this.#window.length;
  }

  /** Rejects when an append failed or came with a wrong state. */
  async stop(): Promise<void> {
    this.#stop = true;
    await this.#going;
  }

  /** Median over the windows of that kind of each one's 99th percentile, in milliseconds. */
  p99(kind: 'quiet' | 'nasty'): number {
    const of = (this.#windows.get(kind) ?? [])
      .filter((window) => window.length >= ENOUGH)
      .map((window) => percentile(window, 0.99));
    assert.ok(of.length > 2, `${of.length} windows are too few to compare`);
    return percentile(of, 0.5);
  }

  async #run(): Promise<void> {
    while (!this.#stop) {
      const window = this.#window;
      const began = performance.now() - this.#excused();
      const { state } = await this.#tenant.append('calm-1', 'A');
      window.push(performance.now() - this.#excused() - began);
      this.#count++;
      assert.deepEqual(state, { count: this.#count, version: this.#count, last: 'A' });
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}
