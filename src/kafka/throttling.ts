import type { Logger } from '../core/logger.js';

/** A broker that held nothing back for so long is told of again. */
const QUIET_MS = 10 * 60_000;

export interface ThrottlingObserver {
  /** A connection waits for so long. */
  throttled(seconds: number): void;
}

/** How long quotas of the brokers hold this process back: counted, and told in the log where it begins. */
export class Throttling {
  readonly #logger: Logger;
  readonly #observer: ThrottlingObserver | undefined;
  #toldUntil = -Infinity;

  constructor(logger: Logger, observer?: ThrottlingObserver) {
    this.#logger = logger;
    this.#observer = observer;
  }

  /** The broker reads nothing of one connection for so long. */
  add(broker: string, request: string, milliseconds: number): void {
    this.#observer?.throttled(milliseconds / 1000);
    const now = performance.now();
    if (now > this.#toldUntil)
      this.#logger.warn(
        { broker, request, milliseconds },
        'a quota of Kafka holds this process back, and its requests wait: see `kafka-configs --describe` for the quotas of its user and of the client id statefold',
      );
    this.#toldUntil = now + milliseconds + QUIET_MS;
  }
}
