import { isIPv6, type Socket } from 'node:net';
import { Tally } from '../core/tally.js';

/** Of an IPv6 address its /64: who has one address there has all of them. An IPv4 address counts by itself, however it is written. */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address)) return address;
  const [head = [], tail] = address.split('::').map((half) => half.split(':').filter((group) => group !== ''));
  const zeros = tail === undefined ? 0 : 8 - head.length - tail.length;
  return [...head, ...Array.from({ length: zeros }, () => '0'), ...(tail ?? [])].slice(0, 4).join(':');
}

/** How many connections each address has open; in memory are those that have some. */
export class AddressConnections {
  readonly #most: number;
  readonly #open = new Tally();

  /** `most`: of one address; 0: as many as it likes. */
  constructor(most: number) {
    this.#most = most;
  }

  /** False: its address has as many as it may. */
  takes(socket: Pick<Socket, 'remoteAddress' | 'once'>): boolean {
    // It may have gone by now.
    if (this.#most === 0 || socket.remoteAddress === undefined) return true;
    const network = networkOf(socket.remoteAddress);
    if (this.#open.of(network) >= this.#most) return false;
    this.#open.add(network, 1);
    socket.once('close', () => this.#open.add(network, -1));
    return true;
  }
}
