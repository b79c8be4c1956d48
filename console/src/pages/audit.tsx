import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useAddress } from '../address';
import { useFurtherPages, usePages } from '../pages-of';
import { useSession } from '../session';
import { Empty, Failure, Loading, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { plural } from '../words';
import { AuditEntry, Outcome, whatOf, whoOf, type Entry } from './audit-entry';

const PAGE = 200;
/** An entry that is asked for by its address is looked for among so many; further down whoever scrolls comes to it. */
const MOST_LOOKED_AT = 10_000;

/** Who changed what: of the tenant, or of all for the owner of the service. */
export function AuditPage(): JSX.Element {
  const { client, kind } = useSession();
  const { search, change } = useAddress();
  const tenant = search.get('tenant') ?? '';
  const chosenId = search.get('entry');
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
  const chosen = chosenId === null ? undefined : list.items.find(({ id }) => id === chosenId);
  const isLookedFor = chosenId !== null && chosen === undefined;
  const mayFind = !list.isWhole && list.error === undefined && list.items.length < MOST_LOOKED_AT;
  useFurtherPages(list, isLookedFor && mayFind);
  const namesTenants = kind === 'admin' && tenant === '';
  const cellsOf = (entry: Entry): JSX.Element[] => [
    <Time at={entry.at} />,
    <>{entry.action}</>,
    <>{whatOf(entry)}</>,
    ...(namesTenants ? [<>{entry.tenantId}</>] : []),
    <Outcome of={entry} />,
    <>{whoOf(entry)}</>,
    <>{entry.remoteAddress}</>,
  ];
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
        <OfTenant key={tenant} tenant={tenant} onChange={(id) => change({ tenant: id, entry: undefined })} />
      )}
      {list.error !== undefined && <Failure error={list.error} onRetry={list.more} />}
      {list.items.length > 0 ? (
        <div class={chosenId === null ? '' : 'split'}>
          <Rows
            count={list.items.length}
            label="Entries of the audit log"
            columns={`11rem minmax(9rem, 1fr) minmax(9rem, 2fr) ${namesTenants ? 'minmax(6rem, 1fr) ' : ''}8rem minmax(7rem, 1fr) 8rem`}
            minWidth={namesTenants ? 940 : 840}
            heads={['Time', 'What', 'On', ...(namesTenants ? ['Tenant'] : []), 'Outcome', 'By the key', 'From']}
            onEnd={list.more}
            selected={(index) => list.items[index]?.id === chosenId}
            onSelect={(index) => change({ entry: list.items[index]?.id })}
            row={(index) => {
              const entry = list.items[index];
              return { key: entry?.id ?? index, cells: entry ? cellsOf(entry) : [] };
            }}
          />
          {chosenId !== null && (
            <div class="detail">
              {chosen ? (
                <AuditEntry of={chosen} />
              ) : mayFind ? (
                <Loading />
              ) : (
                <p>
                  {list.isWhole
                    ? 'There is no such entry: it is older than the log keeps them, or another tenant’s.'
                    : 'The entry is further down: scroll, and it opens when it comes.'}
                </p>
              )}
              <button type="button" onClick={() => change({ entry: undefined })}>
                Close
              </button>
            </div>
          )}
        </div>
      ) : list.isLoading ? (
        <Loading />
      ) : (
        list.error === undefined && <Nothing tenant={tenant} />
      )}
      <p class="faint" role="status">
        {plural(list.items.length, 'entry', 'entries')}
        {list.isWhole ? '' : ' so far; scroll for more'}
      </p>
    </Page>
  );
}

/** The filter that the owner has; what is written holds once it is sent. */
function OfTenant({
  tenant,
  onChange,
}: {
  readonly tenant: string;
  readonly onChange: (tenant: string) => void;
}): JSX.Element {
  const [text, setText] = useState(tenant);
  return (
    <form
      role="search"
      class="filters"
      onSubmit={(event) => {
        event.preventDefault();
        onChange(text.trim());
      }}
    >
      <label>
        <span>Of the tenant</span>
        <input
          type="search"
          placeholder="all of them  /"
          value={text}
          onInput={({ currentTarget: { value } }) => setText(value)}
        />
      </label>
      <button type="submit">Show</button>
      {tenant !== '' && (
        <button type="button" onClick={() => onChange('')}>
          Show all
        </button>
      )}
    </form>
  );
}

const Nothing = ({ tenant }: { readonly tenant: string }): JSX.Element =>
  tenant === '' ? (
    <Empty title="Nothing was changed yet">
      <p>Each change that a key asks for is an entry: deploys, configuration, keys, endpoints, erasures.</p>
    </Empty>
  ) : (
    <Empty title={`Nothing of the tenant ${tenant} was changed`}>
      <p>Ids are written as they are in the list of tenants. Entries of a tenant that was deleted stay.</p>
    </Empty>
  );
