import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { LONG_MS } from '../long';
import { useSession } from '../session';
import { Confirm } from '../ui/dialogs';
import { Badge, Time } from '../ui/parts';
import { count, plural } from '../words';

type Activity = Operations['getProcessActivity']['answer'];

/** How the rows for SQL do at a process, how far a rebuild of them is, and a way to have those of all tenants written anew. */
export function ReadStore({
  activity: { url, checks, figures, readStoreRebuild },
  onChanged,
}: {
  readonly activity: Pick<Activity, 'url' | 'checks' | 'figures' | 'readStoreRebuild'>;
  readonly onChanged: () => void;
}): JSX.Element {
  const { client } = useSession();
  const [asked, setAsked] = useState<'rebuild' | 'cancel'>();
  const [begunAt, setBegunAt] = useState<string>();
  if (!('readStore' in checks))
    return (
      <section aria-label="Read store">
        <h2>Read store</h2>
        <p>
          The service runs without one: <code>READ_STORE</code> is <code>none</code>. Nothing is copied for SQL, and
          nothing is missing.
        </p>
      </section>
    );
  return (
    <section aria-label="Read store">
      <h2>Read store</h2>
      <p class="marks">
        <State of={checks['readStore']} />
        <span>{freshness(figures['read_store_behind_tenants'] ?? 0)}</span>
        <button type="button" onClick={() => setAsked('rebuild')}>
          Rebuild
        </button>
        {readStoreRebuild !== undefined && CANCELLABLE.has(readStoreRebuild.state) && (
          <button type="button" onClick={() => setAsked('cancel')}>
            Cancel the rebuild
          </button>
        )}
      </p>
      {readStoreRebuild === undefined ? (
        begunAt !== undefined && <Rebuilding since={begunAt} />
      ) : (
        <RebuildStatus of={readStoreRebuild} />
      )}
      {asked === 'rebuild' && (
        <RebuildRows
          onClose={() => setAsked(undefined)}
          onBegun={() => {
            setBegunAt(new Date().toISOString());
            onChanged();
          }}
        />
      )}
      {asked === 'cancel' && (
        <Confirm
          title="Cancel the rebuild?"
          deed="Cancel the rebuild"
          onClose={() => setAsked(undefined)}
          run={async () => {
            await client.request('cancelReadStoreRebuild', { query: { url }, timeoutMs: LONG_MS });
            onChanged();
          }}
        >
          <p>
            What it has filled is dropped, and SQL goes on to find the rows of before. To have them written anew after
            all, begin again.
          </p>
        </Confirm>
      )}
    </section>
  );
}

/** Once the tables are exchanged it comes to its end. */
const CANCELLABLE: ReadonlySet<string> = new Set(['preparing', 'filling']);

function State({ of: check }: { readonly of: Activity['checks'][string] | undefined }): JSX.Element {
  if (check === 'up') return <Badge kind="good">takes rows</Badge>;
  if (check === 'starting') return <Badge kind="busy">starts</Badge>;
  if (check === 'degraded') return <Badge kind="busy">refuses rows of some tenants</Badge>;
  return <Badge kind="bad">away</Badge>;
}

const freshness = (behind: number): string =>
  behind === 0
    ? 'It has all rows of the tenants that are active here.'
    : `Rows of ${plural(behind, 'active tenant')} are still to come.`;

/** How far the rebuild is that is under way, or how the last one ended. */
function RebuildStatus({ of: rebuild }: { readonly of: NonNullable<Activity['readStoreRebuild']> }): JSX.Element {
  const { state, since, endedAt, tenantIds, position, of, failure } = rebuild;
  const whose = tenantIds === undefined ? 'all rows' : `the rows of ${tenantIds.join(', ')}`;
  if (state === 'done')
    return (
      <p role="status">
        The rebuild of {whose} from <Time at={since} /> was through at <Time at={endedAt ?? since} />.
      </p>
    );
  if (state === 'cancelled')
    return (
      <p role="status">
        The rebuild of {whose} from <Time at={since} /> was cancelled at <Time at={endedAt ?? since} />. SQL finds the
        rows of before.
      </p>
    );
  return (
    <>
      <p role="status">
        A rebuild of {whose} is under way since <Time at={since} />. SQL finds the rows of before until it is through.
      </p>
      <p>
        <progress aria-label="Rebuild" value={position} max={Math.max(1, of)} /> {count(position)} of {count(of)}{' '}
        positions of the log
      </p>
      {failure !== undefined && <p role="alert">It stands still, and tries again: {failure}</p>}
    </>
  );
}

/** That a rebuild was asked for at `since`. */
export const Rebuilding = ({ since }: { readonly since: string }): JSX.Element => (
  <p role="status">
    The rows are written anew from the log since <Time at={since} />. The page of operations tells how far that is, and
    when it is through.
  </p>
);

/** Asks before the rows of a tenant, or of all, are written anew. */
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
        {tenant === undefined ? 'The rows of all tenants are' : 'All rows of the tenant are'} written anew from the log:
        every event and every state, and changes as far back as the log keeps them. SQL finds the rows of before until
        all are there, and from then on the new ones. Where several processes write to one ClickHouse server, or to a
        cluster of servers, rows are dropped first, and SQL finds some of them only until they are filled in again.
      </p>
      <p>A suspended tenant keeps the rows that it has, or has them again once it is resumed.</p>
      <p>Appends, states and projections are not touched.</p>
    </Confirm>
  );
}
