import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useAddress } from '../address';
import { useFurtherPages, usePages, useRefreshed } from '../pages-of';
import { useSession } from '../session';
import { Badge, Empty, Loading, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { count, plural } from '../words';
import { NewTenant } from './new-tenant';
import { TenantDetail } from './tenant';

type Tenant = Operations['listTenants']['answer']['tenants'][number];

const PAGE = 500;
const EVERY_MS = 5_000;

/** Those whose name or id has the words in it, however they are written. */
function found(tenants: readonly Tenant[], words: string): readonly Tenant[] {
  const wanted = words.trim().toLowerCase();
  if (wanted === '') return tenants;
  return tenants.filter(({ name, tenantId }) => name.toLowerCase().includes(wanted) || tenantId.includes(wanted));
}

/** For the owner of the service: its tenants. What is looked for and what is chosen is in the address. */
export function TenantsPage(): JSX.Element {
  const { client } = useSession();
  const { search, change } = useAddress();
  const chosen = search.get('tenant') ?? undefined;
  const words = search.get('search') ?? '';
  const [isMaking, setMaking] = useState(false);
  const list = usePages(
    async (cursor, signal) => {
      const page = await client.request('listTenants', { query: { limit: PAGE, cursor }, signal });
      return { items: page.tenants, nextCursor: page.nextCursor };
    },
    [client],
  );
  useRefreshed(list, EVERY_MS);
  // No operation searches: whoever does has all of them looked at.
  useFurtherPages(list, words !== '');
  const shown = found(list.items, words);
  const choose = (id: string | undefined): void => change({ tenant: id });
  /** The one with exactly that id, else the first that is found, else one of that id that is not in the list. */
  const open = (): void => {
    const id = words.trim();
    const one = shown.find(({ tenantId }) => tenantId === id) ?? shown[0];
    if (id !== '') choose(one?.tenantId ?? id);
  };
  return (
    <Page
      title="Tenants"
      aside={
        <>
          <Search words={words} onChange={(text) => change({ search: text })} onOpen={open} />
          <button type="button" class="primary" onClick={() => setMaking(true)}>
            New tenant
          </button>
        </>
      }
    >
      <Outdated of={list} />
      {shown.length === 0 && list.isLoading && <Loading />}
      {shown.length === 0 && list.isWhole && <Nothing isSearched={list.items.length > 0} />}
      <div class={chosen ? 'split' : ''}>
        <Rows
          count={shown.length}
          label="Tenants"
          columns="minmax(8rem, 2fr) minmax(8rem, 2fr) 7rem 12rem"
          heads={['Name', 'Tenant', '', 'Created']}
          onEnd={list.more}
          selected={(index) => shown[index]?.tenantId === chosen}
          onSelect={(index) => choose(shown[index]?.tenantId)}
          row={(index) => {
            const tenant = shown[index];
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
        {chosen !== undefined && (
          <TenantDetail
            key={chosen}
            id={chosen}
            onChanged={list.refresh}
            onClose={() => choose(undefined)}
            onDeleted={(isShown) => {
              if (isShown) choose(undefined);
              list.refresh();
            }}
          />
        )}
      </div>
      <p class="faint" role="status">
        {words === '' ? '' : `${count(shown.length)} of `}
        {plural(list.items.length, 'tenant')}
        {list.isWhole ? '' : ' so far; scroll for more'}
      </p>
      {isMaking && (
        <NewTenant
          onMade={list.refresh}
          onClose={(tenantId) => {
            setMaking(false);
            if (tenantId !== undefined) choose(tenantId);
          }}
        />
      )}
    </Page>
  );
}

function Search({
  words,
  onChange,
  onOpen,
}: {
  readonly words: string;
  readonly onChange: (words: string) => void;
  readonly onOpen: () => void;
}): JSX.Element {
  return (
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        onOpen();
      }}
    >
      <input
        type="search"
        aria-label="Search tenants by name or id; Enter opens one"
        placeholder="Name or id  /"
        value={words}
        onInput={({ currentTarget: { value } }) => onChange(value)}
      />
    </form>
  );
}

const Nothing = ({ isSearched }: { readonly isSearched: boolean }): JSX.Element =>
  isSearched ? (
    <Empty title="No tenant has this in its name or id">
      <p>Names and ids are looked through as they are now; those of deleted tenants are in the audit log.</p>
    </Empty>
  ) : (
    <Empty title="There are no tenants">
      <p>A tenant has events, code and keys of its own. Make one to begin.</p>
    </Empty>
  );
