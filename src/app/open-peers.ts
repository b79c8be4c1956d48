import { PeerClient } from '../http/gateway/peer-client.js';
import { Peers } from '../http/gateway/peers.js';
import type { Ground } from './ground.js';
import type { OpenedCatalog } from './open-catalog.js';

/** What the processes of a cluster prove to each other, and how this one asks the others. */
export interface OpenedPeers {
  readonly peers: Peers;
  readonly client: PeerClient;
}

export function openPeers({ peerTls }: Ground, { masterKey, adminKey }: OpenedCatalog): OpenedPeers {
  const peers = new Peers(masterKey, peerTls);
  return { peers, client: new PeerClient(peers, adminKey) };
}
