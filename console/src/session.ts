import { isRefused, StatefoldClient, type Operations } from '@statefold/client';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';

export type Scope = Operations['whoami']['answer']['scopes'][number];

/** Who looks, and the client that asks in their name. */
export interface Session {
  readonly kind: 'tenant' | 'admin';
  readonly client: StatefoldClient;
  /** Of the tenant, or of the service for its owner. */
  readonly name: string;
  readonly keyName: string | undefined;
  /** The key allows it. */
  may(scope: Scope): boolean;
}

interface Kept {
  readonly kind: Session['kind'];
  readonly key: string;
}

/** Of this tab alone: it is gone with the tab, and no other tab has it. */
const NAME = 'statefold.key';
/** A person waits: rather tell them soon than go on trying. */
const RETRY = { attempts: 3, mostDelayMs: 1_000 };

export function keptKey(): Kept | undefined {
  const kept = sessionStorage.getItem(NAME);
  return kept === null ? undefined : (JSON.parse(kept) as Kept);
}

export const forgetKey = (): void => sessionStorage.removeItem(NAME);

/**
 * Tells by the service's answers whose key it is, and keeps it in the tab. `kind`: what it was before.
 * @throws ClientError: RefusedError UNAUTHENTICATED where it is nobody's
 */
export async function signIn(key: string, kind?: Session['kind']): Promise<Session> {
  const url = location.origin;
  const asAdmin = async (): Promise<Session> => {
    const client = new StatefoldClient({ url, adminKey: key, retry: RETRY });
    await client.request('listTenants', { query: { limit: 1 } });
    sessionStorage.setItem(NAME, JSON.stringify({ kind: 'admin', key } satisfies Kept));
    return { kind: 'admin', client, name: 'Service', keyName: 'admin key', may: () => false };
  };
  if (kind === 'admin') return asAdmin();
  const client = new StatefoldClient({ url, apiKey: key, retry: RETRY });
  try {
    const { name, keyName, scopes } = await client.request('whoami');
    sessionStorage.setItem(NAME, JSON.stringify({ kind: 'tenant', key } satisfies Kept));
    return { kind: 'tenant', client, name, keyName, may: (scope) => scopes.includes(scope) };
  } catch (error) {
    if (!isRefused(error, 'UNAUTHENTICATED') || kind === 'tenant') throw error;
    return asAdmin();
  }
}

export const SessionContext = createContext<Session | undefined>(undefined);

/** Within the shell, which shows nothing else to who is not signed in. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error('nobody is signed in');
  return session;
}
