import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Rounds } from '../../src/core/rounds.js';

/** A clock that goes on by what is worked, and the rounds in which each slice was done. */
class Bench {
  now = 0;
  readonly rounds = new Rounds(() => this.now, 10);
  readonly done: string[][] = [[]];
  #counting = true;

  constructor() {
    const round = (): void => {
      if (!this.#counting) return;
      this.done.push([]);
      setImmediate(round);
    };
    setImmediate(round);
  }

  async work(name: string, slices: number, ms: number): Promise<void> {
    for (let i = 0; i < slices; i++) {
      await this.rounds.next();
      await Promise.resolve(); // a slice is some microtasks long
      this.now += ms;
      this.done.at(-1)?.push(name);
    }
  }

  end(): string[] {
    this.#counting = false;
    return this.done.map((names) => names.join('')).filter((names) => names !== '');
  }
}

describe('rounds of the event loop', () => {
  it('have the slices of many, as much as there is time for, in their order', async () => {
    const bench = new Bench();
    await Promise.all(['a', 'b', 'c', 'd', 'e'].map((name) => bench.work(name, 2, 4)));
    assert.deepEqual(bench.end(), ['abc', 'dea', 'bcd', 'e']);
  });

  it('have each of them once, however short its slices are', async () => {
    const bench = new Bench();
    await Promise.all([bench.work('a', 3, 0.1), bench.work('b', 2, 0.1)]);
    assert.deepEqual(bench.end(), ['ab', 'ab', 'a']);
  });

  it('have one of those who take longer than a round', async () => {
    const bench = new Bench();
    await Promise.all([bench.work('a', 2, 25), bench.work('b', 1, 25)]);
    assert.deepEqual(bench.end(), ['a', 'b', 'a']);
  });

  it('go on after a slice that throws', async () => {
    const bench = new Bench();
    const failing = bench.rounds.next().then(() => {
      throw new Error('its own');
    });
    await Promise.all([assert.rejects(failing, /its own/), bench.work('a', 2, 1)]);
    assert.deepEqual(bench.end(), ['a', 'a']);
  });
});
