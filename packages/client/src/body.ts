/**
 * What the promise gives, or the reason of the signal as soon as that aborts. The promise itself may go on: a `fetch`, or a function of
 * the caller, need not heed a signal.
 */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    const settled = (): void => signal.removeEventListener('abort', abort);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(settled);
  });
}

/**
 * The text of a body, piece by piece, none of them empty. When the signal aborts the body is cancelled and its reason is thrown, whether
 * `fetch` heeds the signal or not: that of Node.js holds the signal of a request weakly, and forgets it once the head of the answer has
 * come and a garbage collection has run. A body that is not read to its end is cancelled, which frees its connection.
 */
export async function* textOf(
  body: ReadableStream<Uint8Array> | null,
  signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  if (body === null) return;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  // Ends a read that is under way. To race each read against one promise of the signal would keep all of them until the body ends.
  const cancel = (): void => void reader.cancel(signal.reason).catch(() => undefined);
  if (signal.aborted) cancel();
  else signal.addEventListener('abort', cancel, { once: true });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (signal.aborted) throw signal.reason as Error;
      const text = done ? decoder.decode() : decoder.decode(value, { stream: true });
      if (text !== '') yield text;
      if (done) return;
    }
  } finally {
    signal.removeEventListener('abort', cancel);
    cancel();
  }
}
