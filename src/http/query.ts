import { StatefoldError } from '../core/errors.js';
import { isAggregateType, isName } from '../core/names.js';
import { pointerPart, unknownMember } from './nearest-name.js';
import { integerParameter, queryOf } from './notification-query.js';

export { integerParameter, queryOf };

export const DEFAULT_PAGE = 100;
export const MAX_PAGE = 1_000;
const MAX_CURSOR = 2_048;

/** @throws StatefoldError INVALID_REQUEST where it is given twice */
export function textParameter(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name);
  if (values.length > 1) throw new StatefoldError('INVALID_REQUEST', `${name} is given ${values.length} times`);
  return values[0];
}

/** @throws StatefoldError INVALID_REQUEST for a parameter that is none of these, where to drop one would do something else than was asked */
export function onlyParameters(query: URLSearchParams, known: readonly string[]): void {
  for (const name of query.keys())
    if (!known.includes(name))
      throw new StatefoldError(
        'INVALID_REQUEST',
        `${pointerPart(name)} ${unknownMember(name, known, 'query parameter')}`,
      );
}

export function flagParameter(query: URLSearchParams, name: string): boolean {
  const text = textParameter(query, name);
  if (text === undefined || text === 'false') return false;
  if (text === 'true') return true;
  throw new StatefoldError('INVALID_REQUEST', `${name} must be true or false`);
}

/** `limit` and `cursor` of a list; the cursor is opaque, from the page before. */
export function pageParameters(query: URLSearchParams): {
  readonly limit: number;
  readonly cursor: string | undefined;
} {
  const cursor = textParameter(query, 'cursor');
  if (cursor !== undefined && (cursor.length === 0 || cursor.length > MAX_CURSOR)) throw badCursor();
  return { limit: integerParameter(query, 'limit', 1, MAX_PAGE) ?? DEFAULT_PAGE, cursor };
}

export const badCursor = (): StatefoldError =>
  new StatefoldError('INVALID_REQUEST', 'cursor is not one that this list gave');

/** A path parameter or query value that must be an id or a name, as `names.ts` has them. */
export function requireName(value: string, name: string, max: number): string {
  if (isName(value, max)) return value;
  throw new StatefoldError(
    'INVALID_REQUEST',
    `${name} must have 1 to ${max} characters, none of them a control character`,
  );
}

export function requireAggregateType(value: string): string {
  if (isAggregateType(value)) return value;
  throw new StatefoldError('INVALID_REQUEST', 'an aggregate type has 1 to 128 characters of A-Z, a-z, 0-9, _, . and -');
}
