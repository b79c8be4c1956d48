import { SliceMeter, type Sliced } from '../../core/slices.js';
import { JsonError, scanJson } from '../../core/json-scanner.js';
import { isName, MAX_STATE_KEY } from '../../core/names.js';
import type { FoldItem, HostEvent, ProjectionUnit, State, Unit } from '../code-host.js';
import { FrameReader } from './frame-reader.js';
import type { FrameWriter } from './frame-writer.js';
import { Tag, WireError } from './wire.js';

/** Nesting of a state, as the runner's serializer allows it. */
const MAX_STATE_DEPTH = 64;

const SAME_AGGREGATE = 1;
const SAME_TYPE = 2;
const SAME_CONTEXT = 4;
const HAS_CORRELATION = 8;
const HAS_CAUSATION = 16;
const HAS_METADATA = 32;
const WANTED = 64;

/** Of an answer, read in one go: to look through the JSON of the states costs the most. */
const SLICE = { items: 1000, bytes: 512 * 1024 };

export const REPLIES = { each: 0, last: 1, keys: 2 } as const;
export type Reply = keyof typeof REPLIES;

/** Why an event stopped a state, as the runner tells it. */
export interface Failure {
  readonly message: string;
  readonly file: string | null;
  readonly line: number | null;
  /** Not said by the runner: its process was stopped, or ended. */
  readonly stopped?: true;
}

export interface FoldedItem {
  /** Events that are folded in, 0 to all; ascending. */
  readonly states: readonly { readonly folded: number; readonly state: State }[];
  readonly failure?: Failure & { readonly event: number };
}

export interface ProjectedChange {
  readonly event: number;
  readonly unit: number;
  readonly key: string;
  readonly outcome: 'changed' | 'faulted' | 'parked';
  readonly state: State;
  readonly failure?: Failure;
}

export interface ProjectFrame {
  readonly units: readonly ProjectionUnit[];
  readonly events: readonly HostEvent[];
  readonly reply: Reply;
  /** Folds this key alone. */
  readonly onlyKey?: string;
}

export function encodeLoad(writer: FrameWriter, requestId: number, artefactId: string, assembly: Buffer): void {
  writer.begin(requestId, Tag.Load);
  writer.string(artefactId);
  writer.blob(assembly);
}

/** `Unload` and `Forget`: a name, and no answer. */
export function encodeNamed(writer: FrameWriter, tag: number, name: string): void {
  writer.begin(0, tag);
  writer.string(name);
}

/** Items whose base state is told at once go without a question: those that begin at version 0. */
export function encodeFold(writer: FrameWriter, requestId: number, items: readonly FoldItem[]): void {
  writer.begin(requestId, Tag.Fold);
  const units = new Map<string, { readonly index: number; readonly unit: Unit }>();
  const indices = items.map(({ unit }) => {
    const id = `${unit.artefactId}\n${unit.className}`;
    let known = units.get(id);
    if (known === undefined) units.set(id, (known = { index: units.size, unit }));
    return known.index;
  });
  writer.varUint(units.size);
  for (const { unit } of units.values()) {
    writer.string(unit.artefactId);
    writer.string(unit.className);
  }
  writer.varUint(items.length);
  // The lengths of the items' events are filled in behind: headers first, so that what is missing is known before anything is read.
  const lengthsAt: number[] = [];
  for (let i = 0; i < items.length; i++) {
    const item = items[i] as FoldItem;
    writer.varUint(indices[i] as number);
    writer.string(item.aggregateId);
    writer.string(item.events[0]?.aggregateType ?? '');
    writer.varUint(item.baseVersion);
    const given = item.baseVersion === 0;
    writer.byte(given ? 1 : 0);
    if (given) encodeState(writer, null);
    writer.varUint(item.events.length);
    lengthsAt.push(writer.length);
    writer.uint32(0);
  }
  for (let i = 0; i < items.length; i++) {
    const start = writer.length;
    encodeItemEvents(writer, items[i] as FoldItem);
    writer.patchUint32(lengthsAt[i] as number, writer.length - start);
  }
}

function encodeItemEvents(writer: FrameWriter, { events, stateAt }: FoldItem): void {
  const last = events.length - 1;
  let wanted = 0;
  let previous: HostEvent | undefined;
  for (let i = 0; i <= last; i++) {
    const event = events[i] as HostEvent;
    while (wanted < stateAt.length && (stateAt[wanted] as number) < event.version) wanted++;
    encodeEvent(writer, event, previous, true, i === last || stateAt[wanted] === event.version);
    previous = event;
  }
}

export function encodeProject(writer: FrameWriter, requestId: number, frame: ProjectFrame): void {
  writer.begin(requestId, Tag.Project);
  writer.byte(REPLIES[frame.reply]);
  writer.string(frame.onlyKey ?? '');
  writer.varUint(frame.units.length);
  for (const unit of frame.units) {
    writer.string(unit.id);
    writer.string(unit.artefactId);
    writer.string(unit.className);
  }
  writer.varUint(frame.events.length);
  let previous: HostEvent | undefined;
  for (const event of frame.events) {
    const sameAggregate =
      previous !== undefined &&
      event.aggregateId === previous.aggregateId &&
      event.aggregateType === previous.aggregateType;
    encodeEvent(writer, event, previous, sameAggregate, false);
    previous = event;
  }
}

