import { isIPv6, type Socket } from 'node:net';

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
  readonly #open = new Map<string, number>();

  /** `most`: of one address; 0: as many as it likes. */
  constructor(most: number) {
    this.#most = most;
  }

  /** False: its address has as many as it may. */
  takes(socket: Pick<Socket, 'remoteAddress' | 'once'>): boolean {
    // It may have gone by now.
    if (this.#most === 0 || socket.remoteAddress === undefined) return true;
    const network = networkOf(socket.remoteAddress);
    const open = this.#open.get(network) ?? 0;
    if (open >= this.#most) return false;
    this.#open.set(network, open + 1);
    socket.once('close', () => this.#closed(network));
    return true;
  }

  #closed(network: string): void {
    const open = (this.#open.get(network) ?? 1) - 1;
    if (open > 0) this.#open.set(network, open);
    else this.#open.delete(network);
  }
}
