import { isRefused, type Operations, type StatefoldClient } from '@statefold/client';
import { allPages } from './pages-of';

type Listed = Operations['listEventTypes']['answer']['eventTypes'][number];
/** One of them, with its schema. */
export type EventType = Operations['getEventType']['answer'];

export interface EventTypes {
  readonly eventTypes: readonly Listed[];
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

/** A schema may be there before the first event, and a page before both. */
export const noneYet = (name: string): EventType => ({ eventType: name, aggregateTypes: [], events: 0 });

/** @throws ClientError */
export async function eventTypeOf(client: StatefoldClient, name: string): Promise<EventType> {
  try {
    return await client.request('getEventType', { path: { type: name } });
  } catch (error) {
    if (isRefused(error, 'NOT_FOUND')) return noneYet(name);
    throw error;
  }
}
