import type { Operations, StatefoldClient } from '@statefold/client';
import { allPages } from './pages-of';

type EventType = Operations['listEventTypes']['answer']['eventTypes'][number];

export interface EventTypes {
  readonly eventTypes: readonly EventType[];
  /** Of types that are not counted one by one. */
  readonly otherEvents: number;
}

/** All types of the tenant's events. @throws ClientError */
export async function eventTypesOf(client: StatefoldClient, signal: AbortSignal): Promise<EventTypes> {
  let otherEvents = 0;
  const eventTypes = await allPages(async (cursor) => {
    const page = await client.request('listEventTypes', { query: { limit: 500, cursor }, signal });
    otherEvents = page.otherEvents ?? otherEvents;
    return { items: page.eventTypes, nextCursor: page.nextCursor };
  });
  return { eventTypes, otherEvents };
}
