import { z } from 'zod';
import { CliError } from '../io.js';
import { parseExactly } from './json-text.js';
import { describeIssue, parseJson, type SourceFile } from './sources.js';

const EVENT = z.strictObject({
  eventType: z.string('must be a string').min(1, 'must not be empty').max(256),
  aggregateId: z.string('must be a string').min(1, 'must not be empty').max(256).optional(),
  aggregateType: z.string('must be a string').min(1, 'must not be empty').max(128).optional(),
  data: z.record(z.string(), z.unknown(), 'must be an object').optional(),
  metadata: z.record(z.string(), z.unknown(), 'must be an object').optional(),
  correlationId: z.string('must be a string').optional(),
  causationId: z.string('must be a string').optional(),
  timestamp: z.iso.datetime({ offset: true, error: 'must be a time like 2026-01-31T12:00:00Z' }).optional(),
});
const FAULT = z.string('must be a part of the message').min(1, 'must be a part of the message');
const STATE = z.union([
  z.record(z.string(), z.unknown()),
  z.array(z.unknown()),
  z.string(),
  z.number(),
  z.boolean(),
  z.null(),
]);
const THEN = z.strictObject({
  state: STATE.optional(),
  states: z.record(z.string(), STATE, 'must be an object of states by key').optional(),
  fault: FAULT.optional(),
  faults: z.record(z.string(), FAULT, 'must be an object of messages by key').optional(),
});
const CASE = z.strictObject({
  name: z.string('must be a string').min(1, 'must not be empty').optional(),
  reducer: z.string('must be the name of a class').optional(),
  projection: z.string('must be the name of a class').optional(),
  given: z.array(EVENT, 'must be an array of events').optional(),
  when: z.array(EVENT, 'must be an array of events').min(1, 'must have an event'),
  then: THEN,
});
const FILE = z.union([z.array(CASE), CASE.transform((one) => [one])]);

export type FixtureEvent = z.infer<typeof EVENT>;

/** One given/when/then. */
export interface Fixture {
  readonly file: string;
  readonly name: string;
  /** What it is for, as given: the name of a class, with or without its namespace. */
  readonly unit: { readonly kind: 'reducer' | 'projection'; readonly name: string } | undefined;
  readonly given: readonly FixtureEvent[];
  readonly when: readonly FixtureEvent[];
  /**
   * Expected after `when`. `states`: by the aggregate's id, or the state's key; each key that `when` changes must be there.
   * `state`: of the only one. `fault`, `faults`: part of the message of what stops it.
   */
  readonly then: z.infer<typeof THEN>;
}

/** @throws CliError naming file, case and member */
export function readFixtures({ path, text }: SourceFile): Fixture[] {
  const plain = parseJson(text, path);
  // Numbers past what a double holds stay as they are written; a file of one case is as good as a list.
  const checked = FILE.safeParse(parseExactly(text));
  if (!checked.success) throw new CliError(`${path}: ${describeCase(plain)}`);
  return checked.data.map((one, index) => {
    const where = one.name ?? `case ${index + 1}`;
    if (one.reducer !== undefined && one.projection !== undefined)
      throw new CliError(`${path}, ${where}: is for a reducer or a projection, not both.`);
    const { state, states, fault, faults } = one.then;
    if ([state, states, fault, faults].every((member) => member === undefined))
      throw new CliError(`${path}, ${where}: then needs a state, states, a fault or faults.`);
    if (state !== undefined && states !== undefined)
      throw new CliError(`${path}, ${where}: then has state and states; give one of them.`);
    if (fault !== undefined && faults !== undefined)
      throw new CliError(`${path}, ${where}: then has fault and faults; give one of them.`);
    const unit =
      one.reducer === undefined
        ? one.projection === undefined
          ? undefined
          : { kind: 'projection' as const, name: one.projection }
        : { kind: 'reducer' as const, name: one.reducer };
    return {
      file: path,
      name: one.name ?? `${path.replace(/^.*\/|\.json$/g, '')} ${index + 1}`,
      unit,
      given: one.given ?? [],
      when: one.when,
      then: one.then,
    };
  });
}

/** Of a list the first case that is wrong: the union itself would say only that none of its kinds fits. */
function describeCase(value: unknown): string {
  const cases = Array.isArray(value) ? (value as unknown[]) : [value];
  for (const [index, one] of cases.entries()) {
    const checked = CASE.safeParse(one);
    if (checked.success) continue;
    const named =
      typeof one === 'object' && one !== null && 'name' in one && typeof one.name === 'string'
        ? one.name
        : `case ${index + 1}`;
    return `${cases.length > 1 ? `${named}: ` : ''}${describeIssue(checked.error)}.`;
  }
  return 'must be a case, or an array of cases.';
}