function encodeEvent(
  writer: FrameWriter,
  event: HostEvent,
  previous: HostEvent | undefined,
  sameAggregate: boolean,
  wanted: boolean,
): void {
  const { correlationId, causationId, metadata } = event;
  const sameType = previous !== undefined && event.eventType === previous.eventType;
  // The events of one append share their metadata: the same bytes, not only equal ones. Before the first there is none.
  const sameContext =
    correlationId === previous?.correlationId &&
    causationId === previous?.causationId &&
    metadata === previous?.metadata;
  let flags = (sameAggregate ? SAME_AGGREGATE : 0) | (sameType ? SAME_TYPE : 0) | (wanted ? WANTED : 0);
  if (sameContext) flags |= SAME_CONTEXT;
  else {
    if (correlationId !== undefined) flags |= HAS_CORRELATION;
    if (causationId !== undefined) flags |= HAS_CAUSATION;
    if (metadata !== undefined) flags |= HAS_METADATA;
  }
  writer.byte(flags);
  if (!sameAggregate) {
    writer.string(event.aggregateId);
    writer.string(event.aggregateType);
  }
  if (!sameType) writer.string(event.eventType);
  if (!sameContext) {
    if (correlationId !== undefined) writer.string(correlationId);
    if (causationId !== undefined) writer.string(causationId);
    if (metadata !== undefined) writer.blob(metadata);
  }
  writer.varUint(event.version);
  writer.uint64(event.timestamp);
  writer.blob(event.data);
}

export function encodeState(writer: FrameWriter, state: State): void {
  writer.byte(state === null ? 0 : 1);
  if (state !== null) writer.blob(state);
}

/** Indices of the items whose states the runner lacks. */
export function decodeMissingItems(payload: Buffer, items: number): number[] {
  const reader = new FrameReader(payload);
  const missing: number[] = [];
  for (let left = reader.count(); left > 0; left--) {
    const index = reader.index(items);
    if (index <= (missing.at(-1) ?? -1)) throw new WireError('missing items are out of order');
    missing.push(index);
  }
  reader.finish();
  return missing;
}

/** Writes a state for each key that the runner lacks. */
export function* supplyKeys(
  payload: Buffer,
  units: number,
  writer: FrameWriter,
  stateOf: (unit: number, key: string) => { readonly state: State; readonly faulted: boolean },
): Sliced<void> {
  const reader = new FrameReader(payload);
  const meter = new SliceMeter(SLICE);
  for (let left = reader.count(); left > 0; left--) {
    const { state, faulted } = stateOf(reader.index(units), readKey(reader));
    writer.byte(faulted ? 1 : 0);
    encodeState(writer, state);
    if (meter.add(state?.length ?? 0)) yield;
  }
  reader.finish();
}

/** @throws WireError */
export function decodeFolded(payload: Buffer, items: readonly FoldItem[], maxStateBytes: number): FoldedItem[] {
  const reader = new FrameReader(payload);
  const outcomes = items.map((item) => {
    const states: { folded: number; state: State }[] = [];
    let least = 0;
    for (let left = reader.count(reader.uint32()); left > 0; left--) {
      const folded = reader.index(item.events.length + 1);
      if (folded < least) throw new WireError('states are out of order');
      least = folded + 1;
      states.push({ folded, state: readState(reader, maxStateBytes) });
    }
    const last = states.at(-1);
    if (reader.byte() === 0) {
      if (item.events.length > 0 && last?.folded !== item.events.length)
        throw new WireError('the last state of an item is absent');
      return { states };
    }
    const event = reader.index(item.events.length);
    if (last?.folded !== event) throw new WireError('a fault is not where its state ends');
    return { states, failure: { event, ...readFailure(reader) } };
  });
  reader.finish();
  return outcomes;
}

/** @throws WireError */
export function* decodeProjected(
  payload: Buffer,
  frame: ProjectFrame,
  maxStateBytes: number,
): Sliced<ProjectedChange[]> {
  const reader = new FrameReader(payload);
  const meter = new SliceMeter(SLICE);
  const changes: ProjectedChange[] = [];
  let place = -1;
  for (let left = reader.count(reader.uint32()); left > 0; left--) {
    const event = reader.index(frame.events.length);
    const unit = reader.index(frame.units.length);
    if (event * frame.units.length + unit < place) throw new WireError('changes are out of order');
    place = event * frame.units.length + unit;
    const key = readKey(reader);
    const outcome = OUTCOMES[reader.index(OUTCOMES.length)] as ProjectedChange['outcome'];
    if (key === '' && outcome === 'changed') throw new WireError('a state has no key');
    const state = readState(reader, maxStateBytes);
    changes.push({
      event,
      unit,
      key,
      outcome,
      state,
      ...(outcome === 'faulted' ? { failure: readFailure(reader) } : {}),
    });
    if (meter.add(state?.length ?? 0)) yield;
  }
  reader.finish();
  return changes;
}

const OUTCOMES = ['changed', 'faulted', 'parked'] as const;

function readKey(reader: FrameReader): string {
  const key = reader.string(MAX_STATE_KEY * 3);
  if (key !== '' && !isName(key, MAX_STATE_KEY)) throw new WireError('a state key is not a name');
  return key;
}

function readState(reader: FrameReader, maxBytes: number): State {
  const kind = reader.byte();
  if (kind === 0) return null;
  if (kind !== 1) throw new WireError('a state is of no known kind');
  const state = reader.blob(maxBytes);
  try {
    scanJson(state, { maxDepth: MAX_STATE_DEPTH });
  } catch (error) {
    if (error instanceof JsonError) throw new WireError(`a state is not JSON: ${error.message}`);
    throw error;
  }
  return state;
}

function readFailure(reader: FrameReader): Failure {
  const message = reader.string();
  const file = reader.string();
  const line = reader.varUint();
  return { message, file: file === '' ? null : file, line: line === 0 ? null : line };
}
