import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ReducerCatchUps, type ReducerCatchUpsOptions } from '../../src/aggregates/reducer-catch-ups.js';
import type { BoundReducer } from '../../src/aggregates/bindings.js';
import type { Input } from '../../src/feed/inputs.js';
import type { Page } from '../../src/feed/feed.js';
import { createLogger } from '../../src/telemetry/logger.js';

const END = 10_000;
const bound = (generation: number): BoundReducer => ({
  aggregateType: 'account',
  artefactId: `artefact-${generation}`,
  className: 'Reducer',
  generation,
});

/** Catch-ups over a history whose pages wait until they are let through. */
class World {
  readonly folded: number[] = [];
  /** Where each page began. */
  readonly from: number[] = [];
  readonly #waiting: (() => void)[] = [];
  #asked: (() => void) | undefined;
  readonly catchUps: ReducerCatchUps;

  constructor({ aggregates = 1 } = {}) {
    const parts = {
      tables: {
        typeCount: () => aggregates,
        catchUp: () => undefined,
        setCatchUp: () => undefined,
        section: { tenantId: 't', isFull: false },
        faults: { aggregateCount: () => 0, aggregates: () => [] },
      },
      kept: { position: () => 0, superseded: () => undefined },
      inputs: { head: END, read: (from: number) => this.#read(from) },
      reducers: { catchUp: (groups: readonly unknown[]) => Promise.resolve(void this.folded.push(groups.length)) },
      code: { isHalted: () => false },
      listener: { caughtUpFurther: () => undefined },
      logger: createLogger({ level: 'silent' }),
    };
    this.catchUps = new ReducerCatchUps(parts as unknown as ReducerCatchUpsOptions);
  }

  async #read(from: number): Promise<Page<Input>> {
    this.from.push(from);
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      this.#asked?.();
    });
    return { items: [], end: from + 1 };
  }

  /** Resolves when so many pages are asked for. */
  async asked(pages: number): Promise<void> {
    while (this.#waiting.length < pages) await new Promise<void>((resolve) => (this.#asked = resolve));
  }

  /** Lets the first page through that was asked for. */
  pass(): void {
    this.#waiting.shift()?.();
  }
}

describe('catch-ups of reducers', () => {
  it('read nothing of a long history for a type without aggregates, and fold what is shed from there on', async () => {
    const world = new World({ aggregates: 0 });
    world.catchUps.start(bound(1));
    assert.deepEqual(world.catchUps.progress('account'), {
      status: 'done',
      processed: END,
      total: END,
      eventsPerSecond: 0,
    });
    assert.deepEqual(world.from, []);
    world.catchUps.behind('account', END + 5);
    assert.equal(world.catchUps.progress('account')?.status, 'running');
    await world.asked(1);
    assert.deepEqual(world.from, [END + 5]);
    world.catchUps.close();
    world.pass();
  });

  it('read no further for a binding that another one has superseded', async () => {
    const world = new World();
    world.catchUps.start(bound(1));
    await world.asked(1);
    world.catchUps.start(bound(2));
    await world.asked(2);
    world.pass(); // the page of the first
    for (let page = 0; page < 20; page++) {
      world.pass();
      await world.asked(1);
    }
    assert.deepEqual(
      world.from,
      Array.from({ length: world.from.length }, (_, i) => Math.max(0, i - 1)),
      'after the first page of each, those of the second alone',
    );
    assert.deepEqual(world.folded, [], 'what was read for a binding that is over is not folded');
    world.catchUps.close();
    world.pass();
  });
});
