import { useEffect, useRef } from 'preact/hooks';

/** As many are asked for again to keep up with what changes. */
const BYTES_PER_SECOND = 256 * 1024;

/** Seconds between two answers of `bytes`. */
export const pauseOf = (bytes: number): number => bytes / BYTES_PER_SECOND;

/** Asks again when one of `inputs` changes; where the answers, of `bytes` each, are large, once in a while. */
export function usePaced(ask: () => void, bytes: number, inputs: readonly unknown[]): void {
  const asked = useRef(performance.now());
  useEffect(() => {
    const due = asked.current + pauseOf(bytes) * 1000;
    const timer = setTimeout(
      () => {
        asked.current = performance.now();
        ask();
      },
      Math.max(due - performance.now(), 0),
    );
    return () => clearTimeout(timer);
  }, inputs);
}
