import type { IncomingMessage, ServerResponse } from 'node:http';
import { compareKeys } from '../core/compare-keys.js';
import { eventLoop } from '../core/event-loop.js';
import { LIST_BYTES, PAGE_BYTES } from '../core/reads.js';
import { firstIndex } from '../core/first-index.js';
import { costOfBytes, costOfListed, LISTED_AT_ONCE } from '../core/turns.js';
import { JsonWriter, PART_BYTES } from './json-writer.js';
import { badCursor } from './parameters.js';
import { idOfCursor, type PageAsked } from './records.js';
import { memoryOf, turnsOf, type Answered } from './request-memory.js';

/** Of a route that lists. */
export interface ListCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  answer(status: number, body: Buffer): void;
}

interface Listed<T> {
  readonly id: string;
  readonly value: T;
}

export interface List<T> {
  /** Of the answer's member. */
  readonly name: string;
  /** The entries behind an id, in the list's order; all behind none. It is asked again on each turn. */
  readonly past: (after: string) => Iterable<Listed<T>>;
  /** What is told of one; undefined: it is passed over. */
  readonly recordOf: (value: T) => object | undefined;
  /** There are more behind the last one that `past` gives. */
  readonly isCut?: boolean;
  /** Members of the answer beside the list. */
  readonly further?: object;
}

/** What `past` gives of a list that is there as it is. */
export function pastIn<T>(entries: readonly Listed<T>[]): (after: string) => Iterable<Listed<T>> {
  const sorted = [...entries].sort((a, b) => compareKeys(a.id, b.id));
  const isPast = (at: number, after: string): boolean => compareKeys((sorted[at] as Listed<T>).id, after) > 0;
  return (after) => sorted.slice(firstIndex(sorted.length, (at) => isPast(at, after)));
}

/** The same of a list from its newest on: what is told of an entry as its id is its place. @throws StatefoldError INVALID_REQUEST */
export function beforeIn<T>(items: readonly T[], placeOf: (item: T) => number): (after: string) => Iterable<Listed<T>> {
  const sorted = [...items].sort((a, b) => placeOf(b) - placeOf(a));
  return (after) => {
    if (!/^\d{0,16}$/.test(after)) throw badCursor();
    const before = after === '' ? Number.POSITIVE_INFINITY : Number(after);
    const rest = sorted.slice(firstIndex(sorted.length, (at) => placeOf(sorted[at] as T) < before));
    return rest.map((value) => ({ id: String(placeOf(value)), value }));
  };
}

/** Held before anything of a list is read. Each partition gives as much as the page may have. */
export async function memoryOfLists({ request, response }: Answered, partitions = 1): Promise<void> {
  await memoryOf(request)?.pageOf(response, Math.min(PAGE_BYTES, partitions * LIST_BYTES));
}

/**
 * Answers with one page of a list, which is made and written as JSON part by part, each on a paid turn. `cursor` is the last id that the
 * page before has come to, in base64url. @throws StatefoldError INVALID_REQUEST where it is none
 */
export async function answerList<T>(call: ListCall, { limit, cursor }: PageAsked, list: List<T>): Promise<void> {
  await memoryOfLists(call);
  const turn = turnsOf(call);
  const written: string[] = [];
  let after = idOfCursor(cursor);
  let bytes = 0;
  /** 'more': behind the page; 'left': of the page. */
  const part = (): 'none' | 'left' | 'more' => {
    const most = bytes + PART_BYTES;
    let looked = 0;
    for (const { id, value } of list.past(after)) {
      const isFull = written.length === limit || bytes >= LIST_BYTES;
      if (!isFull && bytes >= most) return 'left';
      // One more says whether another page follows.
      if (looked++ === LISTED_AT_ONCE + (isFull ? 1 : 0)) return 'left';
      const record = list.recordOf(value);
      if (isFull && record !== undefined) return 'more';
      after = id;
      if (record === undefined) continue;
      const json = JSON.stringify(record);
      bytes += Buffer.byteLength(json);
      written.push(json);
    }
    return list.isCut === true && after !== '' ? 'more' : 'none';
  };
  let behind: ReturnType<typeof part> = 'left';
  for (let cost = costOfListed(Math.min(limit, LISTED_AT_ONCE)); behind === 'left';) {
    await turn(cost);
    const had = bytes;
    behind = eventLoop.slice('pages', part);
    cost = Math.max(cost, costOfBytes(bytes - had));
  }
  const nextCursor = behind === 'more' ? Buffer.from(after).toString('base64url') : undefined;
  const further = JSON.stringify({ ...list.further, nextCursor }).slice(1);
  call.answer(200, Buffer.from(`{"${list.name}":[${written.join(',')}]${further === '}' ? '' : ','}${further}`));
}

/** The same of a page that was read already. `recordOf`: a text is JSON, and so are bytes. */
export async function answerItems<T>(
  call: ListCall,
  name: string,
  { items, nextCursor }: { readonly items: readonly T[]; readonly nextCursor: string | undefined },
  recordOf: (item: T) => object | string | Buffer,
): Promise<void> {
  const writer = new JsonWriter().text(`{"${name}":[`);
  await writer.listOnTurns(items, turnsOf(call), (item) => {
    const record = recordOf(item);
    if (Buffer.isBuffer(record)) writer.bytes(record);
    else writer.text(typeof record === 'string' ? record : JSON.stringify(record));
  });
  writer.text(']');
  if (nextCursor !== undefined) writer.member('nextCursor', nextCursor);
  call.answer(200, writer.text('}').end());
}
