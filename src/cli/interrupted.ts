const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Ctrl-C ends what goes on for ever, in order; a second one ends the process. */
export function interrupted(): AbortSignal {
  const controller = new AbortController();
  for (const signal of SIGNALS) process.once(signal, () => controller.abort());
  return controller.signal;
}

/**
 * What is to be done before Ctrl-C or SIGTERM ends the process, as it does without.
 * @returns what is called when there is nothing to be done any more
 */
export function beforeSignalEnds(clean: () => void): () => void {
  const end = (signal: NodeJS.Signals): void => {
    done();
    clean();
    process.kill(process.pid, signal);
  };
  const done = (): void => {
    for (const signal of SIGNALS) process.off(signal, end);
  };
  for (const signal of SIGNALS) process.on(signal, end);
  return done;
}
