import type { Sources } from './sources';

/** What was written, and not deployed, saved or run. */
export interface Draft {
  readonly sources: Sources;
  /** What was stored when it was begun; undefined: nothing was. */
  readonly base: Base | undefined;
}

/** What is stored, as it was seen. */
export interface Base {
  /** Another one once somebody has changed it. */
  readonly version: string;
  readonly sources: Sources;
}

/** By what they are of. */
export type Drafts = Map<string, Draft>;

/** By whose they are: a key of another tenant finds none of them. */
const all = new Map<string, Drafts>();

/** They are in this tab alone, and outlast the key: whoever signs in with another one of the same tenant goes on with them. */
export function draftsOf(owner: string): Drafts {
  const known = all.get(owner) ?? new Map<string, Draft>();
  all.set(owner, known);
  return known;
}

const fixtures = new Map<string, Map<string, Sources>>();

/** Of what is deployed, by what they are of: the service keeps none, so that they are in this tab alone, as drafts are. */
export function fixturesOf(owner: string): Map<string, Sources> {
  const known = fixtures.get(owner) ?? new Map<string, Sources>();
  fixtures.set(owner, known);
  return known;
}

/** Whoever's: closing the tab takes all of them. */
export const hasDrafts = (): boolean => [...all.values()].some(({ size }) => size > 0);

export const sameSources = (one: Sources, other: Sources): boolean =>
  Object.keys(one).length === Object.keys(other).length &&
  Object.entries(one).every(([path, text]) => other[path] === text);
