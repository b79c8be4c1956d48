import { isRefused, type Event, type Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Link, useSearchParams } from 'wouter-preact';
import { aggregateTypesOf } from '../aggregate-types';
import { useLoad, type Loaded } from '../load';
import { LONG_MS } from '../long';
import { useSession, type Session } from '../session';
import { useTimeLine } from '../time-line';
import { Confirm } from '../ui/dialogs';
import { Difference, Json } from '../ui/json';
import { Badge, Empty, Failure, Loading, Missing, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { count } from '../words';
import { ReleaseAggregate } from './release-aggregate';

type State = Operations['getAggregateState']['answer'];

/** The time line of an aggregate, newest first; at the version that is chosen the event, and what it did to the state. */
export function AggregatePage({ id }: { readonly id: string }): JSX.Element {
  const { client } = useSession();
  const [search, setSearch] = useSearchParams();
  const line = useTimeLine(client, id);
  const { newest, error } = line;
  const head = newest.value?.version;
  const asked = Number(search.get('version') ?? Number.NaN);
  const version = Number.isSafeInteger(asked) && asked > 0 ? Math.min(asked, head ?? asked) : head;
  const choose = (one: number): void => setSearch({ version: String(one) }, { replace: true });
  const range = useRef<readonly [number, number]>();
  const look = (first: number, last: number): void => {
    range.current = [first, last];
    if (head !== undefined) line.need(head - last, head - first);
  };
  useEffect(() => {
    if (range.current !== undefined) look(...range.current);
  }, [head]);
  if (isRefused(newest.error, 'GONE'))
    return (
      <Page title={id}>
        <Empty title="The aggregate was erased">
          <p>{newest.error.message}</p>
        </Empty>
      </Page>
    );
  if (isRefused(newest.error, 'NOT_FOUND'))
    return (
      <Page title={id}>
        <Missing title="There is no such aggregate" of={newest}>
          <p>None with this id has an event. Ids are told apart by case.</p>
        </Missing>
      </Page>
    );
  if (head === undefined || version === undefined)
    return <Page title={id}>{newest.error === undefined ? <Loading /> : <Outdated of={newest} />}</Page>;
  const type = newest.value?.aggregateType;
  return (
    <Page
      title={id}
      aside={
        <>
          <Link href={`/types/${encodeURIComponent(type ?? '')}`}>
            <Badge>{type}</Badge>
          </Link>
          <Erase id={id} onErased={newest.reload} />
        </>
      }
    >
      <Outdated of={newest} />
      <label class="slider">
        <span>
          Version <output>{count(version)}</output> of {count(head)}
        </span>
        <input
          type="range"
          min={1}
          max={head}
          value={version}
          aria-label="Version"
          onInput={({ currentTarget }) => choose(Number(currentTarget.value))}
        />
      </label>
      {error !== undefined && (
        <Failure
          error={error}
          onRetry={() => {
            line.reload();
            if (range.current !== undefined) look(...range.current);
          }}
        />
      )}
      <div class="split">
        <Rows
          count={head}
          label="Events, newest first"
          columns="4rem minmax(8rem, 1fr) 11rem"
          heads={['Version', 'Event', 'Time']}
          onRange={look}
          shows={search.has('version') ? head - version : undefined}
          selected={(index) => head - index === version}
          onSelect={(index) => choose(head - index)}
          row={(index) => {
            const at = head - index;
            const event = line.at(at);
            return {
              key: at,
              cells: [
                <span class="number">{at}</span>,
                event?.eventType ?? <span class="faint">…</span>,
                event && <Time at={event.timestamp} />,
              ],
            };
          }}
        />
        <AtVersion id={id} type={type ?? ''} version={version} known={line.at(version)} />
      </div>
    </Page>
  );
}

const FAULTED_EVERY_MS = 3_000;
const CODE_EVERY_MS = 3_000;
const KEPT_MS = 3_000;
const MOST_KEPT = 16;

interface SeenStates {
  readonly before: State | undefined;
  readonly after: State;
}

function AtVersion({
  id,
  type,
  version,
  known,
}: {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  /** The event, where it is there already. */
  readonly known: Event | undefined;
}): JSX.Element {
  const { client } = useSession();
  const event = useLoad(
    async (signal) => {
      if (known !== undefined) return known;
      const query = { fromVersion: version, limit: 1, include: 'metadata' } as const;
      return (await client.request('listEvents', { path: { aggregateId: id }, query, signal })).events[0];
    },
    [client, id, version],
  );
  const code = useCode(client, type);
  const { data, metadata, correlationId, causationId, eventId, eventType, timestamp } = event.value ?? {};
  return (
    <div class="detail">
      {event.error !== undefined && <Failure error={event.error} onRetry={event.reload} />}
      {timestamp !== undefined && (
        <section aria-label="Event">
          <h2>{eventType}</h2>
          <dl>
            <dt>Event</dt>
            <dd>
              <code>{eventId}</code>
            </dd>
            <dt>Time</dt>
            <dd>
              <Time at={timestamp} />
            </dd>
            {correlationId !== undefined && (
              <>
                <dt>Correlation</dt>
                <dd>
                  <code>{correlationId}</code>
                </dd>
              </>
            )}
            {causationId !== undefined && (
              <>
                <dt>Cause</dt>
                <dd>
                  <code>{causationId}</code>
                </dd>
              </>
            )}
          </dl>
          <Json value={data} label="Data of the event" />
          {metadata !== undefined && <Json value={metadata} label="Metadata of the event" />}
        </section>
      )}
      <section aria-label="State">
        <h2>State before and after</h2>
        {code.value === undefined ? (
          code.error === undefined ? (
            <Loading />
          ) : (
            <Failure error={code.error} onRetry={code.reload} />
          )
        ) : code.value === UNBOUND ? (
          <p class="faint">
            No reducer is bound to the type <code>{type}</code>, so its aggregates have events and no state. Upload one
            to see it.
          </p>
        ) : (
          <States key={code.value} type={type} id={id} version={version} />
        )}
      </section>
    </div>
  );
}

/** By the code that is bound: for other code it is another one. */
function States({
  type,
  id,
  version,
}: {
  readonly type: string;
  readonly id: string;
  readonly version: number;
}): JSX.Element {
  const { client } = useSession();
  const stateAt = useStates(client, { type, id });
  const states = useLoad(
    async (signal): Promise<SeenStates> => {
      const [before, after] = await Promise.all([
        version > 1 ? stateAt(version - 1, signal) : undefined,
        stateAt(version, signal),
      ]);
      return { before, after };
    },
    [client, id, type, version],
  );
  const isFaulted = states.value?.after.fault !== undefined;
  // Somebody else may have tried it again.
  useEffect(() => {
    if (!isFaulted) return undefined;
    const timer = setInterval(() => !document.hidden && states.reload(), FAULTED_EVERY_MS);
    return () => clearInterval(timer);
  }, [isFaulted, states.reload]);
  if (states.value !== undefined) return <Seen {...states.value} onReleased={states.reload} />;
  return states.error === undefined ? <Loading /> : <Failure error={states.error} onRetry={states.reload} />;
}

function Seen({ before, after, onReleased }: SeenStates & { readonly onReleased: () => void }): JSX.Element {
  const { fault } = after;
  const [told, setTold] = useState<string>();
  return (
    <>
      {fault !== undefined && (
        <div class="failure" role="alert">
          <p>
            {fault.className} threw at version {fault.version}
            {fault.file !== null && ` (${fault.file}:${fault.line ?? '?'})`}: {fault.message}
          </p>
          <div class="buttons">
            <ReleaseAggregate
              type={after.aggregateType}
              fault={fault}
              onReleased={(words) => {
                setTold(words);
                onReleased();
              }}
            />
          </div>
        </div>
      )}
      {told !== undefined && <p role="status">{told}</p>}
      <Difference before={before?.state ?? null} after={after.state} />
    </>
  );
}

/** Where the list of types names no reducer. */
const UNBOUND = 'none';

/**
 * Which code makes the states of the type, and since when. Until one is bound it is taken from the list of types: to ask for the binding of a
 * type that has none is refused, and a browser logs each refusal as an error.
 */
function useCode(client: Session['client'], type: string): Loaded<string> {
  const bound = useRef<string>();
  return useLoad(
    async (signal) => {
      const one =
        bound.current === type
          ? await bindingOf(client, type, signal)
          : (await aggregateTypesOf(client, signal)).find(({ aggregateType }) => aggregateType === type);
      bound.current = one?.reducerId === undefined ? undefined : type;
      return one?.reducerId === undefined ? UNBOUND : `${one.reducerId} ${one.className} ${one.boundAt}`;
    },
    [client, type],
    CODE_EVERY_MS,
  );
}

type Binding = Operations['getBinding']['answer'];

/** Undefined: it was taken away. */
async function bindingOf(
  client: Session['client'],
  type: string,
  signal: AbortSignal,
): Promise<Partial<Binding> | undefined> {
  try {
    return await client.request('getBinding', { path: { type }, signal });
  } catch (error) {
    if (isRefused(error, 'NO_REDUCER_BOUND')) return undefined;
    throw error;
  }
}

/** A step of the slider has one of its two states from the step before. */
function useStates(
  client: Session['client'],
  { type, id }: { readonly type: string; readonly id: string },
): (version: number, signal: AbortSignal) => Promise<State> {
  const kept = useRef(new Map<number, { readonly at: number; readonly state: State }>());
  return async (version, signal) => {
    const known = kept.current.get(version);
    if (known !== undefined && known.at > performance.now() - KEPT_MS) return known.state;
    const query = { atVersion: version };
    const state = await client.request('getAggregateState', {
      path: { type, id },
      query,
      signal,
      timeoutMs: LONG_MS,
    });
    if (kept.current.size >= MOST_KEPT) kept.current.clear();
    // What is faulted may go on at any time.
    if (state.fault === undefined) kept.current.set(version, { at: performance.now(), state });
    return state;
  };
}

/** Takes the aggregate away for good. */
function Erase({ id, onErased }: { readonly id: string; readonly onErased: () => void }): JSX.Element {
  const session = useSession();
  const [isAsked, setAsked] = useState(false);
  const [reason, setReason] = useState('');
  if (!session.may('erase')) return <></>;
  return (
    <>
      <button type="button" class="danger" onClick={() => setAsked(true)}>
        Erase
      </button>
      {isAsked && (
        <Confirm
          title="Erase the aggregate for good?"
          deed="Erase"
          typed={id}
          onClose={() => setAsked(false)}
          run={async () => {
            await session.client.erase(id, {
              timeoutMs: LONG_MS,
              ...(reason.trim() !== '' && { reason: reason.trim() }),
            });
            onErased();
          }}
        >
          <p>
            Its events and its state are gone for whoever asks, and its id is not used again. A projection that has
            folded them says so until it is built anew.
          </p>
          <label>
            <span>Why; it stays in the feed, so name nobody</span>
            <input value={reason} onInput={({ currentTarget: { value } }) => setReason(value)} />
          </label>
        </Confirm>
      )}
    </>
  );
}
