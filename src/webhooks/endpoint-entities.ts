import type { Catalog, EndpointEntity, ProjectionEntity } from '../catalog/catalog.js';

/** The id of the endpoint that a projection has by the configuration of its upload: its own. Others have ids that are made for them. */
export const firstEndpointId = (projectionId: string): string => projectionId;

/** Of a release that kept a projection's webhook in the projection itself. */
export function legacyEndpoint(projection: ProjectionEntity | undefined): EndpointEntity | undefined {
  if (projection === undefined) return undefined;
  const { tenantId, projectionId, webhook } = projection;
  return webhook && { tenantId, endpointId: firstEndpointId(projectionId), source: { projectionId }, ...webhook };
}

/** The endpoint as it is stored; undefined where there is none, or what it follows is deleted. */
export function endpointOf(catalog: Pick<Catalog, 'get'>, endpointId: string): EndpointEntity | undefined {
  const entity = catalog.get('endpoint', endpointId)?.value;
  const projection = catalog.get('projection', entity?.source.projectionId ?? endpointId)?.value;
  return projection && (entity ?? legacyEndpoint(projection));
}

/** The endpoint that the configuration of the projection's uploads is about. */
export const firstEndpointOf = (
  catalog: Pick<Catalog, 'get'>,
  { projectionId }: Pick<ProjectionEntity, 'projectionId'>,
): EndpointEntity | undefined => endpointOf(catalog, firstEndpointId(projectionId));

/** Ids of all endpoints of the projection, of whatever release, also while it is being deleted. */
export function endpointIdsOf(
  catalog: Pick<Catalog, 'list'>,
  { tenantId, projectionId }: Pick<ProjectionEntity, 'tenantId' | 'projectionId'>,
): readonly string[] {
  const ids = catalog
    .list('endpoint', tenantId)
    .flatMap(({ id, value }) => (value.source.projectionId === projectionId ? [id] : []));
  return [...new Set([firstEndpointId(projectionId), ...ids])];
}

/** All endpoints of all tenants, of whatever release. */
export function allEndpoints(catalog: Pick<Catalog, 'get' | 'list'>): readonly EndpointEntity[] {
  const ids = new Set([
    ...catalog.list('endpoint', undefined).map(({ id }) => id),
    ...catalog
      .list('projection', undefined)
      .flatMap(({ id, value }) => (value.webhook === undefined ? [] : [firstEndpointId(id)])),
  ]);
  return [...ids].flatMap((id) => endpointOf(catalog, id) ?? []);
}

/** An endpoint to which webhooks are sent now. */
export type ActiveEndpoint = EndpointEntity & { readonly url: string };

export const isActive = (endpoint: EndpointEntity | undefined): endpoint is ActiveEndpoint =>
  endpoint?.url !== undefined && endpoint.disabledAt === undefined;
