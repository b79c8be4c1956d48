import type { FeedEvent, PositionedEvent, StatefoldClient } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { useAddress } from '../address';
import { eventTypesOf } from '../event-types';
import { latestEvents } from '../latest-events';
import { useLoad } from '../load';
import { Ring } from '../ring';
import { useSession } from '../session';
import { Detail } from '../ui/detail';
import { Json } from '../ui/json';
import { Name } from '../ui/name';
import { Badge, Empty, Failure, Loading, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { count } from '../words';

/** As many are kept to scroll through. */
const KEPT = 10_000;
const TYPES_EVERY_MS = 10_000;

/** All events as they come, newest first; drawn once a frame, however many came. */
export function FeedPage(): JSX.Element {
  const { client } = useSession();
  const { search, change } = useAddress();
  const eventType = search.get('eventType') ?? '';
  const aggregateType = search.get('aggregateType') ?? '';
  const ring = useRef(new Ring<PositionedEvent>(KEPT));
  const [stopped, setStopped] = useState<Ring<PositionedEvent>>();
  const [error, setError] = useState<unknown>();
  const [isLive, setLive] = useState(false);
  const [picked, setPicked] = useState<PositionedEvent>();
  const [round, again] = useReducer((n: number) => n + 1, 0);
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const rate = useRate(ring);
  const position = positionIn(search.get('event'));
  // By its address an event is found that is not among those that are kept here.
  const asked = useLoad(
    async (signal) =>
      position !== undefined && picked?.position !== position ? await eventAt(client, position, signal) : undefined,
    [client, position],
  );
  const chosen = position !== undefined && picked?.position === position ? picked : asked.value;
  const types = useLoad((signal) => eventTypesOf(client, signal), [client], TYPES_EVERY_MS);
  useEffect(() => {
    const ended = new AbortController();
    const begin = (): void => void (ring.current = new Ring<PositionedEvent>(KEPT));
    begin();
    setError(undefined);
    setLive(false);
    setStopped(undefined);
    let frame: number | undefined;
    const draw = (): void => {
      frame = undefined;
      redraw(undefined);
    };
    const follow = async (): Promise<void> => {
      const { signal } = ended;
      const options = { types: await eventTypesOf(client, signal), signal, onBegin: begin, onConnection: setLive };
      for await (const event of latestEvents(client, { eventType, aggregateType }, options)) {
        ring.current.put(event);
        frame ??= requestAnimationFrame(draw);
      }
    };
    follow().catch((failed: unknown) => ended.signal.aborted || setError(failed));
    redraw(undefined);
    return () => {
      ended.abort();
      if (frame !== undefined) cancelAnimationFrame(frame);
    };
  }, [client, eventType, aggregateType, round]);
  const shown = stopped ?? ring.current;
  const filter = (name: string, value: string): void => change({ [name]: value });
  const choose = (event: PositionedEvent | undefined): void => {
    setPicked(event);
    change({ event: event && String(event.position) });
  };
  const aggregateTypes = [...new Set(types.value?.eventTypes.flatMap((type) => type.aggregateTypes))].sort();
  return (
    <Page
      title="Feed"
      aside={
        <>
          {error !== undefined ? (
            <Badge kind="bad">stopped</Badge>
          ) : (
            <Badge kind={stopped ? 'plain' : isLive ? 'good' : 'busy'}>
              {stopped ? 'paused' : isLive ? 'live' : 'connecting'}
            </Badge>
          )}
          <span class="faint number">{count(rate)} events/s</span>
          <button type="button" onClick={() => setStopped(stopped ? undefined : ring.current.copy())}>
            {stopped ? `Go on (${count(ring.current.total - stopped.total)} more)` : 'Pause'}
          </button>
        </>
      }
    >
      <div class="filters">
        <Choice name="Event type" value={eventType} onChange={(value) => filter('eventType', value)}>
          {types.value?.eventTypes.map((type) => type.eventType) ?? []}
        </Choice>
        <Choice name="Aggregate type" value={aggregateType} onChange={(value) => filter('aggregateType', value)}>
          {aggregateTypes}
        </Choice>
      </div>
      {error !== undefined && <Failure error={error} onRetry={() => again(undefined)} />}
      <Outdated of={asked} />
      {shown.length === 0 && chosen === undefined && error === undefined ? (
        isLive ? (
          <Empty title="No event has come yet">
            <p>The first one that passes the filters shows here by itself.</p>
          </Empty>
        ) : (
          <Loading />
        )
      ) : (
        <div class={chosen ? 'split' : ''}>
          <Rows
            count={shown.length}
            label="Events, newest first"
            columns="6rem minmax(8rem, 1fr) minmax(10rem, 2fr) 11rem"
            heads={['Position', 'Event', 'Aggregate', 'Time']}
            selected={(index) => chosen !== undefined && shown.newest(index)?.position === chosen.position}
            onSelect={(index) => choose(shown.newest(index))}
            row={(index) => {
              const event = shown.newest(index);
              return {
                key: event?.position ?? index,
                cells: [
                  <span class="number">{event?.position}</span>,
                  event?.eventType,
                  event?.aggregateId,
                  event && <Time at={event.timestamp} />,
                ],
              };
            }}
          />
          {chosen && (
            <Detail onClose={() => choose(undefined)}>
              <h2>{chosen.eventType}</h2>
              <p>
                Version {count(chosen.version)} of{' '}
                <Link href={`/aggregates/${encodeURIComponent(chosen.aggregateId)}?version=${chosen.version}`}>
                  <Name of={chosen.aggregateId} />
                </Link>
              </p>
              <Json value={chosen.data} label="Data of the event" />
            </Detail>
          )}
        </div>
      )}
    </Page>
  );
}

/** Undefined where the text is no position. */
function positionIn(text: string | null): number | undefined {
  const position = Number(text ?? Number.NaN);
  return Number.isSafeInteger(position) && position > 0 ? position : undefined;
}

/** Undefined where none has the position, or the one that had it was erased. @throws ClientError */
async function eventAt(
  client: StatefoldClient,
  position: number,
  signal: AbortSignal,
): Promise<PositionedEvent | undefined> {
  const { events } = await client.feed.read({ after: position - 1, limit: 1 }, { signal });
  return events.find((one): one is FeedEvent => one.position === position && 'data' in one);
}

/** How many came in the last second. */
function useRate(ring: { readonly current: Ring<unknown> }): number {
  const [rate, setRate] = useState(0);
  useEffect(() => {
    let before = { of: ring.current, total: ring.current.total };
    const timer = setInterval(() => {
      const { current } = ring;
      setRate(current === before.of ? current.total - before.total : 0);
      before = { of: current, total: current.total };
    }, 1_000);
    return () => clearInterval(timer);
  }, []);
  return rate;
}

function Choice({
  name,
  value,
  onChange,
  children,
}: {
  readonly name: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly children: readonly string[];
}): JSX.Element {
  const all = value === '' || children.includes(value) ? children : [value, ...children];
  return (
    <label>
      <span>{name}</span>
      <select value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
        <option value="">all</option>
        {all.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    </label>
  );
}
