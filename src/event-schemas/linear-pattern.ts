import { createRequire } from 'node:module';
import type * as re2js from 're2js';

/** Half of its quarter of a megabyte is tables of Unicode: it is read for the first pattern, and by most services never. */
const engine = (): typeof re2js => createRequire(import.meta.url)('re2js') as typeof re2js;

/** Of a pattern, in UTF-16 code units. */
const MAX_PATTERN = 500;
/** Steps of its program, with all repetitions written out. */
const MAX_PROGRAM = 2_000;
/** As measured: of the smallest, of each step more, and of each class of Unicode (`\p{L}`), whose ranges are written out. */
const PATTERN_BYTES = 4_500;
const STEP_BYTES = 150;
const UNICODE_CLASS_BYTES = 6_500;
/** So many steps of a program, on one character, cost as much as a step of a check. */
const PROGRAM_PER_STEP = 8;

/** A regular expression whose time is proportional to the text: RE2's syntax, which has neither back references nor lookarounds. */
export class LinearPattern {
  readonly #compiled: re2js.RE2JS;
  /** Of a character of text, in steps of a check. */
  readonly costPerCharacter: number;
  /** Steps of its program. */
  readonly size: number;
  /** Of memory, about. */
  readonly bytes: number;

  /** @throws Error that says, behind the pattern's place, what is wrong with it */
  constructor(readonly source: string) {
    if (source.length > MAX_PATTERN) throw new Error(`must have at most ${MAX_PATTERN} characters`);
    if (writtenOut(source) > MAX_PROGRAM) throw tooLarge();
    const { RE2JS } = engine();
    try {
      this.#compiled = RE2JS.compile(RE2JS.translateRegExp(source));
    } catch (error) {
      throw new Error(
        `must be a regular expression that runs in linear time (the syntax of RE2, without back references and lookarounds): ${(error as Error).message}`,
        { cause: error },
      );
    }
    this.size = this.#compiled.programSize();
    if (this.size > 4 * MAX_PROGRAM) throw tooLarge();
    this.costPerCharacter = this.size / PROGRAM_PER_STEP;
    const unicodeClasses = source.split(/\\p/i).length - 1;
    this.bytes = PATTERN_BYTES + this.size * STEP_BYTES + unicodeClasses * UNICODE_CLASS_BYTES;
  }

  /** It matches somewhere in the text. */
  matches(text: string): boolean {
    // By the engines whose memory is bounded by program and text. `test` would keep states of the pattern between texts, megabytes of them.
    return this.#compiled.matcher(text).find();
  }
}

const tooLarge = (): Error =>
  new Error(`is too large with its repetitions written out: at most ${MAX_PROGRAM} characters and classes`);

/** About how large the program gets, without making it: a few characters can stand for a million steps. */
function writtenOut(source: string): number {
  const outer: number[] = [];
  let sum = 0;
  let last = 0;
  for (let i = 0; i < source.length; i++) {
    const char = source[i];
    if (char === '(') {
      outer.push(sum);
      sum = last = 0;
    } else if (char === ')') {
      last = sum + 1;
      sum = (outer.pop() ?? 0) + last;
    } else if (char === '{') {
      const [all, least, , most] = /^\{(\d+)(,(\d*))?\}/.exec(source.slice(i, i + 16)) ?? [];
      if (all === undefined) continue;
      const times = Math.max(1, Number(least), Number(most === '' ? Number(least) + 1 : (most ?? 0)));
      sum += last * (times - 1);
      last *= times;
      i += all.length - 1;
    } else {
      if (char === '\\') i++;
      else if (char === '[') i = endOfClass(source, i);
      sum += last = 1;
    }
  }
  return outer.reduce((total, one) => total + one, sum);
}

/** The place of the bracket that ends the class; the text's end where none does. */
function endOfClass(source: string, start: number): number {
  let i = start + 1;
  if (source[i] === '^') i++;
  if (source[i] === ']') i++;
  for (; i < source.length && source[i] !== ']'; i++) if (source[i] === '\\') i++;
  return i;
}
