import { JsonError, scanJson } from '../../core/json-scanner.js';
import { isName, MAX_STATE_KEY } from '../../core/names.js';
import type { FoldItem, HostEvent, ProjectionUnit, State, Unit } from '../code-host.js';
import { FrameReader } from './frame-reader.js';
import type { FrameWriter } from './frame-writer.js';
import type { Sliced } from '../../core/slices.js';
import { FrameMeter } from './frame-slices.js';
import { MAX_ENTRIES, MAX_FILE_BYTES, MAX_FRAME, MAX_KEYS, MAX_LINE, MAX_MESSAGE_BYTES, Tag, WireError } from './wire.js';

/** Nesting of a state, as the runner's serializer allows it. */
const MAX_STATE_DEPTH = 64;

const SAME_AGGREGATE = 1;
const SAME_TYPE = 2;
const SAME_CONTEXT = 4;
const HAS_CORRELATION = 8;
const HAS_CAUSATION = 16;
const HAS_METADATA = 32;
const WANTED = 64;

const REPLIES = { each: 0, last: 1, keys: 2 } as const;
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

/** Indices of the items whose states the runner lacks. @throws WireError */
export function* decodeMissingItems(payload: Buffer, items: readonly FoldItem[]): Sliced<number[]> {
  const reader = new FrameReader(payload);
  const meter = new FrameMeter();
  const missing: number[] = [];
  for (let left = askedFor(reader, items.length); left > 0; left--) {
    const index = reader.index(items.length);
    if (index <= (missing.at(-1) ?? -1)) throw new WireError('missing items are out of order');
    if ((items[index] as FoldItem).baseVersion === 0) throw new WireError('it asked for a state that it was given');
    missing.push(index);
    if (meter.due(0)) yield;
  }
  reader.finish();
  return missing;
}

/** @throws WireError */
export function* decodeMissingKeys(
  payload: Buffer,
  frame: ProjectFrame,
): Sliced<{ readonly unit: number; readonly key: string }[]> {
  if (frame.reply === 'keys') throw new WireError('it asked for states where none are folded');
  const reader = new FrameReader(payload);
  const meter = new FrameMeter();
  const missing: { unit: number; key: string }[] = [];
  const known = frame.units.map(() => new Set<string>());
  for (let left = askedFor(reader, mostEntries(frame)); left > 0; left--) {
    const unit = reader.index(frame.units.length);
    const key = readKeyOf(reader, frame);
    if (known[unit]?.size === known[unit]?.add(key).size) throw new WireError('it asked twice for the state of one key');
    missing.push({ unit, key });
    if (meter.due(key.length)) yield;
  }
  reader.finish();
  return missing;
}

function askedFor(reader: FrameReader, most: number): number {
  const count = reader.count(most);
  if (count === 0) throw new WireError('it asked for no state');
  return count;
}

/** The states that an item is answered with: what was asked for on the way, and the last. */
const mostStates = ({ events, stateAt }: FoldItem): number => Math.min(events.length, stateAt.length + 1) + 1;

/** Each event touches so many keys of a unit at most, and an answer has so many entries. */
const mostEntries = ({ units, events }: ProjectFrame): number =>
  Math.min(MAX_ENTRIES, units.length * events.length * MAX_KEYS);

const NUMBER_BYTES = 8;
const FAILURE_BYTES = MAX_MESSAGE_BYTES + MAX_FILE_BYTES + 3 * NUMBER_BYTES;

/** Bytes that no honest answer to a fold has more of. */
export function mostBytesOfFolded(items: readonly FoldItem[], maxStateBytes: number): number {
  let bytes = NUMBER_BYTES;
  for (const item of items) bytes += mostStates(item) * (maxStateBytes + 2 * NUMBER_BYTES) + FAILURE_BYTES;
  return Math.min(MAX_FRAME, bytes);
}

/** Of a projection's answer, and of its question for states. */
export const mostBytesOfProjected = (frame: ProjectFrame, maxStateBytes: number): number =>
  Math.min(
    MAX_FRAME,
    NUMBER_BYTES + mostEntries(frame) * (maxStateBytes + 3 * MAX_STATE_KEY + FAILURE_BYTES + 4 * NUMBER_BYTES),
  );

