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
