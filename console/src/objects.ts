import { aggregateTypesOf } from './aggregate-types';
import { eventTypesOf } from './event-types';
import { allPages } from './pages-of';
import { reducersOf } from './reducers';
import type { Scope, Session } from './session';
import { classesOf } from './words';

/** What has a page of its own, but for aggregates, of which there may be millions. */
export interface NamedObject {
  readonly kind: string;
  readonly name: string;
  readonly path: string;
}

/** Tenants are looked for in so many pages; the page of tenants finds the others. */
const TENANT_PAGES = 4;
const PAGE = 500;

/** All that the key shows. What can't be asked for is left out: the pages say why. */
export async function objectsOf(session: Session, signal: AbortSignal): Promise<readonly NamedObject[]> {
  const lists = session.kind === 'admin' ? [tenants(session, signal)] : ofTenant(session, signal);
  const found = await Promise.all(lists.map((list) => list.catch((): readonly NamedObject[] => [])));
  return found.flat();
}

function ofTenant(session: Session, signal: AbortSignal): readonly Promise<readonly NamedObject[]>[] {
  const { client } = session;
  const lists: readonly (readonly [Scope, () => Promise<readonly NamedObject[]>])[] = [
    [
      'read',
      async () =>
        (
          await allPages(async (cursor) => {
            const page = await client.request('listProjections', { query: { limit: PAGE, cursor }, signal });
            return { items: page.projections, nextCursor: page.nextCursor };
          })
        ).map((one) => objectOf('Projection', classesOf(one), `/projections/${encodeURIComponent(one.id)}`)),
    ],
    [
      'read',
      async () =>
        (await aggregateTypesOf(client, signal)).map(({ aggregateType: name }) =>
          objectOf('Aggregate type', name, `/types/${encodeURIComponent(name)}`),
        ),
    ],
    [
      'read',
      async () =>
        (await eventTypesOf(client, signal)).eventTypes.map(({ eventType: name }) =>
          objectOf('Event type', name, `/event-types/${encodeURIComponent(name)}`),
        ),
    ],
    [
      'read',
      async () =>
        (await reducersOf(client, signal)).map((one) =>
          objectOf('Reducer', classesOf(one), `/reducers?id=${encodeURIComponent(one.id)}`),
        ),
    ],
    [
      'webhooks',
      async () =>
        (
          await allPages(async (cursor) => {
            const page = await client.request('listWebhookEndpoints', { query: { limit: 100, cursor }, signal });
            return { items: page.endpoints, nextCursor: page.nextCursor };
          })
        ).map(({ endpointId, url }) =>
          objectOf('Webhook endpoint', url, `/webhooks/${encodeURIComponent(endpointId)}`),
        ),
    ],
  ];
  return lists.filter(([scope]) => session.may(scope)).map(([, list]) => list());
}

async function tenants({ client }: Session, signal: AbortSignal): Promise<readonly NamedObject[]> {
  const found: NamedObject[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < TENANT_PAGES && (page === 0 || cursor !== undefined); page++) {
    const answer = await client.request('listTenants', { query: { limit: PAGE, cursor }, signal });
    for (const { tenantId, name } of answer.tenants)
      found.push(
        objectOf(
          'Tenant',
          name === tenantId ? name : `${name} ${tenantId}`,
          `/?tenant=${encodeURIComponent(tenantId)}`,
        ),
      );
    cursor = answer.nextCursor;
  }
  return found;
}

const objectOf = (kind: string, name: string, path: string): NamedObject => ({ kind, name, path });
