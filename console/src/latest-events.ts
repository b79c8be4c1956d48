import type { PositionedEvent, StatefoldClient } from '@statefold/client';
import type { EventTypes } from './event-types';

/** Empty: all of them. */
export interface FeedFilter {
  readonly eventType: string;
  readonly aggregateType: string;
}

/** Where no more pass the filter, all are read. */
const FEW = 5_000;
/** So many are looked for where more pass it. */
const WANTED = 1_000;
/** With fewer it is looked further back. */
const ENOUGH = 100;
const FURTHER = 4;

/** How many events pass the filter, as far as they are counted by types. */
function passing({ eventTypes, otherEvents }: EventTypes, { eventType, aggregateType }: FeedFilter): number {
  const counted = eventTypes
    .filter((one) => eventType === '' || one.eventType === eventType)
    .filter((one) => aggregateType === '' || one.aggregateTypes.includes(aggregateType));
  const isFiltered = eventType !== '' || aggregateType !== '';
  return counted.reduce((sum, { events }) => sum + events, isFiltered ? 0 : otherEvents);
}

const filtersOf = ({ eventType, aggregateType }: FeedFilter): { eventType?: string; aggregateType?: string } => ({
  ...(eventType === '' ? {} : { eventType }),
  ...(aggregateType === '' ? {} : { aggregateType }),
});

/**
 * The latest events that pass the filter, oldest first, and then those that come. The feed is read forwards alone: it is begun where the
 * latest would be if they were spread evenly, and further back where that has few. `onBegin`: what was given before is given again, and
 * earlier ones first. @throws ClientError
 */
export async function* latestEvents(
  client: StatefoldClient,
  filter: FeedFilter,
  {
    types,
    signal,
    onBegin,
    onConnection,
  }: {
    readonly types: EventTypes;
    readonly signal: AbortSignal;
    readonly onBegin: () => void;
    readonly onConnection: (isOpen: boolean) => void;
  },
): AsyncGenerator<PositionedEvent, void, undefined> {
  const filters = filtersOf(filter);
  const all = passing(types, filter);
  let from = 0;
  if (all > FEW) {
    const head = await client.feed.newest({ signal });
    let back = Math.ceil((head * WANTED) / all);
    for (let found = 0; ; back *= FURTHER) {
      from = Math.max(head - back, 0);
      if (from === 0) break;
      onBegin();
      found = 0;
      let reached = from;
      for await (const event of client.feed.events({ ...filters, after: from }, { signal })) {
        found++;
        reached = event.position;
        yield event;
      }
      if (found < ENOUGH) continue;
      from = Math.max(reached, head);
      break;
    }
    if (from === 0) onBegin();
  }
  // Those channels that send the key in a header: it is in no URL.
  yield* client.feed.subscribe({ ...filters, from, channels: ['ndjson', 'poll'], signal, onConnection });
}
