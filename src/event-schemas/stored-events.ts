import type { AggregateSource } from '../aggregates/aggregate-source.js';
import { hasCode, type FieldError } from '../core/errors.js';
import { eventsOf, isoTimestamp, type StoredEvent } from '../core/event.js';
import { nextTurn, overSlices } from '../core/slices.js';
import { checkData, type DataCheck } from './data-check.js';
import { TOO_COSTLY_MESSAGE } from './event-schemas.js';
import type { JsonSchema } from './json-schema.js';
import { LARGE_EVENT } from './large-events.js';
import { Run, stepsFor } from './run.js';

/** A schema, and its text, JSON. */
export interface ReadSchema {
  readonly compiled: JsonSchema;
  readonly text: string;
}

/** A stored event that a schema would refuse. */
export interface UnfitEvent {
  readonly eventId: string;
  readonly aggregateId: string;
  readonly version: number;
  readonly timestamp: string;
  /** As an append of the one event would be told. */
  readonly errors: readonly FieldError[];
}

export interface StoredEventsChecked {
  /** Events of the type that were looked at. */
  readonly checked: number;
  readonly unfit: number;
  /** The first of those in each partition. */
  readonly examples: readonly UnfitEvent[];
  /** All events of the type were looked at. */
  readonly complete: boolean;
  /** Why not, and how far it got. */
  readonly cut: string | undefined;
}

const EXAMPLES = 10;
/** Where an append of one event has its data. */
export const AT = '/data';
const PAGE = { items: 500, bytes: 1024 * 1024 };

/** A check of a large event that was put off, or ended: what was found before is told. */
const isPutOff = (error: unknown): boolean => hasCode(error, 'RATE_LIMITED', 'UNAVAILABLE');

/**
 * Checks all stored events of the type, in slices that let others have their turn, until `late` says that its time is over; `checkLarge`
 * those that are too large for the event loop.
 */
export async function checkStoredEvents(
  partitions: readonly AggregateSource[],
  eventType: string,
  schema: ReadSchema,
  checkLarge: (data: Buffer) => Promise<DataCheck>,
  late: () => boolean,
): Promise<StoredEventsChecked> {
  let checked = 0;
  let unfit = 0;
  let read = 0;
  const examples: UnfitEvent[] = [];
  const note = (event: StoredEvent, check: DataCheck): void => {
    checked++;
    const errors = errorsOf(check);
    if (errors.length === 0) return;
    unfit++;
    if (examples.length < EXAMPLES)
      examples.push({
        eventId: event.eventId,
        aggregateId: event.aggregateId,
        version: event.version,
        timestamp: isoTimestamp(event.timestamp),
        errors,
      });
  };
  const cut = (why: string): StoredEventsChecked => ({
    ...{ checked, unfit, examples },
    complete: false,
    cut: `${why} after ${read} records of the log, ${checked} events of the type among them`,
  });
  for (const { inputs, eventTypes } of partitions.map((source) => ({
    inputs: source.inputs,
    eventTypes: source.eventTypes(),
  }))) {
    const end = inputs.head;
    // As of now: what comes later is checked as it is appended. Of a type that is not counted there may be any number.
    const there = eventTypes.of(eventType)?.events ?? (eventTypes.others > 0 ? Infinity : 0);
    for (let at = 0, left = there; left > 0 && at < end;) {
      if (late()) return cut('the time for it was over');
      const page = await inputs.read(at, PAGE);
      if (page.end <= at) break;
      at = page.end;
      const events = page.items.flatMap((input) =>
        input.kind === 'commit' ? [...eventsOf(input.commit)].filter((event) => event.eventType === eventType) : [],
      );
      const ofLarge = new Map<StoredEvent, DataCheck>();
      try {
        for (const event of events)
          if (event.data.length >= LARGE_EVENT) ofLarge.set(event, await checkLarge(event.data));
      } catch (error) {
        if (isPutOff(error)) return cut('a large event could not be checked in time');
        throw error;
      }
      read += page.items.length;
      await overSlices('pages', events, (event) =>
        note(
          event,
          ofLarge.get(event) ?? checkData(schema.compiled, event.data, new Run(AT, stepsFor(event.data.length))),
        ),
      );
      left -= events.length;
      await nextTurn();
    }
  }
  return { checked, unfit, examples, complete: true, cut: undefined };
}

function errorsOf(check: DataCheck): readonly FieldError[] {
  if (check.kind === 'fits') return [];
  return check.kind === 'unfit' ? check.violations : [{ pointer: AT, message: TOO_COSTLY_MESSAGE }];
}
