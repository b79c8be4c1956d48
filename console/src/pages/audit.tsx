import type { ComponentChildren, JSX } from 'preact';
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

interface Column {
  readonly head: string;
  /** Of a CSS grid. */
  readonly track: string;
  readonly cell: (entry: Entry) => ComponentChildren;
}

/** Beside an entry that is open there is room for less, and the entry tells the rest. */
const columnsOf = ({
  namesTenants,
  isOpen,
}: {
  readonly namesTenants: boolean;
  readonly isOpen: boolean;
}): readonly Column[] => [
  { head: 'Time', track: '11rem', cell: ({ at }) => <Time at={at} /> },
  { head: 'What', track: 'minmax(9rem, 1fr)', cell: ({ action }) => action },
  ...(isOpen && namesTenants ? [] : [{ head: 'On', track: 'minmax(9rem, 2fr)', cell: whatOf }]),
  ...(namesTenants ? [{ head: 'Tenant', track: 'minmax(6rem, 1fr)', cell: ({ tenantId }: Entry) => tenantId }] : []),
  { head: 'Outcome', track: '8rem', cell: (entry) => <Outcome of={entry} /> },
  ...(isOpen
    ? []
    : [
        { head: 'By the key', track: 'minmax(7rem, 1fr)', cell: whoOf },
        { head: 'From', track: '8rem', cell: ({ remoteAddress }: Entry) => remoteAddress },
      ]),
];

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
  const columns = columnsOf({ namesTenants: kind === 'admin' && tenant === '', isOpen: chosenId !== null });
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
            columns={columns.map(({ track }) => track).join(' ')}
            minWidth={columns.length * 130}
            heads={columns.map(({ head }) => head)}
            onEnd={list.more}
            selected={(index) => list.items[index]?.id === chosenId}
            onSelect={(index) => change({ entry: list.items[index]?.id })}
            row={(index) => {
              const entry = list.items[index];
              return { key: entry?.id ?? index, cells: entry ? columns.map(({ cell }) => cell(entry)) : [] };
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
