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

/** A string, or a number, of a JSON text. */
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
/** Numbers that a double does not hold as they are written go through as strings that begin so; a state's own string is not expected to. */
const NUMBER_MARK = '\\u0000number:';
const MARKED = /"\\u0000number:(-?\d[\d.eE+-]*)"/g;

/**
 * The JSON Patch (RFC 6902) from a state to another, as JSON text; a state that isn't there is `null`. Numbers keep their
 * digits. Two texts that say the same (another order of members, another spelling of a string) have the patch `[]`.
 */
export function patchText(before: State, after: State): string {
  const patch = patchOf(valueOf(before), valueOf(after));
  return JSON.stringify(patch).replace(MARKED, '$1');
}

function valueOf(state: State): unknown {
  if (state === null) return null;
  return JSON.parse(
    state
      .toString()
      .replace(TOKEN, (token) =>
        token.startsWith('"') || String(Number(token)) === token ? token : `"${NUMBER_MARK}${token}"`,
      ),
  );
}

function patchOf(before: unknown, after: unknown): Operation[] {
  const whole: Operation[] = [{ op: 'replace', path: '', value: after }];
  try {
    const patch = finePatch(before, after) ?? createPatch(before, after, elementwise);
    return patch.length > MAX_OPERATIONS ? whole : patch;
  } catch (error) {
    // Too many operations of one object for the stack.
    if (error instanceof RangeError) return whole;
    throw error;
  }
}

/** Undefined where it would take too long. */
function finePatch(before: unknown, after: unknown): Operation[] | undefined {
  let left = FINE_PAIRS;
  let steps = FINE_STEPS;
  try {
    return createPatch(before, after, (old: unknown, now: unknown) => {
      if (Array.isArray(old) && Array.isArray(now)) steps -= ((old.length + now.length) / 2) ** 2;
      if (--left < 0 || steps < 0) throw OUT_OF_PAIRS;
    });
  } catch (error) {
    if (error === OUT_OF_PAIRS) return undefined;
    throw error;
  }
}

const OUT_OF_PAIRS = new Error('too many pairs');

/** Arrays place by place, which takes no longer than reading them. */
function elementwise(before: unknown, after: unknown, at: Pointer): Operation[] | undefined {
  if (!Array.isArray(before) || !Array.isArray(after)) return undefined;
  const [old, now] = [before as unknown[], after as unknown[]];
  const operations: Operation[] = [];
  for (let i = 0; i < Math.min(old.length, now.length); i++) {
    for (const operation of createPatch(old[i], now[i], elementwise))
      operations.push({ ...operation, path: at.add(String(i)).toString() + operation.path });
  }
  for (let i = old.length; i > now.length; i--)
    operations.push({ op: 'remove', path: at.add(String(i - 1)).toString() });
  for (const value of now.slice(old.length)) operations.push({ op: 'add', path: at.add('-').toString(), value });
  return operations;
}
