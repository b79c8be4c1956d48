import { StatefoldError } from '../core/errors.js';
import type { Catalog, ProjectionEntity, ReducerEntity } from './catalog.js';

/** @throws StatefoldError NOT_FOUND, the same whether it is missing or another tenant's. */
export function requireProjection(
  catalog: Pick<Catalog, 'get'>,
  tenantId: string,
  projectionId: string,
): ProjectionEntity {
  const projection = catalog.get('projection', projectionId)?.value;
  if (projection === undefined || projection.tenantId !== tenantId) throw missingProjection(projectionId);
  return projection;
}

/** @throws StatefoldError NOT_FOUND, the same whether it is missing, deleted or another tenant's. */
export function requireReducer(catalog: Pick<Catalog, 'get'>, tenantId: string, reducerId: string): ReducerEntity {
  const reducer = catalog.get('reducer', reducerId)?.value;
  if (reducer?.tenantId !== tenantId || reducer.deletedAt !== undefined) throw missingReducer(reducerId);
  return reducer;
}

const missingProjection = (projectionId: string): StatefoldError =>
  new StatefoldError('NOT_FOUND', `projection ${projectionId} does not exist`);
export const missingReducer = (reducerId: string): StatefoldError =>
  new StatefoldError('NOT_FOUND', `reducer ${reducerId} does not exist`);
