import { distance } from 'fastest-levenshtein';
import { settingsReference } from './settings.js';

/** A variable of the environment that nothing reads, and the one that was meant. */
export interface MisspeltSetting {
  readonly given: string;
  /** Undefined: it begins with `STATEFOLD_`, and no setting is near. */
  readonly meant: string | undefined;
}

/** Read by the command line, the scripts and the tests; and names of others that are near to ours. */
const KNOWN_ELSEWHERE = ['STATEFOLD_URL', 'KAFKA_HOME', 'COMPILER'];
const OURS = 'STATEFOLD_';
const OUR_TESTS = 'STATEFOLD_TEST_';
/** What Kubernetes and Docker's links set for a neighbour: `STATEFOLD_SERVICE_HOST`, `KAFKA_PORT_9092_TCP_ADDR`. */
const OF_A_NEIGHBOUR = /_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)/;
const ADDRESS_OF_A_NEIGHBOUR = /^(tcp|udp|sctp):\/\//;
/** Shorter names of one word have neighbours everywhere: HOSTS, SPORT, ROLE. */
const LEAST_WORD = 8;
/** Letters, of names that begin with other words. */
const MOST_APART = 2;

/**
 * Variables that look like a setting and are none, by name. Their values are not looked at, but for the addresses that
 * Kubernetes gives in variables like `STATEFOLD_PORT`.
 */
export function misspeltSettings(env: Readonly<Record<string, string | undefined>>): readonly MisspeltSetting[] {
  const known = settingsReference().map((setting) => setting.env);
  const read = new Set([...known, ...KNOWN_ELSEWHERE]);
  const candidates = [...known, 'STATEFOLD_URL'];
  const found: MisspeltSetting[] = [];
  for (const [given, value] of Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (read.has(given) || OF_A_NEIGHBOUR.test(given) || ADDRESS_OF_A_NEIGHBOUR.test(value ?? '')) continue;
    const name = given.toUpperCase();
    if (name.startsWith(OUR_TESTS)) continue;
    const ours = name.startsWith(OURS);
    const meant = nearest(name, candidates);
    if (ours || meant !== undefined) found.push({ given, meant });
  }
  return found;
}

function nearest(name: string, candidates: readonly string[]): string | undefined {
  let best: { readonly setting: string; readonly far: number } | undefined;
  const firstWord = name.includes('_') ? name.slice(0, name.indexOf('_') + 1) : undefined;
  for (const setting of candidates) {
    // Most are this far apart, of most environments: what is compared letter by letter would be a tenth of a start.
    const alike = firstWord !== undefined && setting.startsWith(firstWord);
    if (!alike && Math.abs(name.length - setting.length) > MOST_APART) continue;
    const far = isNear(name, setting) ? lettersApart(name, setting) : undefined;
    if (far !== undefined && (best === undefined || far < best.far)) best = { setting, far };
  }
  return best?.setting;
}

/**
 * Of names that begin with the same words the rest alone is compared: METRICS_PATH is not METRICS_PORT, though most of their
 * letters are the same. Under our own prefix everything is meant for us, so the guess may be bold.
 */
function isNear(name: string, setting: string): boolean {
  const [given, wanted] = withoutSharedWords(name, setting);
  if (name.startsWith(OURS) && setting.startsWith(OURS))
    return lettersApart(name, setting) <= Math.max(1, (Math.max(name.length, setting.length) - OURS.length) / 2);
  const shorter = Math.min(given.length, wanted.length);
  if (name === setting) return true;
  if (!setting.includes('_')) return setting.length >= LEAST_WORD && lettersApart(name, setting) <= 1;
  if (shorter === 0) return false;
  if (given === name) return shorter >= LEAST_WORD && lettersApart(name, setting) <= (shorter < 12 ? 1 : MOST_APART);
  const abbreviated = shorter >= 3 && !wanted.includes('_') && wanted.startsWith(given);
  return abbreviated || lettersApart(given, wanted) <= (shorter >= 6 ? 2 : name.length >= 12 || shorter >= 3 ? 1 : 0);
}

function withoutSharedWords(a: string, b: string): [string, string] {
  const [one, other] = [a.split('_'), b.split('_')];
  while (one.length > 0 && other.length > 0 && one[0] === other[0]) {
    one.shift();
    other.shift();
  }
  return [one.join('_'), other.join('_')];
}

/** Edits from one to the other; two neighbouring letters that changed places are one. */
function lettersApart(a: string, b: string): number {
  const from = [...a].findIndex((letter, i) => letter !== b[i]);
  const swapped =
    from >= 0 &&
    a.length === b.length &&
    a[from] === b[from + 1] &&
    a[from + 1] === b[from] &&
    a.slice(from + 2) === b.slice(from + 2);
  return swapped ? 1 : distance(a, b);
}

/** One sentence for each, which says what to do. */
export const describeMisspelt = ({ given, meant }: MisspeltSetting): string =>
  meant === undefined
    ? `${given} is set and is no setting of Statefold: see docs/reference/settings.md.`
    : `${given} is set and is no setting of Statefold: did you mean ${meant}?`;
