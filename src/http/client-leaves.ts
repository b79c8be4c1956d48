import type { ServerResponse } from 'node:http';

/** Runs `work` with a controller that aborts when the client has gone; `work` may abort it for reasons of its own. */
export async function untilClientLeaves<T>(
  response: ServerResponse,
  work: (controller: AbortController) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const left = (): void => controller.abort(new Error('the client has gone'));
  response.once('close', left);
  if (response.destroyed) left();
  try {
    return await work(controller);
  } finally {
    response.off('close', left);
  }
}

/** Answers that wait until their client leaves, or all of them are told to end. */
export class EndableWaits {
  readonly #open = new Set<AbortController>();
  #closed = false;

  /** As `untilClientLeaves`; after `close` the controller is aborted from the start. */
  during<T>(response: ServerResponse, work: (controller: AbortController) => Promise<T>): Promise<T> {
    return untilClientLeaves(response, async (controller) => {
      this.#open.add(controller);
      if (this.#closed) controller.abort();
      try {
        return await work(controller);
      } finally {
        this.#open.delete(controller);
      }
    });
  }

  close(): void {
    this.#closed = true;
    for (const controller of this.#open) controller.abort();
  }
}
