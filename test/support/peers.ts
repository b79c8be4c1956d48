import { Peers } from '../../src/http/gateway/peers.js';

/** Of all processes of a cluster of these tests. */
export const MASTER_KEY = 'a-master-key-that-the-tests-chose-for-all';
export const peers = new Peers(MASTER_KEY);

/** The headers with which another process of the cluster would send a request on. */
export const asPeer = (
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Record<string, string> => ({
  ...headers,
  'statefold-forwarded': peers.proof(method, path, Object.entries(headers).flat()),
});
