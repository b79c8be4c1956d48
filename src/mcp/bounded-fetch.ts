import { UnexpectedAnswerError } from '../../packages/client/src/index.js';

/** Not repeated: it would be as long once more. */
class AnswerTooLongError extends UnexpectedAnswerError {
  constructor(url: string, status: number, most: number) {
    super(url, status, 'a longer answer than is read');
    this.message = `The answer is longer than ${most} bytes: ask for fewer entries with limit (in SQL with LIMIT), or for a narrower part.`;
  }
}

/** The platform's `fetch`, but for answers past so many bytes: they are broken off, since they are held in memory before they are told. */
export const boundedFetch =
  (most: number): typeof fetch =>
  async (...asked) => {
    const response = await fetch(...asked);
    if (response.body === null) return response;
    let bytes = 0;
    const counted = new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        bytes += chunk.length;
        if (bytes > most) controller.error(new AnswerTooLongError(response.url, response.status, most));
        else controller.enqueue(chunk);
      },
    });
    return new Response(response.body.pipeThrough(counted), response);
  };
