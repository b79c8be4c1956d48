import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** Requests of one connection that may wait for their answers. */
const MOST_AHEAD = 16;

/**
 * Requests that a client sends ahead on one connection are begun at once, and answered in turn. Node tells of a connection that has
 * gone only the answer whose turn it was: here all of them hear of it, so that nothing is held for those behind it.
 */
export class Pipelines {
  /** By connection, in their order; what was answered meanwhile is taken out with the next request, so that none needs a listener. */
  readonly #begun = new WeakMap<Duplex, ServerResponse[]>();

  /** False: too many are sent ahead. Nobody is to answer, and the connection is ended. */
  takes({ socket }: IncomingMessage, response: ServerResponse): boolean {
    const begun = this.#begun.get(socket) ?? this.#begin(socket);
    let over = 0;
    while (isOver(begun[over])) over++;
    if (over > 0) begun.splice(0, over);
    if (begun.length >= MOST_AHEAD) {
      socket.destroy();
      return false;
    }
    begun.push(response);
    return true;
  }

  /** The answer to the latest request of the connection. */
  lastOf(socket: Duplex): ServerResponse | undefined {
    return this.#begun.get(socket)?.at(-1);
  }

  #begin(socket: Socket): ServerResponse[] {
    const begun: ServerResponse[] = [];
    this.#begun.set(socket, begun);
    socket.once('close', () => {
      for (const one of begun.splice(0)) {
        if (isOver(one)) continue;
        one.destroy();
        one.emit('close');
      }
    });
    return begun;
  }
}

/** Its answer has left, or nobody is there for it. */
const isOver = (response: ServerResponse | undefined): boolean =>
  response !== undefined && (response.writableFinished || response.destroyed);
