/** Holds the event loop. */
export function busy(milliseconds: number): void {
  for (const until = performance.now() + milliseconds; performance.now() < until;);
}

/** Resolves when what is ready to run, and what follows from it, has had some turns on the event loop. */
export async function someTurns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Does the work; gives how often others had their turn on the event loop meanwhile, and the work may ask how often they had so far. */
export async function turnsDuring<T>(
  work: (turns: () => number) => T | Promise<T>,
): Promise<{ readonly turns: number; readonly made: Awaited<T> }> {
  let turns = 0;
  let ended = false;
  const others = (): void => {
    if (ended) return;
    turns++;
    setImmediate(others);
  };
  setImmediate(others);
  try {
    const made = await work(() => turns);
    return { turns, made };
  } finally {
    ended = true;
  }
}
