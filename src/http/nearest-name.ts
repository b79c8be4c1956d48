import { distance } from 'fastest-levenshtein';
import { escapedPart } from '../core/json-pointer.js';

/** Longer ones are no misspelling of ours. */
const MAX_COMPARED = 64;
/** So much of an unknown name is shown. */
const SHOWN = 100;

/** The known name that was probably meant: one that differs in its case, or in a few letters. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  if (name.length > MAX_COMPARED) return undefined;
  const given = name.toLowerCase();
  let nearest: string | undefined;
  let least = Infinity;
  for (const candidate of known) {
    const changes = distance(given, candidate.toLowerCase());
    if (changes < least) [nearest, least] = [candidate, changes];
  }
  // A third of its letters: more is another word.
  return nearest !== undefined && least <= Math.max(1, Math.floor(Math.min(name.length, nearest.length) / 3))
    ? nearest
    : undefined;
}

/** What to say of a member that isn't known, behind its place. */
export function unknownMember(name: string, known: readonly string[], what = 'member'): string {
  const nearest = nearestName(name, known);
  return nearest === undefined
    ? `is not a known ${what}; the known ones are ${known.join(', ')}`
    : `is not a known ${what}; did you mean "${nearest}"?`;
}

/** A member's name as a part of a JSON pointer, or of a path in a message. */
export function pointerPart(name: string): string {
  const shown = name.length > SHOWN ? `${name.slice(0, SHOWN)}…` : name;
  return escapedPart(shown);
}
