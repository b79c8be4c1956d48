import type { Change } from '../core/change.js';
import type { FeedItem } from './feed-item.js';
import type { Source } from './tenant-feeds.js';

/** The changes of one projection. */
export const changesOf = (projectionId: string): Source<Change> => ({
  id: projectionId,
  of: ({ changes }) => changes.of(projectionId),
});

/** All events of a tenant. */
export const ALL_EVENTS: Source<FeedItem> = { id: 'events', of: ({ events }) => events };
