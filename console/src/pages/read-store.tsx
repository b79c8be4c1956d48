import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { LONG_MS } from '../long';
import { useSession } from '../session';
import { Confirm } from '../ui/dialogs';
import { Badge, Time } from '../ui/parts';
import { plural } from '../words';

type Activity = Operations['getProcessActivity']['answer'];

/** How the rows for SQL do at a process, and a way to have those of all tenants written anew. */
export function ReadStore({
  activity: { checks, figures },
  onBegun,
}: {
  readonly activity: Pick<Activity, 'checks' | 'figures'>;
  readonly onBegun: () => void;
}): JSX.Element {
  const [isAsking, setAsking] = useState(false);
  const [begunAt, setBegunAt] = useState<string>();
  return (
    <section aria-label="Read store">
      <h2>Read store</h2>
      <p class="marks">
        <State of={checks['readStore']} />
        <span>{freshness(figures['read_store_behind_tenants'] ?? 0)}</span>
        <button type="button" onClick={() => setAsking(true)}>
          Rebuild
        </button>
      </p>
      {begunAt !== undefined && <Rebuilding since={begunAt} />}
      {isAsking && (
        <RebuildRows
          onClose={() => setAsking(false)}
          onBegun={() => {
            setBegunAt(new Date().toISOString());
            onBegun();
          }}
        />
      )}
    </section>
  );
}

function State({ of: check }: { readonly of: Activity['checks'][string] | undefined }): JSX.Element {
  if (check === 'up') return <Badge kind="good">takes rows</Badge>;
  if (check === 'degraded') return <Badge kind="busy">refuses rows of some tenants</Badge>;
  return <Badge kind="bad">away</Badge>;
}

const freshness = (behind: number): string =>
  behind === 0
    ? 'It has all rows of the tenants that are active here.'
    : `Rows of ${plural(behind, 'active tenant')} are still to come.`;

/** What became of a rebuild that was asked for at `since`. */
export const Rebuilding = ({ since }: { readonly since: string }): JSX.Element => (
  <p role="status">
    The rows were dropped at <Time at={since} />. They are filled in again from the log, and SQL finds them as they
    come.
  </p>
);

/** Asks before the rows of a tenant, or of all, are dropped and filled in again. */
export function RebuildRows({
  tenant,
  onClose,
  onBegun,
}: {
  /** All unless given. */
  readonly tenant?: { readonly tenantId: string; readonly name: string };
  readonly onClose: () => void;
  readonly onBegun: () => void;
}): JSX.Element {
  const { client } = useSession();
  return (
    <Confirm
      title={tenant === undefined ? 'Rebuild the read store?' : `Rebuild the rows of ${tenant.name}?`}
      deed="Rebuild"
      onClose={onClose}
      run={async () => {
        await client.request('rebuildReadStore', { query: { tenantId: tenant?.tenantId }, timeoutMs: LONG_MS });
        onBegun();
      }}
    >
      <p>
        {tenant === undefined ? 'The rows of all tenants are' : 'All rows of the tenant are'} dropped and filled in
        again from the log: every event and every state, and changes as far back as the log keeps them. Until that is
        done SQL finds some of them only: reports of analysts, and what tenants ask, come out too small. A suspended
        tenant has its rows again once it is resumed.
      </p>
      <p>Appends, states and projections are not touched.</p>
    </Confirm>
  );
}
