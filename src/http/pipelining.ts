import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { Tally } from '../core/tally.js';
import { networkOf } from './address-connections.js';

/** Requests of one connection that may wait for their answers. */
const MOST_AHEAD = 16;
/** Of all connections together those that wait behind another one: each takes some 9 KB, and nobody needs a key to send it. */
const MOST_AHEAD_TOGETHER = 4096;

interface Connection {
  readonly network: string;
  /** In their order. */
  readonly begun: ServerResponse[];
  /** How many of them were sent behind another one, and are not answered. */
  ahead: number;
}

/**
 * Requests that a client sends ahead on one connection are begun at once, and answered in turn. Node tells of a connection that has
 * gone only the answer whose turn it was: here all of them hear of it, so that nothing is held for those behind it.
 */
export class Pipelines {
  /** What was answered meanwhile is taken out with the next request: those that are not sent ahead need no listener. */
  readonly #connections = new WeakMap<Duplex, Connection>();
  /** Of all connections. */
  #ahead = 0;
  readonly #aheadOf = new Tally();
  readonly #mostTogether: number;

  constructor(mostTogether = MOST_AHEAD_TOGETHER) {
    this.#mostTogether = mostTogether;
  }

  /** False: too many are sent ahead. Nobody is to answer, and the connection is ended. */
  takes({ socket }: IncomingMessage, response: ServerResponse): boolean {
    const connection = this.#connections.get(socket) ?? this.#begin(socket);
    const { begun } = connection;
    let over = 0;
    while (isOver(begun[over])) over++;
    if (over > 0) begun.splice(0, over);
    if (begun.length >= MOST_AHEAD || (begun.length > 0 && !this.#hasRoom(connection))) {
      socket.destroy();
      return false;
    }
    if (begun.length > 0) this.#count(connection, response);
    begun.push(response);
    return true;
  }

  /** An address has at most as many as are left for others: one takes half of them, two a third each, and some are left beside any. */
  #hasRoom({ network }: Connection): boolean {
    return this.#ahead + this.#aheadOf.of(network) < this.#mostTogether;
  }

  #count(connection: Connection, response: ServerResponse): void {
    this.#add(connection, 1);
    response.once('close', () => {
      if (connection.ahead > 0) this.#add(connection, -1);
    });
  }

  #add(connection: Connection, requests: number): void {
    this.#ahead += requests;
    connection.ahead += requests;
    this.#aheadOf.add(connection.network, requests);
  }

  /** The answer to the latest request of the connection. */
  lastOf(socket: Duplex): ServerResponse | undefined {
    return this.#connections.get(socket)?.begun.at(-1);
  }

  #begin(socket: Socket): Connection {
    const begun: ServerResponse[] = [];
    const connection = { network: networkOf(socket.remoteAddress ?? ''), begun, ahead: 0 };
    this.#connections.set(socket, connection);
    socket.once('close', () => {
      this.#add(connection, -connection.ahead);
      for (const one of begun.splice(0)) {
        if (isOver(one)) continue;
        one.destroy();
        one.emit('close');
      }
    });
    return connection;
  }
}

/** Its answer has left, or nobody is there for it. */
const isOver = (response: ServerResponse | undefined): boolean =>
  response !== undefined && (response.writableFinished || response.destroyed);
