import type { JSX } from 'preact';
import { useSearchParams } from 'wouter-preact';
import { useLoad } from '../load';
import { usePages } from '../pages-of';
import { useSession } from '../session';
import { Badge, Failure, Loading, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { count } from '../words';
import { Keys } from './keys';

const WORDS: Readonly<Record<string, string>> = {
  requestsPerSecond: 'Requests a second',
  eventsPerSecond: 'Events a second',
  storageBytes: 'Stored bytes',
  projections: 'Projections',
  reducers: 'Reducers',
  connections: 'Connections',
  pendingUploads: 'Uploads under way',
};

/** For the owner of the service: tenants, and what each takes of its quotas. */
export function TenantsPage(): JSX.Element {
  const { client } = useSession();
  const [search, setSearch] = useSearchParams();
  const chosen = search.get('tenant') ?? undefined;
  const list = usePages(
    async (cursor, signal) => {
      const page = await client.request('listTenants', { query: { limit: 100, cursor }, signal });
      return { items: page.tenants, nextCursor: page.nextCursor };
    },
    [client],
  );
  return (
    <Page title="Tenants">
      {list.error !== undefined && <Failure error={list.error} onRetry={list.more} />}
      {list.items.length === 0 && list.isLoading && <Loading />}
      <div class={chosen ? 'split' : ''}>
        <Rows
          count={list.items.length}
          label="Tenants"
          columns="minmax(8rem, 2fr) minmax(8rem, 2fr) 7rem 12rem"
          heads={['Name', 'Tenant', '', 'Created']}
          onEnd={list.more}
          selected={(index) => list.items[index]?.tenantId === chosen}
          onSelect={(index) => setSearch({ tenant: list.items[index]?.tenantId ?? '' }, { replace: true })}
          row={(index) => {
            const tenant = list.items[index];
            return {
              key: tenant?.tenantId ?? index,
              cells: [
                tenant?.name,
                <code>{tenant?.tenantId}</code>,
                tenant?.suspended && <Badge kind="bad">suspended</Badge>,
                tenant && <Time at={tenant.createdAt} />,
              ],
            };
          }}
        />
        {chosen !== undefined && <TenantUsage id={chosen} />}
      </div>
    </Page>
  );
}

function TenantUsage({ id }: { readonly id: string }): JSX.Element {
  const { client } = useSession();
  const usage = useLoad((signal) => client.request('getTenantUsage', { path: { id }, signal }), [client, id], 2_000);
  const { value, error } = usage;
  if (value === undefined)
    return <div class="detail">{error === undefined ? <Loading /> : <Outdated of={usage} />}</div>;
  const quotas: Readonly<Record<string, number | null>> = value.quotas;
  return (
    <div class="detail">
      <h2>{id}</h2>
      <Outdated of={usage} />
      <ul class="usage">
        {Object.entries(value.usage).map(([name, used]) => {
          const most = quotas[name] ?? undefined;
          return (
            <li key={name}>
              <span>{WORDS[name] ?? name}</span>
              <span class="number">
                {count(used)}
                {most !== undefined && ` of ${count(most)}`}
              </span>
              {most !== undefined && <meter aria-label={WORDS[name] ?? name} min={0} max={most} value={used} />}
            </li>
          );
        })}
      </ul>
      <Keys tenantId={id} />
    </div>
  );
}
