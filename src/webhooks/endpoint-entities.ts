import type { Catalog, EndpointEntity, EndpointSource, ProjectionEntity } from '../catalog/catalog.js';

/** The id of the endpoint that a projection has by the configuration of its upload: its own. Others have ids that are made for them. */
export const firstEndpointId = (projectionId: string): string => projectionId;

/** Of a release that kept a projection's webhook in the projection itself. */
export function legacyEndpoint(projection: ProjectionEntity | undefined): EndpointEntity | undefined {
  if (projection === undefined) return undefined;
  const { tenantId, projectionId, webhook } = projection;
  return webhook && { tenantId, endpointId: firstEndpointId(projectionId), source: { projectionId }, ...webhook };
}

/** The projection that it is told of; undefined: it is told of the feed. */
export const projectionOf = (source: EndpointSource): string | undefined =>
  'projectionId' in source ? source.projectionId : undefined;

/** The endpoint as it is stored; undefined where there is none, or what it follows is deleted. */
export function endpointOf(catalog: Pick<Catalog, 'get'>, endpointId: string): EndpointEntity | undefined {
  const entity = catalog.get('endpoint', endpointId)?.value;
  if (entity !== undefined && 'feed' in entity.source) return entity;
  const projectionId = entity === undefined ? endpointId : projectionOf(entity.source);
  const projection = projectionId === undefined ? undefined : catalog.get('projection', projectionId)?.value;
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
    .flatMap(({ id, value }) => (projectionOf(value.source) === projectionId ? [id] : []));
  return [...new Set([firstEndpointId(projectionId), ...ids])];
}

/** Ids of all endpoints of one tenant, or of all, of whatever release; each once. They may be gone through over many turns. */
export function* endpointIds(catalog: Pick<Catalog, 'get' | 'list'>, tenantId: string | undefined): Generator<string> {
  for (const { id } of catalog.list('endpoint', tenantId)) yield id;
  for (const { id, value } of catalog.list('projection', tenantId)) {
    const first = firstEndpointId(id);
    if (value.webhook !== undefined && catalog.get('endpoint', first) === undefined) yield first;
  }
}

/** All endpoints of the tenant, of whatever release; ascending by id. */
export const allEndpoints = (catalog: Pick<Catalog, 'get' | 'list'>, tenantId: string): readonly EndpointEntity[] =>
  [...endpointIds(catalog, tenantId)].sort().flatMap((id) => endpointOf(catalog, id) ?? []);

/** It has a URL: without one it is the secret of a projection, and no endpoint yet. */
export type EndpointWithUrl = EndpointEntity & { readonly url: string };

export const hasUrl = (endpoint: EndpointEntity | undefined): endpoint is EndpointWithUrl =>
  endpoint?.url !== undefined;

/** An endpoint to which webhooks are sent now. */
export const isActive = (endpoint: EndpointEntity | undefined): endpoint is EndpointWithUrl =>
  hasUrl(endpoint) && endpoint.disabledAt === undefined && endpoint.pausedAt === undefined;
