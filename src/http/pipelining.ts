import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Requests of one connection that may wait for their answers. */
const MOST_AHEAD = 16;

/**
 * Requests that a client sends ahead on one connection are begun at once, and answered in turn. Node tells of a connection that has
 * gone only the answer whose turn it was: here all of them hear of it, so that nothing is held for those behind it.
 */
export class Pipelines {
  readonly #unanswered = new WeakMap<Socket, Set<ServerResponse>>();

  /** False: too many are sent ahead. Nobody is to answer, and the connection is ended. */
  takes({ socket }: IncomingMessage, response: ServerResponse): boolean {
    const unanswered = this.#unanswered.get(socket) ?? this.#begin(socket);
    if (unanswered.size >= MOST_AHEAD) {
      socket.destroy();
      return false;
    }
    unanswered.add(response);
    response.once('close', () => unanswered.delete(response));
    return true;
  }

  #begin(socket: Socket): Set<ServerResponse> {
    const unanswered = new Set<ServerResponse>();
    this.#unanswered.set(socket, unanswered);
    socket.once('close', () => {
      for (const one of [...unanswered]) {
        one.destroy();
        one.emit('close');
      }
    });
    return unanswered;
  }
}
