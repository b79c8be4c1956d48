import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link, useSearchParams } from 'wouter-preact';
import { usePages } from '../pages-of';
import { useSession } from '../session';
import { Json } from '../ui/json';
import { Badge, Empty, Failure, Loading, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { plural } from '../words';

type Entry = Operations['listAudit']['answer']['entries'][number];
const PAGE = 200;
const KINDS = { done: 'good', refused: 'plain', failed: 'bad', unknown: 'busy' } as const;

/** Where an object of that name has a page: of a tenant's console, and of the owner's. */
const PLACES: Readonly<Record<string, string>> = {
  projectionId: '/projections',
  aggregateId: '/aggregates',
  endpointId: '/webhooks',
};

/** Who changed what: of the tenant, or of all for the owner of the service. */
export function AuditPage(): JSX.Element {
  const { client, kind } = useSession();
  const [search, setSearch] = useSearchParams();
  const tenant = search.get('tenant') ?? '';
  const [chosen, setChosen] = useState<Entry>();
  const list = usePages(
    async (cursor, signal) => {
      const query = { limit: PAGE, cursor };
      const page =
        kind === 'admin'
          ? await client.request('listAllAudit', { query: { ...query, ...(tenant !== '' && { tenant }) }, signal })
          : await client.request('listAudit', { query, signal });
      return { items: page.entries, nextCursor: page.nextCursor };
    },
    [client, kind, tenant],
  );
  return (
    <Page
      title="Audit log"
      aside={
        <button type="button" onClick={list.reload}>
          Reload
        </button>
      }
    >
      {kind === 'admin' && (
        <div class="filters">
          <label>
            <span>Of the tenant</span>
            <input
              type="search"
              placeholder="all of them"
              value={tenant}
              onChange={({ currentTarget: { value } }) =>
                setSearch(value.trim() === '' ? {} : { tenant: value.trim() }, { replace: true })
              }
            />
          </label>
        </div>
      )}
      {list.error !== undefined && <Failure error={list.error} onRetry={list.more} />}
      {list.items.length > 0 ? (
        <div class={chosen ? 'split' : ''}>
          <Rows
            count={list.items.length}
            label="Entries of the audit log"
            columns="12rem minmax(9rem, 1fr) minmax(9rem, 2fr) 8rem minmax(8rem, 1fr)"
            minWidth={760}
            heads={['Time', 'What', 'On', 'Outcome', 'By the key']}
            onEnd={list.more}
            selected={(index) => list.items[index] === chosen}
            onSelect={(index) => setChosen(list.items[index])}
            row={(index) => {
              const entry = list.items[index];
              if (entry === undefined) return { key: index, cells: [] };
              return {
                key: entry.id,
                cells: [
                  <Time at={entry.at} />,
                  entry.action,
                  Object.values(entry.object).join(', '),
                  <Badge kind={KINDS[entry.outcome]}>{entry.code ?? entry.outcome}</Badge>,
                  entry.keyName ?? entry.keyId,
                ],
              };
            }}
          />
          {chosen && (
            <div class="detail">
              <h2>{chosen.action}</h2>
              <Objects of={chosen} isOwner={kind === 'admin'} />
              <Json value={chosen} label="The entry" />
              <button type="button" onClick={() => setChosen(undefined)}>
                Close
              </button>
            </div>
          )}
        </div>
      ) : list.isLoading ? (
        <Loading />
      ) : (
        list.error === undefined && (
          <Empty title="Nothing was changed yet">
            <p>Each change that a key asks for is an entry: deploys, configuration, keys, endpoints, erasures.</p>
          </Empty>
        )
      )}
      <p class="faint" role="status">
        {plural(list.items.length, 'entry', 'entries')}
        {list.isWhole ? '' : ' so far; scroll for more'}
      </p>
    </Page>
  );
}

function Objects({
  of: { object, tenantId },
  isOwner,
}: {
  readonly of: Entry;
  readonly isOwner: boolean;
}): JSX.Element {
  const links = isOwner
    ? tenantId === undefined
      ? []
      : [{ name: 'The tenant', href: `/?tenant=${encodeURIComponent(tenantId)}` }]
    : Object.entries(object).flatMap(([name, id]) => {
        const place = PLACES[name];
        return place === undefined ? [] : [{ name: id, href: `${place}/${encodeURIComponent(id)}` }];
      });
  return (
    <>
      {links.map(({ name, href }) => (
        <p key={href}>
          <Link href={href}>{name}</Link>
        </p>
      ))}
    </>
  );
}
