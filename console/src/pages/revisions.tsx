import { isRefused, type Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { useAddress } from '../address';
import { useLoad } from '../load';
import { useSession } from '../session';
import { sourcesOf, type Sources } from '../sources';
import { Confirm } from '../ui/dialogs';
import { Badge, Failure, Loading, Time } from '../ui/parts';
import { SourcesDifference } from '../ui/sources-difference';
import { count, plural } from '../words';

type Projection = Operations['getProjection']['answer'];
type Revision = Operations['listRevisions']['answer']['revisions'][number];

/** Of these the code can be live again. */
const AGAIN: ReadonlySet<Revision['status']> = new Set(['kept', 'gone', 'cancelled']);

/** What was deployed: the sources of two revisions compared, an earlier one made live again, and the live one folded anew. */
export function Revisions({ of, onChanged }: { readonly of: Projection; readonly onChanged: () => void }): JSX.Element {
  const { id, build, live } = of;
  const session = useSession();
  const { client } = session;
  const list = useLoad((signal) => client.request('listRevisions', { path: { id }, signal }), [client, id]);
  const { search, change } = useAddress();
  const written = Number(search.get('compared') ?? Number.NaN);
  const compared = Number.isSafeInteger(written) ? written : undefined;
  const [asked, setAsked] = useState<Revision | 'rebuild' | 'cancel'>();
  useEffect(list.reload, [live?.revision, build?.revision, build?.status]);
  const mayDeploy = session.may('deploy');
  const isBuilding = build?.status === 'running';
  const changed = (): void => {
    onChanged();
    list.reload();
  };
  const revisions = list.value?.revisions ?? [];
  const before = revisions.find(({ revision }) => compared !== undefined && revision < compared)?.revision;
  return (
    <section aria-label="Revisions">
      <h2>Revisions</h2>
      {isBuilding && build !== undefined && (
        <p class="filters">
          <span>
            Revision {build.revision} is folded ({build.cause}): {count(build.processed)} of{' '}
            {plural(build.total, 'event')}
          </span>
          <progress aria-label="Progress of the build" max={Math.max(build.total, 1)} value={build.processed} />
          {mayDeploy && (
            <button type="button" onClick={() => setAsked('cancel')}>
              Cancel the build
            </button>
          )}
        </p>
      )}
      {mayDeploy && (
        <p class="filters">
          <Link href={`/code?kind=projections&id=${id}`}>Change the code</Link>
          <button type="button" disabled={isBuilding || live === undefined} onClick={() => setAsked('rebuild')}>
            Rebuild
          </button>
        </p>
      )}
      {list.error !== undefined && <Failure error={list.error} onRetry={list.reload} />}
      <ul class="faults">
        {revisions.map((revision, n) => (
          <li key={revision.revision}>
            <strong>{revision.revision}</strong>{' '}
            {revision.revision === live?.revision ? <Badge kind="good">live</Badge> : revision.status}{' '}
            {revision.faulted !== undefined && <Badge kind="bad">stopped</Badge>} · {revision.cause}
            {revision.of !== undefined && ` of ${revision.of}`}
            {revision.changedKeys !== undefined && ` · ${plural(revision.changedKeys, 'key')} changed`}{' '}
            <span class="faint">
              <Time at={revision.createdAt} />
            </span>
            {mayDeploy && n < revisions.length - 1 && (
              <button
                type="button"
                aria-expanded={compared === revision.revision}
                onClick={() =>
                  change({ compared: compared === revision.revision ? undefined : String(revision.revision) })
                }
              >
                What changed in {revision.revision}
              </button>
            )}
            {mayDeploy && AGAIN.has(revision.status) && revision.compiledAt !== undefined && (
              <button type="button" onClick={() => setAsked(revision)}>
                Roll back to {revision.revision}
              </button>
            )}
            {mayDeploy && compared === revision.revision && before !== undefined && (
              <SourcesCompared id={id} from={before} to={revision.revision} />
            )}
          </li>
        ))}
      </ul>
      {asked === 'rebuild' && (
        <Confirm
          title="Fold the live code again from the start?"
          deed="Rebuild"
          onClose={() => setAsked(undefined)}
          run={() => client.request('rebuildProjection', { path: { id } }).then(changed)}
        >
          <p>
            A further revision is folded beside the live one, and takes its place at the end. Subscribers are told of
            the keys that differ.
          </p>
        </Confirm>
      )}
      {asked === 'cancel' && (
        <Confirm
          title="Cancel the build?"
          deed="Cancel the build"
          onClose={() => setAsked(undefined)}
          run={() => client.request('cancelBuild', { path: { id } }).then(changed)}
        >
          <p>What is live stays live.</p>
        </Confirm>
      )}
      {typeof asked === 'object' && (
        <Confirm
          title={`Make the code of revision ${asked.revision} live again?`}
          deed="Roll back"
          onClose={() => setAsked(undefined)}
          run={() =>
            client.request('rollbackProjection', { path: { id }, body: { revision: asked.revision } }).then(changed)
          }
        >
          <p>
            {asked.status === 'kept'
              ? 'Its states are kept, so it is live as soon as it has caught up.'
              : 'Its states are not kept: it is folded from the start, and live at the end.'}{' '}
            Subscribers are told of the keys that differ.
          </p>
        </Confirm>
      )}
    </section>
  );
}

function SourcesCompared({
  id,
  from,
  to,
}: {
  readonly id: string;
  readonly from: number;
  readonly to: number;
}): JSX.Element {
  const { client } = useSession();
  const both = useLoad(
    async (signal): Promise<readonly [Sources, Sources]> => {
      const at = async (revision: number): Promise<Sources> =>
        sourcesOf(
          (await client.request('getRevisionSources', { path: { id, revision: String(revision) }, signal })).files,
        );
      return Promise.all([at(from), at(to)]);
    },
    [client, id, from, to],
  );
  if (both.value === undefined) {
    if (isRefused(both.error, 'NOT_FOUND'))
      return <p class="faint">The sources of one of the two are not kept any more.</p>;
    return both.error === undefined ? <Loading /> : <Failure error={both.error} onRetry={both.reload} />;
  }
  const [before, after] = both.value;
  return (
    <SourcesDifference
      before={before}
      after={after}
      words={`revision ${from} to ${to}`}
      same={`Its sources are those of revision ${from}.`}
    />
  );
}
