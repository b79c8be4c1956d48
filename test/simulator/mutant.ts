import assert from 'node:assert/strict';
import { it } from 'node:test';

/** As many as the seeds that are run without a mistake (seeds.test.ts). */
const SEEDS = 200;

/** Breaks one rule of the project's own code, and expects some seed to show it. `first` is tried before the others: one that did once. */
export function mutant<T extends object, K extends keyof T>(
  name: string,
  problemsOf: (seed: number) => Promise<number>,
  of: T,
  method: K,
  broken: (original: T[K]) => T[K],
  first?: number,
): void {
  it(`the checker reports ${name}`, { timeout: 120_000 }, async () => {
    const original = of[method];
    of[method] = broken(original);
    try {
      if (first !== undefined && (await problemsOf(first)) > 0) return;
      for (let seed = 1; seed <= SEEDS; seed++) if ((await problemsOf(seed)) > 0) return;
    } finally {
      of[method] = original;
    }
    assert.fail(`no problem in ${SEEDS} seeds`);
  });
}
