import type { Catalog, ProjectionEntity } from '../catalog/catalog.js';
import { StatefoldError } from '../core/errors.js';
import { isName, MAX_STATE_KEY } from '../core/names.js';

/** The query of a request, without its path. Parsed here and not by the router, which an upgrade doesn't pass through. */
export function queryOf(url: string): URLSearchParams {
  const start = url.indexOf('?');
  return new URLSearchParams(start < 0 ? '' : url.slice(start + 1));
}

/** @throws StatefoldError INVALID_REQUEST unless absent, or given once as a decimal integer from `min` to `max`. */
export function integerParameter(query: URLSearchParams, name: string, min: number, max: number): number | undefined {
  const text = single(query, name);
  return text === undefined ? undefined : integerText(text, name, min, max);
}

/** A cursor: the last sequence that the client has. Past the newest it is allowed, and waits. */
export function cursorParameter(query: URLSearchParams): number | undefined {
  return integerParameter(query, 'afterSequence', 0, Number.MAX_SAFE_INTEGER);
}

export function integerText(text: string, name: string, min: number, max: number): number {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new StatefoldError('INVALID_REQUEST', `${name} must be an integer from ${min} to ${max}`);
}

/** The state key to which the notifications are limited. */
export function keyParameter(query: URLSearchParams): string | undefined {
  const key = single(query, 'key');
  if (key === undefined || isName(key, MAX_STATE_KEY)) return key;
  throw new StatefoldError(
    'INVALID_REQUEST',
    `key must have 1 to ${MAX_STATE_KEY} characters, none of them a control character`,
  );
}

/** @throws StatefoldError NOT_FOUND, the same whether it is missing or another tenant's. */
export function requireProjection(
  catalog: Pick<Catalog, 'get'>,
  tenantId: string,
  projectionId: string,
): ProjectionEntity {
  const projection = catalog.get('projection', projectionId)?.value;
  if (projection === undefined || projection.tenantId !== tenantId)
    throw new StatefoldError('NOT_FOUND', `projection ${projectionId} does not exist`);
  return projection;
}

function single(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name);
  if (values.length > 1) throw new StatefoldError('INVALID_REQUEST', `${name} is given ${values.length} times`);
  return values[0];
}
