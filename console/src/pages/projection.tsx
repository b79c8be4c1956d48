import { isRefused } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { useDeeds } from '../deed';
import { useLoad } from '../load';
import { LONG_MS } from '../long';
import { useSession } from '../session';
import { useShown } from '../shown';
import { Confirm } from '../ui/dialogs';
import { Badge, Failure, Loading, Missing, Outdated, Page } from '../ui/parts';
import { behind, classesOf, count } from '../words';
import { KeyFaults } from './key-faults';
import { KeyStates } from './key-states';
import { Status } from './projections';
import { Revisions } from './revisions';
import { Verified, type Verification } from './verified';

const EVERY_MS = 3_000;
/** Keys that are folded again to see whether their states are right. */
const SAMPLE = 100;

/** Status, keys with their states, faults with what releases them, and revisions. */
export function ProjectionPage({ id }: { readonly id: string }): JSX.Element {
  const session = useSession();
  const { client } = session;
  const [, go] = useLocation();
  const isShown = useShown();
  const { busy, error, told, run } = useDeeds();
  const [verified, setVerified] = useState<Verification>();
  const [isDeleting, setDeleting] = useState(false);
  const status = useLoad((signal) => client.request('getProjection', { path: { id }, signal }), [client, id], EVERY_MS);
  const one = status.value;
  if (one === undefined)
    return (
      <Page title={id}>
        {isRefused(status.error, 'NOT_FOUND') ? (
          <Missing title="There is no such projection" of={status}>
            <p>
              It may have been deleted. <Link href="/projections">See those that are there</Link>.
            </p>
          </Missing>
        ) : status.error === undefined ? (
          <Loading />
        ) : (
          <Outdated of={status} />
        )}
      </Page>
    );
  const path = { id };
  const mayDeploy = session.may('deploy');
  const verify = async (): Promise<void> => {
    const { differences, ...rest } = await client.request('verifyProjection', {
      path,
      body: { sample: SAMPLE },
      timeoutMs: LONG_MS,
    });
    setVerified({ ...rest, differences: differences.map((each) => ({ ...each, name: each.key })) });
  };
  const revive = async (): Promise<string> => {
    const { message } = await client.request('reviveProjection', { path });
    status.reload();
    return message;
  };
  return (
    <Page
      title={classesOf(one)}
      aside={
        <>
          <Status of={one} />
          {one.lag && <Badge kind="busy">behind by {behind(one.lag)}</Badge>}
          <span class="faint">
            {one.eventsPerSecond !== undefined && `${count(one.eventsPerSecond)} events/s · `}
            revision {one.live?.revision ?? one.revision} · <code>{id}</code>
          </span>
          {mayDeploy && (
            <>
              {one.faulted !== undefined && (
                <button type="button" disabled={busy !== undefined} onClick={() => run('revive', revive)}>
                  Let it run again
                </button>
              )}
              {one.live !== undefined && (
                <button
                  type="button"
                  disabled={busy !== undefined}
                  onClick={() => run('verify', verify, { changesNothing: true })}
                >
                  {busy === 'verify' ? 'Verifying…' : 'Verify'}
                </button>
              )}
              <button type="button" class="danger" onClick={() => setDeleting(true)}>
                Delete
              </button>
            </>
          )}
        </>
      }
    >
      <Outdated of={status} />
      {one.faulted?.message !== undefined && <p class="failure">{one.faulted.message}</p>}
      {one.compilationError !== undefined && <pre class="failure">{one.compilationError}</pre>}
      {error !== undefined && <Failure error={error} />}
      {told !== undefined && <p role="status">{told}</p>}
      {verified !== undefined && <Verified of={verified} onClose={() => setVerified(undefined)} />}
      <KeyFaults of={one} onChanged={status.reload} />
      <KeyStates of={one} />
      <Revisions of={one} onChanged={status.reload} />
      {isDeleting && (
        <Confirm
          title="Delete the projection?"
          deed="Delete"
          typed={id}
          onClose={() => setDeleting(false)}
          run={async () => {
            await client.request('deleteProjection', { path, timeoutMs: LONG_MS });
            if (isShown()) go('/projections');
          }}
        >
          <p>
            Its states, its changes and its revisions go with it, and whoever follows it is told nothing any more. The
            events stay.
          </p>
        </Confirm>
      )}
    </Page>
  );
}
