import type {
  FoldItem,
  FoldOutcome,
  HostEvent,
  ProjectChange,
  ProjectionUnit,
  ProjectRequest,
  State,
} from '../code-host.js';
import type { Fault } from '../../core/event.js';
import {
  decodeFolded,
  decodeMissingItems,
  decodeMissingKeys,
  decodeProjected,
  encodeFold,
  encodeProject,
  encodeState,
  mostBytesOfFolded,
  mostBytesOfProjected,
  type Failure,
  type FoldedItem,
  type ProjectedChange,
  type ProjectFrame,
} from './runner-codec.js';
import { type Exchange, expectTag } from './runner-session.js';
import { FrameMeter } from './frame-slices.js';
import { Tag } from './wire.js';

/** What a projection's key is before the events: asked for once a batch. */
export type StateOf = (unit: number, key: string) => { readonly state: State; readonly faulted: boolean };

export function foldExchange(
  items: readonly FoldItem[],
  deadlineMs: number,
  maxStateBytes: number,
): Exchange<FoldedItem[]> {
  return {
    deadlineMs,
    mostBytes: mostBytesOfFolded(items, maxStateBytes),
    events: () => items.flatMap(({ events }) => events),
    encode: (writer, requestId) => encodeFold(writer, requestId, items),
    *supply(missing, writer) {
      const meter = new FrameMeter();
      for (const index of yield* decodeMissingItems(missing, items)) {
        const state = (items[index] as FoldItem).baseState();
        encodeState(writer, state);
        if (meter.due(state?.length ?? 0)) yield;
      }
    },
    decode: (frame) => {
      expectTag(frame, Tag.Folded);
      return decodeFolded(frame.payload, items, maxStateBytes);
    },
  };
}

export function projectExchange(
  project: ProjectFrame,
  stateOf: StateOf,
  deadlineMs: number,
  maxStateBytes: number,
): Exchange<ProjectedChange[]> {
  return {
    deadlineMs,
    mostBytes: mostBytesOfProjected(project, maxStateBytes),
    events: () => project.events,
    encode: (writer, requestId) => encodeProject(writer, requestId, project),
    *supply(missing, writer) {
      const meter = new FrameMeter();
      for (const { unit, key } of yield* decodeMissingKeys(missing, project)) {
        const { state, faulted } = stateOf(unit, key);
        writer.byte(faulted ? 1 : 0);
        encodeState(writer, state);
        if (meter.due(state?.length ?? 0)) yield;
      }
    },
    decode: (frame) => {
      expectTag(frame, Tag.Projected);
      return decodeProjected(frame.payload, project, maxStateBytes);
    },
  };
}

export function foldOutcome(item: FoldItem, folded: FoldedItem, now: number): FoldOutcome {
  const states = folded.states.map(({ folded: count, state }) => ({
    version: count === 0 ? item.baseVersion : (item.events[count - 1] as HostEvent).version,
    state,
  }));
  if (folded.failure === undefined) return { states };
  return {
    states,
    fault: faultOf(item.events[folded.failure.event] as HostEvent, item.unit.className, folded.failure, now),
  };
}

export function projectChange(
  request: Pick<ProjectRequest, 'units' | 'events'>,
  change: ProjectedChange,
  now: number,
): ProjectChange {
  const { event, unit, key, outcome, state, failure } = change;
  if (failure === undefined) return { event, unit, key, outcome, state };
  const { className } = request.units[unit] as ProjectionUnit;
  return {
    event,
    unit,
    key,
    outcome,
    state,
    fault: faultOf(request.events[event] as HostEvent, className, failure, now),
  };
}

export function faultOf(
  event: HostEvent,
  className: string,
  { message, file, line, stopped }: Failure,
  now: number,
): Fault {
  const { eventId, aggregateId, eventType, version } = event;
  const at = new Date(now).toISOString();
  return {
    eventId,
    aggregateId,
    version,
    eventType,
    className,
    message,
    file,
    line,
    at,
    ...(stopped === true ? { stopped } : {}),
  };
}
