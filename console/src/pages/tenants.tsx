import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useSearchParams } from 'wouter-preact';
import { useDeeds } from '../deed';
import { usePages } from '../pages-of';
import { useSession } from '../session';
import { Dialog, ShownOnce } from '../ui/dialogs';
import { Badge, Empty, Failure, Loading, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { TenantDetail } from './tenant';

type NewTenant = Operations['createTenant']['answer'];

/** For the owner of the service: its tenants. */
export function TenantsPage(): JSX.Element {
  const { client } = useSession();
  const [search, setSearch] = useSearchParams();
  const chosen = search.get('tenant') ?? undefined;
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<NewTenant>();
  const list = usePages(
    async (cursor, signal) => {
      const page = await client.request('listTenants', { query: { limit: 500, cursor }, signal });
      return { items: page.tenants, nextCursor: page.nextCursor };
    },
    [client],
  );
  const choose = (id: string | undefined): void => setSearch(id === undefined ? {} : { tenant: id }, { replace: true });
  return (
    <Page
      title="Tenants"
      aside={
        <>
          <OpenById onOpen={choose} />
          <button type="button" class="primary" onClick={() => setMaking(true)}>
            New tenant
          </button>
        </>
      }
    >
      {list.error !== undefined && <Failure error={list.error} onRetry={list.more} />}
      {list.items.length === 0 && list.isLoading && <Loading />}
      {list.items.length === 0 && list.isWhole && (
        <Empty title="There are no tenants">
          <p>A tenant has events, code and keys of its own. Make one to begin.</p>
        </Empty>
      )}
      <div class={chosen ? 'split' : ''}>
        <Rows
          count={list.items.length}
          label="Tenants"
          columns="minmax(8rem, 2fr) minmax(8rem, 2fr) 7rem 12rem"
          heads={['Name', 'Tenant', '', 'Created']}
          onEnd={list.more}
          selected={(index) => list.items[index]?.tenantId === chosen}
          onSelect={(index) => choose(list.items[index]?.tenantId)}
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
        {chosen !== undefined && (
          <TenantDetail
            key={chosen}
            id={chosen}
            onChanged={list.refresh}
            onDeleted={() => {
              choose(undefined);
              list.refresh();
            }}
          />
        )}
      </div>
      {isMaking && (
        <Dialog title="New tenant" onClose={() => setMaking(false)}>
          <NewTenantForm
            onCancel={() => setMaking(false)}
            onMade={(tenant) => {
              setMaking(false);
              setMade(tenant);
              list.refresh();
            }}
          />
        </Dialog>
      )}
      {made && (
        <ShownOnce
          title={`The first key of ${made.name}`}
          value={made.apiKey}
          onClose={() => {
            setMade(undefined);
            choose(made.tenantId);
          }}
        >
          Whoever has it acts for the tenant <code>{made.tenantId}</code>.
        </ShownOnce>
      )}
    </Page>
  );
}

function OpenById({ onOpen }: { readonly onOpen: (id: string) => void }): JSX.Element {
  const [id, setId] = useState('');
  return (
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        if (id.trim() !== '') onOpen(id.trim());
      }}
    >
      <input
        type="search"
        aria-label="Open a tenant by its id"
        placeholder="Open by id  /"
        value={id}
        onInput={({ currentTarget: { value } }) => setId(value)}
      />
    </form>
  );
}

function NewTenantForm({
  onMade,
  onCancel,
}: {
  readonly onMade: (tenant: NewTenant) => void;
  readonly onCancel: () => void;
}): JSX.Element {
  const { client } = useSession();
  const [name, setName] = useState('');
  const [id, setId] = useState('');
  const [partitions, setPartitions] = useState('1');
  const { busy, error, run } = useDeeds();
  const make = (event: Event): void => {
    event.preventDefault();
    run('make', async () => {
      const body = {
        name: name.trim(),
        ...(id.trim() !== '' && { tenantId: id.trim() }),
        ...(Number(partitions) > 1 && { partitions: Number(partitions) }),
      };
      onMade(await client.request('createTenant', { body }));
    });
  };
  return (
    <form class="fields" onSubmit={make}>
      <label>
        <span>Name</span>
        <input autoFocus required value={name} onInput={({ currentTarget: { value } }) => setName(value)} />
      </label>
      <label>
        <span>Id, which its topics are named by; empty: the service chooses one</span>
        <input value={id} onInput={({ currentTarget: { value } }) => setId(value)} />
      </label>
      <label>
        <span>Partitions; more than 1 for more appends than one process writes, and for good</span>
        <input
          type="number"
          min={1}
          value={partitions}
          onInput={({ currentTarget: { value } }) => setPartitions(value)}
        />
      </label>
      {error !== undefined && <Failure error={error} />}
      <div class="buttons">
        <button type="submit" class="primary" disabled={busy !== undefined}>
          Create
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  );
}
