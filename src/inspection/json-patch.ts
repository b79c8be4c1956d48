import { createPatch, type Operation, type Pointer } from 'rfc6902';
import type { State } from '../code-host/code-host.js';

/** Pairs of values that a fine patch may compare: that of two arrays costs the product of their lengths. */
const FINE_PAIRS = 20_000;
/**
 * Steps of comparing arrays, also where no elements are compared since one of them is empty: for each step the library copies what it
 * has found before, which together costs the square of their lengths.
 */
const FINE_STEPS = 100_000;
/** A longer patch is no help: then the whole state is replaced. */
const MAX_OPERATIONS = 10_000;

/** Members of two objects that are compared, together: the library looks for each name before anything of it can be timed. */
const MAX_MEMBERS = 10_000;
/** How long the fine comparison may take, milliseconds, and behind it the one place by place: each is done in one go. */
const FINE_MS = 10;
const PLACEWISE_MS = 20;
/** Of both texts together, where there may be numbers to be kept as they are written: looking for them takes ten times as long as parsing. */
const MAX_MARKED = 128 * 1024;
/** Members of all objects of both texts: to parse objects whose names all differ takes some ten times as long as numbers of as many bytes. */
const MAX_NAMES = 20_000;
const NAME_END = '":';

/** A string, or a number, of a JSON text. */
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
/** There may be a number that is written otherwise than a double is: most texts have none. */
const MAY_DIFFER = /[\d.]{16}|\d[eE][+-]?\d|\.\d*0(?!\d)|-0(?!\.)|0\.000000/;
/** Numbers that a double does not hold as they are written go through as strings that begin so; a state's own string is not expected to. */
const NUMBER_MARK = '\\u0000number:';
const MARKED = /"\\u0000number:(-?\d[\d.eE+-]*)"/g;

/**
 * The JSON Patch (RFC 6902) from a state to another, as JSON text; a state that isn't there is `null`. Numbers keep their
 * digits. Two texts that say the same (another order of members, another spelling of a string) have the patch `[]`. What would take
 * long to compare is replaced as a whole.
 */
export function patchText(before: State, after: State, now: () => number = () => performance.now()): string {
  const from = before?.toString() ?? 'null';
  const to = after?.toString() ?? 'null';
  if (from === to) return '[]';
  const isMarked = MAY_DIFFER.test(from) || MAY_DIFFER.test(to);
  const patch =
    (isMarked && from.length + to.length > MAX_MARKED) || hasManyNames(from, to)
      ? undefined
      : patchOf(valueOf(from, isMarked), valueOf(to, isMarked), now);
  return patch === undefined
    ? `[{"op":"replace","path":"","value":${to}}]`
    : JSON.stringify(patch).replace(MARKED, '$1');
}

/** As states are written, without white space between a name and its colon; what looks so within a string counts too. */
function hasManyNames(...texts: readonly string[]): boolean {
  let left = MAX_NAMES;
  for (const text of texts)
    for (let at = text.indexOf(NAME_END); at >= 0; at = text.indexOf(NAME_END, at + 1)) if (--left < 0) return true;
  return false;
}

function valueOf(text: string, isMarked: boolean): unknown {
  if (!isMarked) return JSON.parse(text);
  return JSON.parse(
    text.replace(TOKEN, (token) =>
      token.startsWith('"') || String(Number(token)) === token ? token : `"${NUMBER_MARK}${token}"`,
    ),
  );
}

/** Undefined: it would take too long, or be too long. */
function patchOf(before: unknown, after: unknown, now: () => number): Operation[] | undefined {
  const patch =
    finePatch(before, after, now) ?? bounded(() => createPatch(before, after, placewise(limited(PLACEWISE_MS, now))));
  return patch !== undefined && patch.length > MAX_OPERATIONS ? undefined : patch;
}

/** With the elements of arrays looked for at other places, too. */
function finePatch(before: unknown, after: unknown, now: () => number): Operation[] | undefined {
  let left = FINE_PAIRS;
  let steps = FINE_STEPS;
  const take = limited(FINE_MS, now);
  return bounded(() =>
    createPatch(before, after, (one: unknown, other: unknown) => {
      if (Array.isArray(one) && Array.isArray(other)) steps -= ((one.length + other.length) / 2) ** 2;
      if (--left < 0 || steps < 0) throw TOO_MUCH;
      take(one, other);
    }),
  );
}

const TOO_MUCH = new Error('too much to compare');

/** Undefined where that took too much. */
function bounded(compare: () => Operation[]): Operation[] | undefined {
  try {
    return compare();
  } catch (error) {
    // A RangeError: too many operations of one object for the stack.
    if (error === TOO_MUCH || error instanceof RangeError) return undefined;
    throw error;
  }
}

const isArray = (value: unknown): value is readonly unknown[] => Array.isArray(value);

type Take = (before: unknown, after: unknown) => void;

/** Called for each pair; throws where it has too many members, or the time of the comparison is over. */
function limited(milliseconds: number, now: () => number): Take {
  const until = now() + milliseconds;
  return (before, after) => {
    if (now() > until || membersOf(before) + membersOf(after) > MAX_MEMBERS) throw TOO_MUCH;
  };
}

function membersOf(value: unknown): number {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 0;
  return Object.keys(value).length;
}

/** Arrays place by place, which takes no longer than reading them. */
function placewise(take: Take) {
  return function compare(before: unknown, after: unknown, at: Pointer): Operation[] | undefined {
    take(before, after);
    if (!isArray(before) || !isArray(after)) return undefined;
    if (Math.abs(before.length - after.length) > MAX_OPERATIONS) throw TOO_MUCH;
    const operations: Operation[] = [];
    for (let i = 0; i < Math.min(before.length, after.length); i++) {
      for (const operation of createPatch(before[i], after[i], compare))
        operations.push({ ...operation, path: at.add(String(i)).toString() + operation.path });
    }
    for (let i = before.length; i > after.length; i--)
      operations.push({ op: 'remove', path: at.add(String(i - 1)).toString() });
    for (const value of after.slice(before.length)) operations.push({ op: 'add', path: at.add('-').toString(), value });
    return operations;
  };
}