/** @throws WireError */
export function* decodeFolded(
  payload: Buffer,
  items: readonly FoldItem[],
  maxStateBytes: number,
): Sliced<FoldedItem[]> {
  const reader = new FrameReader(payload);
  const meter = new FrameMeter();
  const outcomes: FoldedItem[] = [];
  for (const item of items) {
    const states: { folded: number; state: State }[] = [];
    let asked = 0;
    let least = 0;
    for (let left = reader.count(mostStates(item), reader.uint32()); left > 0; left--) {
      const folded = reader.index(item.events.length + 1);
      if (folded < least) throw new WireError('states are out of order');
      least = folded + 1;
      if (left > 1) {
        // Only the last may be of a version that nobody asked for: the end, or where a fault stopped it.
        const version = folded === 0 ? item.baseVersion : (item.events[folded - 1] as HostEvent).version;
        while (asked < item.stateAt.length && (item.stateAt[asked] as number) < version) asked++;
        if (folded === 0 || item.stateAt[asked] !== version) throw new WireError('a state that nobody asked for');
      }
      const state = readState(reader, maxStateBytes);
      states.push({ folded, state });
      if (meter.due(state?.length ?? 0)) yield;
    }
    const last = states.at(-1);
    if (reader.byte() === 0) {
      if (item.events.length > 0 && last?.folded !== item.events.length)
        throw new WireError('the last state of an item is absent');
      outcomes.push({ states });
    } else {
      const event = reader.index(item.events.length);
      if (last?.folded !== event) throw new WireError('a fault is not where its state ends');
      outcomes.push({ states, failure: { event, ...readFailure(reader) } });
    }
    if (meter.due(0)) yield;
  }
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
  const meter = new FrameMeter();
  const changes: ProjectedChange[] = [];
  const places = new Places(frame);
  for (let left = reader.count(mostEntries(frame), reader.uint32()); left > 0; left--) {
    const event = reader.index(frame.events.length);
    const unit = reader.index(frame.units.length);
    const key = readKeyOf(reader, frame);
    const outcome = OUTCOMES[reader.index(OUTCOMES.length)] as ProjectedChange['outcome'];
    if (key === '' && outcome === 'changed') throw new WireError('a state has no key');
    places.take(event, unit, key, outcome);
    const state = readState(reader, maxStateBytes);
    if (frame.reply === 'keys' && state !== null) throw new WireError('a state where only keys were asked for');
    changes.push({
      event,
      unit,
      key,
      outcome,
      state,
      ...(outcome === 'faulted' ? { failure: readFailure(reader) } : {}),
    });
    if (meter.due(key.length + (state?.length ?? 0))) yield;
  }
  reader.finish();
  return changes;
}

/** Where the changes of an answer may be: by event, then unit; of both each key once, and not more keys than an event may touch. */
class Places {
  readonly #frame: ProjectFrame;
  /** Of each unit, the keys whose state after the batch was told. */
  readonly #last: readonly Set<string>[];
  #place = -1;
  #keys = 0;
  #first = '';
  /** Made for the second key: most events touch one. */
  #here: Set<string> | undefined;

  constructor(frame: ProjectFrame) {
    this.#frame = frame;
    this.#last = frame.reply === 'last' ? frame.units.map(() => new Set<string>()) : [];
  }

  /** @throws WireError */
  take(event: number, unit: number, key: string, outcome: ProjectedChange['outcome']): void {
    const place = event * this.#frame.units.length + unit;
    if (place < this.#place) throw new WireError('changes are out of order');
    if (place > this.#place) {
      this.#place = place;
      this.#keys = 1;
      this.#first = key;
      this.#here = undefined;
    } else {
      if (++this.#keys > MAX_KEYS) throw new WireError(`one event touches more than ${MAX_KEYS} keys`);
      this.#here ??= new Set([this.#first]);
      if (this.#here.size === this.#here.add(key).size) throw new WireError('a key comes twice for one event');
    }
    const last = outcome === 'changed' ? this.#last[unit] : undefined;
    if (last !== undefined && last.size === last.add(key).size)
      throw new WireError('the last state of a key comes twice');
  }
}

const OUTCOMES = ['changed', 'faulted', 'parked'] as const;

function readKeyOf(reader: FrameReader, { onlyKey }: ProjectFrame): string {
  const key = reader.string(MAX_STATE_KEY * 3);
  if (key !== '' && !isName(key, MAX_STATE_KEY)) throw new WireError('a state key is not a name');
  if (onlyKey !== undefined && onlyKey !== '' && key !== onlyKey) throw new WireError('a key that nobody asked for');
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
  return reader.kept(state);
}

function readFailure(reader: FrameReader): Failure {
  const message = reader.string(MAX_MESSAGE_BYTES);
  const file = reader.string(MAX_FILE_BYTES);
  const line = reader.index(MAX_LINE);
  return { message, file: file === '' ? null : file, line: line === 0 ? null : line };
}
