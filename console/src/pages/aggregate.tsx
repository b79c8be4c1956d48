import { isRefused, type Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useSearchParams } from 'wouter-preact';
import { useLoad } from '../load';
import { usePages } from '../pages-of';
import { useSession } from '../session';
import { Difference } from '../ui/difference';
import { Badge, Empty, Failure, Json, Loading, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { count } from '../words';

type State = Operations['getAggregateState']['answer'];
const PAGE = 500;

/** The time line of an aggregate, newest first; at the version that is chosen the event, and what it did to the state. */
export function AggregatePage({ id }: { readonly id: string }): JSX.Element {
  const { client } = useSession();
  const [search, setSearch] = useSearchParams();
  const list = usePages(
    async (cursor, signal) => {
      const { events, nextVersion } = await client.request('listEvents', {
        path: { aggregateId: id },
        query: {
          direction: 'backward',
          include: 'metadata',
          limit: PAGE,
          ...(cursor === undefined ? {} : { fromVersion: Number(cursor) }),
        },
        signal,
      });
      return { items: events, nextCursor: nextVersion === undefined ? undefined : String(nextVersion) };
    },
    [client, id],
  );
  const newest = list.items[0]?.version;
  const asked = Number(search.get('version') ?? Number.NaN);
  const version = Number.isSafeInteger(asked) && asked > 0 ? Math.min(asked, newest ?? asked) : newest;
  const choose = (one: number): void => setSearch({ version: String(one) }, { replace: true });
  if (isRefused(list.error, 'NOT_FOUND'))
    return (
      <Page title={id}>
        <Empty title="There is no such aggregate">
          <p>None with this id has an event. Ids are told apart by case.</p>
        </Empty>
      </Page>
    );
  if (newest === undefined || version === undefined)
    return (
      <Page title={id}>
        {list.error === undefined ? <Loading /> : <Failure error={list.error} onRetry={list.reload} />}
      </Page>
    );
  const type = list.items[0]?.aggregateType;
  return (
    <Page
      title={id}
      aside={
        <>
          <Badge>{type}</Badge>
          <button type="button" onClick={list.reload}>
            Reload
          </button>
        </>
      }
    >
      <label class="slider">
        <span>
          Version <output>{count(version)}</output> of {count(newest)}
        </span>
        <input
          type="range"
          min={1}
          max={newest}
          value={version}
          aria-label="Version"
          onInput={({ currentTarget }) => choose(Number(currentTarget.value))}
        />
      </label>
      {list.error !== undefined && <Failure error={list.error} onRetry={list.more} />}
      <div class="split">
        <Rows
          count={list.items.length}
          label="Events, newest first"
          columns="4rem minmax(8rem, 1fr) 11rem"
          heads={['Version', 'Event', 'Time']}
          onEnd={list.more}
          selected={(index) => list.items[index]?.version === version}
          onSelect={(index) => choose(list.items[index]?.version ?? newest)}
          row={(index) => {
            const event = list.items[index];
            return {
              key: event?.version ?? index,
              cells: [
                <span class="number">{event?.version}</span>,
                event?.eventType,
                event && <Time at={event.timestamp} />,
              ],
            };
          }}
        />
        <AtVersion id={id} type={type ?? ''} version={version} />
      </div>
    </Page>
  );
}

interface SeenStates {
  readonly before: State | undefined;
  readonly after: State;
}

function AtVersion({
  id,
  type,
  version,
}: {
  readonly id: string;
  readonly type: string;
  readonly version: number;
}): JSX.Element {
  const { client } = useSession();
  const event = useLoad(
    async (signal) => {
      const query = { fromVersion: version, limit: 1, include: 'metadata' } as const;
      return (await client.request('listEvents', { path: { aggregateId: id }, query, signal })).events[0];
    },
    [client, id, version],
  );
  const states = useLoad(
    async (signal): Promise<SeenStates> => {
      const at = (atVersion: number): Promise<State> =>
        client.request('getAggregateState', { path: { type, id }, query: { atVersion }, signal });
      const [before, after] = await Promise.all([version > 1 ? at(version - 1) : undefined, at(version)]);
      return { before, after };
    },
    [client, id, type, version],
  );
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
        {states.value !== undefined ? (
          <Seen {...states.value} />
        ) : isRefused(states.error, 'NO_REDUCER_BOUND') ? (
          <p class="faint">
            No reducer is bound to the type <code>{type}</code>, so its aggregates have events and no state. Upload one
            to see it.
          </p>
        ) : states.error === undefined ? (
          <Loading />
        ) : (
          <Failure error={states.error} onRetry={states.reload} />
        )}
      </section>
    </div>
  );
}

function Seen({ before, after }: SeenStates): JSX.Element {
  const { fault } = after;
  return (
    <>
      {fault !== undefined && (
        <p class="failure" role="alert">
          {fault.className} threw at version {fault.version}
          {fault.file !== null && ` (${fault.file}:${fault.line ?? '?'})`}: {fault.message}
        </p>
      )}
      <Difference before={before?.state ?? null} after={after.state} />
    </>
  );
}
