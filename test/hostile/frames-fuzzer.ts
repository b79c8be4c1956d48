import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FoldItem, HostEvent } from '../../src/code-host/code-host.js';
import {
  decodeFolded,
  decodeMissingItems,
  decodeMissingKeys,
  decodeProjected,
  type ProjectFrame,
} from '../../src/code-host/dotnet/runner-codec.js';
import { whole } from '../../src/code-host/dotnet/frame-slices.js';
import { MAX_ENTRIES, MAX_KEYS, WireError } from '../../src/code-host/dotnet/wire.js';
import { ROOT } from '../support/service.js';

const MAX_STATE = 4096;
export const KINDS = ['folded', 'missing items', 'projected', 'last', 'keys', 'missing keys'] as const;
export type Kind = (typeof KINDS)[number];

/** A payload that a runner might answer a request of that kind with. `taken`: it is one that an honest runner may send. */
export interface Sample {
  readonly name: string;
  readonly kind: Kind;
  readonly taken: boolean;
  readonly hex: string;
}

/** What was worth keeping: honest answers, which the mutations start from, and what was once taken that must not be. */
export const corpus = (): Sample[] =>
  JSON.parse(readFileSync(join(ROOT, 'test', 'hostile', 'corpus', 'frames.json'), 'utf8')) as Sample[];

const event = (aggregateId: string, version: number): HostEvent => ({
  eventId: `${aggregateId}@${version}`,
  aggregateId,
  aggregateType: 'a',
  eventType: 'E',
  version,
  timestamp: 0,
  correlationId: undefined,
  causationId: undefined,
  metadata: undefined,
  data: Buffer.from('{}'),
});
const unit = { artefactId: 'artefact', className: 'C' };
/** What the answers are to: one item from its start, one from a state; two events for two units. */
const items: readonly FoldItem[] = [
  {
    unit,
    aggregateId: 'x',
    baseVersion: 0,
    baseState: () => null,
    events: [1, 2, 3].map((v) => event('x', v)),
    stateAt: [2],
  },
  {
    unit,
    aggregateId: 'y',
    baseVersion: 5,
    baseState: () => null,
    events: [6, 7].map((v) => event('y', v)),
    stateAt: [],
  },
];
const request = (reply: ProjectFrame['reply']): ProjectFrame => ({
  units: ['p@1', 'q@1'].map((id) => ({ ...unit, id })),
  events: [event('x', 1), event('x', 2)],
  reply,
});

/** Reads a payload as the host does, and looks whether what was made of it is within the bounds. @throws WireError */
export function read(kind: Kind, payload: Buffer): void {
  if (kind === 'folded') {
    const answers = whole(decodeFolded(payload, items, MAX_STATE));
    assert.equal(answers.length, items.length);
    for (const [index, { states, failure }] of answers.entries()) {
      const { events, stateAt, baseVersion } = items[index] as FoldItem;
      assert.ok(states.length <= stateAt.length + 1);
      const versions = states.map(({ folded }) => (folded === 0 ? baseVersion : (events[folded - 1]?.version ?? NaN)));
      assert.ok(versions.slice(0, -1).every((version) => stateAt.includes(version)));
      assert.equal(versions.at(-1), failure === undefined ? events.at(-1)?.version : baseVersion + failure.event);
      states.forEach(({ state }) => requireState(state));
    }
  } else if (kind === 'missing items') {
    assert.deepEqual(whole(decodeMissingItems(payload, items)), [1]);
  } else if (kind === 'missing keys') {
    const keys = whole(decodeMissingKeys(payload, request('each'))).map(({ unit: of, key }) => `${of} ${key}`);
    assert.ok(keys.length > 0 && keys.length <= MAX_ENTRIES);
    assert.equal(new Set(keys).size, keys.length);
  } else {
    const reply = kind === 'projected' ? 'each' : kind;
    const changes = whole(decodeProjected(payload, request(reply), MAX_STATE));
    const places = changes.map(({ event: at, unit: of, key }) => `${at} ${of} ${key}`);
    assert.equal(new Set(places).size, places.length);
    for (const at of [0, 1])
      for (const of of [0, 1])
        assert.ok(changes.filter((change) => change.event === at && change.unit === of).length <= MAX_KEYS);
    for (const { key, outcome, state, failure } of changes) {
      assert.ok(key.length <= 256 && (key !== '' || outcome !== 'changed'));
      assert.equal(failure !== undefined, outcome === 'faulted');
      if (kind === 'keys') assert.equal(state, null);
      requireState(state);
    }
    if (kind !== 'last') return;
    const last = changes.filter(({ outcome }) => outcome === 'changed').map(({ unit: of, key }) => `${of} ${key}`);
    assert.equal(new Set(last).size, last.length);
  }
}

function requireState(state: Buffer | null): void {
  if (state === null) return;
  assert.ok(state.length <= MAX_STATE);
  JSON.parse(state.toString());
}

/** True: taken. Anything thrown but a `WireError` is a finding. */
export function takes(kind: Kind, payload: Buffer): boolean {
  try {
    read(kind, payload);
    return true;
  } catch (error) {
    if (error instanceof WireError) return false;
    throw error;
  }
}

/** Random numbers of a seed (mulberry32), so that a finding can be had again. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  below(limit: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % Math.max(1, limit);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
}

const NASTY = [0, 1, 2, 5, 0x7f, 0x80, 0xff, 0x22, 0x5b, 0x7b, 0x5c];

/** Bends a payload in one to four places: bits, numbers, pieces that are lost, doubled, exchanged or of another one. */
export function bend(payload: Buffer, others: readonly Buffer[], dice: Dice): Buffer {
  let bytes = Buffer.from(payload);
  for (let left = 1 + dice.below(4); left > 0; left--) {
    const at = dice.below(bytes.length + 1);
    const length = dice.below(Math.min(64, bytes.length - at) + 1);
    const [before, piece, after] = [
      bytes.subarray(0, at),
      bytes.subarray(at, at + length),
      bytes.subarray(at + length),
    ];
    const other = dice.pick(others);
    const from = dice.below(other.length);
    const makers = [
      () => [before, Buffer.from([(bytes[at] ?? 0) ^ (1 << dice.below(8))]), bytes.subarray(at + 1)],
      () => [before, Buffer.from([dice.pick(NASTY)]), bytes.subarray(at + 1)],
      () => [before, after],
      () => [before, piece, piece, after],
      () => [before, other.subarray(from, from + dice.below(64)), after],
      () => [before, Buffer.alloc(1 + dice.below(10), 0xff), after],
      () => [before, Buffer.alloc(dice.below(2000), dice.pick(NASTY)), after],
      () => [before],
      () => [u32(dice.pick([0, 1, 2, 3, 500_000, 0x7fffffff, 0xffffffff])), bytes.subarray(Math.min(4, bytes.length))],
    ];
    bytes = Buffer.concat(dice.pick(makers)());
  }
  return bytes;
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
