import { isRefused, StatefoldClient, type Operations } from '@statefold/client';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import { draftsOf, fixturesOf, type Drafts } from './drafts';
import type { Sources } from './sources';
import { parseJson } from './exact-json';

export type Scope = Operations['whoami']['answer']['scopes'][number];

/** Who looks, and the client that asks in their name. */
export interface Session {
  readonly kind: 'tenant' | 'admin';
  readonly client: StatefoldClient;
  /** Of the tenant, or of the service for its owner. */
  readonly name: string;
  readonly keyName: string | undefined;
  /** Whose all that is that the browser keeps: a tenant that is made under the id of a deleted one is another tenant. */
  readonly owner: string;
  readonly drafts: Drafts;
  /** Of code that was deployed from this tab, by what it is of. */
  readonly fixtures: Map<string, Sources>;
  /** The service copies events and states to where SQL finds them; false: it is told not to (`READ_STORE` is `none`). */
  readonly hasReadStore: boolean;
  /** The key may make accounts with which tools read the ClickHouse server, and the service has them. */
  readonly hasSqlAccounts: boolean;
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

/** Undefined also where what is kept is not what this console keeps. */
export function keptKey(): Kept | undefined {
  try {
    const { kind, key } = JSON.parse(sessionStorage.getItem(NAME) ?? '{}') as Partial<Kept>;
    return typeof key === 'string' && (kind === 'tenant' || kind === 'admin') ? { kind, key } : undefined;
  } catch {
    return undefined;
  }
}

export const forgetKey = (): void => sessionStorage.removeItem(NAME);

const keep = (kept: Kept): void => sessionStorage.setItem(NAME, JSON.stringify(kept));

/**
 * Tells by the service's answers whose key it is, and keeps it in the tab. `kind`: what it was before. `onLost` is called when the key is
 * refused later: it was revoked, or has expired.
 * @throws ClientError: RefusedError UNAUTHENTICATED where it is nobody's
 */
export async function signIn(
  key: string,
  { kind, onLost }: { readonly kind?: Session['kind']; readonly onLost: () => void },
): Promise<Session> {
  let isSignedIn = false;
  const options = {
    url: location.origin,
    retry: RETRY,
    parseJson,
    fetch: async (...asked: Parameters<typeof fetch>): Promise<Response> => {
      const response = await fetch(...asked);
      if (response.status === 401 && isSignedIn) onLost();
      return response;
    },
  };
  const begun = async (session: Omit<Session, 'hasReadStore'>): Promise<Session> => {
    const whole = { ...session, hasReadStore: await hasReadStore() };
    isSignedIn = true;
    keep({ kind: session.kind, key });
    return whole;
  };
  const asAdmin = async (): Promise<Session> => {
    const client = new StatefoldClient({ ...options, adminKey: key });
    await client.request('listTenants', { query: { limit: 1 } });
    return begun({
      kind: 'admin',
      client,
      name: 'Service',
      keyName: 'admin key',
      owner: 'admin',
      drafts: draftsOf('admin'),
      fixtures: fixturesOf('admin'),
      hasSqlAccounts: false,
      may: () => false,
    });
  };
  if (kind === 'admin') return asAdmin();
  const client = new StatefoldClient({ ...options, apiKey: key });
  try {
    const { tenantId, createdAt, name, keyName, scopes, sqlAccounts } = await client.request('whoami');
    const owner = `tenant ${tenantId} ${createdAt}`;
    const drafts = draftsOf(owner);
    return await begun({
      kind: 'tenant',
      client,
      name,
      keyName,
      owner,
      drafts,
      fixtures: fixturesOf(owner),
      hasSqlAccounts: sqlAccounts === true,
      may: (scope) => scopes.includes(scope),
    });
  } catch (error) {
    if (!isRefused(error, 'UNAUTHENTICATED') || kind === 'tenant') throw error;
    return asAdmin();
  }
}

/** True also where that can't be known now. */
async function hasReadStore(): Promise<boolean> {
  try {
    const { checks } = (await (await fetch('/health/ready')).json()) as { readonly checks?: object };
    return checks === undefined || 'readStore' in checks;
  } catch {
    return true;
  }
}

export const SessionContext = createContext<Session | undefined>(undefined);

/** Within the shell, which shows nothing else to who is not signed in. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error('nobody is signed in');
  return session;
}
