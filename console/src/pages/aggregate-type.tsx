import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { aggregateTypesOf, type AggregateType, type Binding } from '../aggregate-types';
import { useDeeds } from '../deed';
import { useLoad } from '../load';
import { LONG_MS } from '../long';
import { useSession } from '../session';
import { Badge, Empty, Failure, Loading, Outdated, Page, Time } from '../ui/parts';
import { count, plural } from '../words';
import { AggregateFaults } from './aggregate-faults';
import { Bindings } from './bindings';
import { Halted } from './halted';
import { Verified, type Verification } from './verified';

interface Seen {
  readonly type: AggregateType | undefined;
  readonly binding: Binding | undefined;
}

const EVERY_MS = 3_000;
/** Aggregates that are folded again to see whether their states are right. */
const SAMPLE = 100;

/** What makes the states of a type's aggregates: the class that is bound, how far it is, and where it stopped. */
export function AggregateTypePage({ id: name }: { readonly id: string }): JSX.Element {
  const session = useSession();
  const { client } = session;
  const { busy, error, run } = useDeeds();
  const [verified, setVerified] = useState<Verification>();
  const seen = useLoad(
    async (signal): Promise<Seen> => {
      const type = (await aggregateTypesOf(client, signal)).find(({ aggregateType }) => aggregateType === name);
      const isBound = type?.reducerId !== undefined;
      const binding = isBound ? await client.request('getBinding', { path: { type: name }, signal }) : undefined;
      return { type, binding };
    },
    [client, name],
    EVERY_MS,
  );
  if (seen.value === undefined)
    return <Page title={name}>{seen.error === undefined ? <Loading /> : <Outdated of={seen} />}</Page>;
  const { type, binding } = seen.value;
  if (type === undefined)
    return (
      <Page title={name}>
        <Empty title="There is no such type of aggregates">
          <p>
            A type exists from its first event on, or once a reducer is bound to it.{' '}
            <Link href="/aggregates">See those that are there</Link>.
          </p>
        </Empty>
      </Page>
    );
  const verify = async (): Promise<void> => {
    const { differences, ...rest } = await client.request('verifyAggregates', {
      path: { type: name },
      body: { sample: SAMPLE },
      timeoutMs: LONG_MS,
    });
    setVerified({ ...rest, differences: differences.map((each) => ({ ...each, name: each.aggregateId })) });
  };
  return (
    <Page
      title={name}
      aside={
        <>
          <Status of={binding} />
          <Link href={`/aggregates?type=${encodeURIComponent(name)}`}>{plural(type.aggregates, 'aggregate')}</Link>
          {type.eventsPerSecond !== undefined && <span class="faint">{count(type.eventsPerSecond)} events/s</span>}
          {binding !== undefined && session.may('deploy') && (
            <button
              type="button"
              disabled={busy !== undefined}
              onClick={() => run('verify', verify, { changesNothing: true })}
            >
              {busy === 'verify' ? 'Verifying…' : 'Verify'}
            </button>
          )}
        </>
      }
    >
      <Outdated of={seen} />
      {binding === undefined ? (
        <p>
          No reducer is bound to the type, so its aggregates have events and no state. Upload one that is made for it,
          or bind a class.
        </p>
      ) : (
        <Bound of={binding} onChanged={seen.reload} />
      )}
      {error !== undefined && <Failure error={error} />}
      {verified !== undefined && <Verified of={verified} onClose={() => setVerified(undefined)} />}
      {binding !== undefined && <AggregateFaults of={binding} seen={seen} />}
      <Bindings type={name} bound={binding} onBound={seen.reload} />
    </Page>
  );
}

function Status({ of: binding }: { readonly of: Binding | undefined }): JSX.Element {
  if (binding === undefined) return <Badge>not bound</Badge>;
  if (binding.faulted !== undefined) return <Badge kind="bad">stopped</Badge>;
  if (binding.faultCount > 0) return <Badge kind="bad">{plural(binding.faultCount, 'aggregate')} stopped</Badge>;
  if (binding.catchUp?.status === 'running') return <Badge kind="busy">catching up</Badge>;
  if (binding.catchUp?.status === 'failed') return <Badge kind="bad">not caught up</Badge>;
  return <Badge kind="good">bound</Badge>;
}

function Bound({
  of: { reducerId, className, boundAt, catchUp, faulted },
  onChanged,
}: {
  readonly of: Binding;
  readonly onChanged: () => void;
}): JSX.Element {
  return (
    <section aria-label="Reducer">
      {faulted !== undefined && <Halted reducerId={reducerId} of={faulted} onRevived={onChanged} />}
      <p>
        <Link href={`/reducers?id=${reducerId}`}>{className}</Link> makes its states, since <Time at={boundAt} />.
      </p>
      {catchUp !== undefined && catchUp.status !== 'done' && (
        <p class="filters">
          {/* What is counted are places in the log, of which an event has one at least. */}
          <span>
            It catches up: {Math.floor((100 * catchUp.processed) / Math.max(catchUp.total, 1))} % of the log,{' '}
            {count(catchUp.eventsPerSecond)} events a second
          </span>
          <progress aria-label="Progress of the catch-up" max={Math.max(catchUp.total, 1)} value={catchUp.processed} />
        </p>
      )}
      {catchUp?.status === 'failed' && (
        <p class="failure">
          The catch-up stopped, by no fault of the code. It is tried again by itself, from where it was; the log of the
          service says why.
        </p>
      )}
    </section>
  );
}
