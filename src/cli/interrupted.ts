const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Ctrl-C ends what goes on for ever, in order; a second one ends the process. */
export function interrupted(): AbortSignal {
  const controller = new AbortController();
  for (const signal of SIGNALS) process.once(signal, () => controller.abort());
  return controller.signal;
}

/** A terminal that is closed, or a connection to it that breaks, ends it too. */
const ENDING = [...SIGNALS, 'SIGHUP'] as const;

/**
 * What is to be done before Ctrl-C, SIGTERM or SIGHUP ends the process, as it does without.
 * @returns what is called when there is nothing to be done any more
 */
export function beforeSignalEnds(clean: () => void): () => void {
  const end = (signal: NodeJS.Signals): void => {
    done();
    clean();
    process.kill(process.pid, signal);
  };
  const done = (): void => {
    for (const signal of ENDING) process.off(signal, end);
  };
  for (const signal of ENDING) process.on(signal, end);
  return done;
}
