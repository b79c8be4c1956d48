import { MAX_COMMIT_EVENTS, type StoredEvent } from '../core/event.js';

/** An event at its place among all events of its tenant. */
export interface PositionedEvent extends StoredEvent {
  /** An integer from 1 on, below 2^53: the same for every reader and for ever. Positions ascend, those of one commit without a gap. */
  readonly position: number;
}

/** An aggregate was erased: its events are in the feed no more. Whoever has copies of them is to erase those too. */
export interface PositionedErasure {
  readonly position: number;
  readonly erased: true;
  readonly aggregateId: string;
  readonly aggregateType: string;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  readonly reason: string | undefined;
}

export type FeedItem = PositionedEvent | PositionedErasure;

export const isEvent = (item: FeedItem): item is PositionedEvent => !('erased' in item);
export const isErasure = (item: FeedItem): item is PositionedErasure => 'erased' in item;

/** Positions of a commit's events lie between those of its place and of the next: so no count has to be kept anywhere. */
export const positionOfPlace = (place: number, index = 0): number => place * MAX_COMMIT_EVENTS + index + 1;
/** The place of the commit that has the event at the position, if any has. */
export const placeOfPosition = (position: number): number => Math.floor((position - 1) / MAX_COMMIT_EVENTS);
