import type { Dispatcher, request as sendRequest } from 'undici';
import { connectorOf } from './owner-pools.js';
import type { Peers } from './peers.js';

export interface PeerAnswer {
  readonly status: number;
  readonly text: string;
}

interface Client {
  readonly request: typeof sendRequest;
  readonly dispatcher: Dispatcher;
}

/** What an answer that is not the one that was hoped for says of the other process. */
export function refusalOf({ status, text }: PeerAnswer): string {
  if (status === 401)
    return `does not know this one's admin key: STATEFOLD_ADMIN_KEY must be the same in all processes`;
  const detail = /"detail":("(?:[^"\\]|\\.)*")/.exec(text)?.[1];
  return `answered ${status}${detail === undefined ? '' : `: ${JSON.parse(detail) as string}`}`;
}

/** Asks other processes of the cluster in this one's own name, as the admin; what it sends on for clients goes by `Gateway`. */
export class PeerClient {
  readonly #peers: Peers;
  readonly #adminKey: string;
  #client: Promise<Client> | undefined;

  /** `adminKey`: the same in all processes. */
  constructor(peers: Peers, adminKey: string) {
    this.#peers = peers;
    this.#adminKey = adminKey;
  }

  /** `target`: path and query. @throws when the process can't be reached, or has not answered within `timeoutMs` */
  async ask(method: 'GET' | 'POST' | 'DELETE', url: string, target: string, timeoutMs: number): Promise<PeerAnswer> {
    const { request, dispatcher } = await (this.#client ??= this.#load());
    const headers = ['X-Admin-Key', this.#adminKey];
    // Without it a process that takes no requests of clients refuses it.
    headers.push('Statefold-Forwarded', this.#peers.proof(method, target, headers));
    const { statusCode, body } = await request(`${url}${target}`, {
      method,
      headers,
      dispatcher,
      signal: AbortSignal.timeout(Math.max(1, Math.ceil(timeoutMs))),
    });
    return { status: statusCode, text: await body.text() };
  }

  async #load(): Promise<Client> {
    // A process that is alone never loads it.
    const { Agent, buildConnector, request } = await import('undici');
    return { request, dispatcher: new Agent({ connect: connectorOf(buildConnector, this.#peers.tls) }) };
  }
}
