import type { FieldError } from '../core/errors.js';
import { escapedPart } from '../core/json-pointer.js';
import type { JsonObject } from './json-values.js';

/** How deep schemas may lie within each other while a value is checked: a reference counts as its target does. */
const MAX_DEPTH = 500;
/** Violations that are told at once. */
const MAX_VIOLATIONS = 20;
/** A step of a check takes some 50 to 200 ns. What an event costs is so of its bytes, as its parsing is. */
const STEPS = 10_000;
const STEPS_PER_BYTE = 1;
/** To list the names of an object. */
const STEPS_PER_NAME = 2;

/** Steps that the check of one value may take. */
export const stepsFor = (bytes: number): number => STEPS + STEPS_PER_BYTE * bytes;

/** The check of a value took more steps than its size allows: it neither fits nor doesn't. */
export class TooCostlyError extends Error {}

/** What of a value a schema has looked at, for `unevaluatedProperties` and `unevaluatedItems` behind it. */
export class Evaluated {
  all = false;
  names = new Set<string>();
  /** Items below. */
  upTo = 0;
  items = new Set<number>();

  /** The other one is not used any more. */
  add(other: Evaluated, run: Run): void {
    this.all ||= other.all;
    this.upTo = Math.max(this.upTo, other.upTo);
    this.names = joined(this.names, other.names, run);
    this.items = joined(this.items, other.items, run);
  }
}

/** The smaller one is gone through, and paid for; what many schemas within each other hand on is copied nowhere. */
function joined<T>(a: Set<T>, b: Set<T>, run: Run): Set<T> {
  const [small, large] = a.size < b.size ? [a, b] : [b, a];
  run.spend(small.size);
  for (const one of small) large.add(one);
  return large;
}

/** The check of one value: what it may still cost, where it is, and what it has found. */
export class Run {
  readonly violations: FieldError[] = [];
  /** Steps that are left. */
  steps: number;
  depth = 0;
  /** Schemas with an id of their own that were entered, outermost first; kept only where a dynamic reference asks. */
  readonly scope: unknown[] = [];
  readonly #base: string;
  /** Names of the members of values that were looked into: a thousand schemas may ask for them. */
  readonly #names = new Map<JsonObject, readonly string[]>();
  readonly #path: (string | number)[] = [];
  /** Within an alternative: whether it fits is all that is asked. */
  #quiet = 0;

  /** `base`: the JSON pointer of the value that is checked. */
  constructor(base: string, steps: number) {
    this.#base = base;
    this.steps = steps;
  }

  spend(steps: number): void {
    if ((this.steps -= steps) < 0) throw new TooCostlyError();
  }

  /** Names of the value's members. Going through them is the caller's to pay for. */
  namesOf(value: JsonObject): readonly string[] {
    let names = this.#names.get(value);
    if (names !== undefined) {
      this.spend(1);
      return names;
    }
    names = Object.keys(value);
    this.spend(1 + names.length * STEPS_PER_NAME);
    this.#names.set(value, names);
    return names;
  }

  enter(): void {
    this.spend(1);
    if (++this.depth > MAX_DEPTH) throw new TooCostlyError();
  }

  /** Nothing more is to be found: the first violation is enough where none is told, and many are where they are. */
  get isDecided(): boolean {
    return this.#quiet > 0 || this.violations.length >= MAX_VIOLATIONS;
  }

  /** The part of the value is checked. */
  at(part: string | number, check: () => boolean): boolean {
    this.#path.push(part);
    const fits = check();
    this.#path.pop();
    return fits;
  }

  quietly(check: () => boolean): boolean {
    this.#quiet++;
    const fits = check();
    this.#quiet--;
    return fits;
  }

  /** `part`: what is meant lies there within the value that is looked at. */
  violated(message: string, part?: string | number): false {
    if (this.isDecided) return false;
    const path = part === undefined ? this.#path : [...this.#path, part];
    this.violations.push({
      pointer: this.#base + path.map((one) => `/${escapedPart(String(one))}`).join(''),
      message,
    });
    return false;
  }
}
