import type { Catalog, ProjectionEntity } from '../catalog/catalog.js';
import { StatefoldError } from '../core/errors.js';

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
