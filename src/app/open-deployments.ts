import { StatefoldError } from '../core/errors.js';
import { within } from '../core/within.js';
import { DeploymentService } from '../deployments/deployment-service.js';
import { HaltedArtefacts } from '../deployments/halted-artefacts.js';
import { EventTypeService } from '../event-schemas/event-type-service.js';
import { InspectionService } from '../inspection/inspection-service.js';
import type { OpenedEndpoints } from './open-endpoints.js';
import type { Ground } from './ground.js';
import type { OpenedCatalog } from './open-catalog.js';
import type { OpenedCodeHost } from './open-code-host.js';
import type { OpenedPeers } from './open-peers.js';
import type { OpenedReadStore } from './open-read-store.js';
import type { Storage } from './open-storage.js';
import type { OpenedTenancy } from './open-tenancy.js';
import { ownersKnow } from './owners-know.js';

/** Uploads and what becomes of them; and what folds history again without changing anything. */
export interface OpenedDeployments {
  readonly deployments: DeploymentService;
  readonly inspections: InspectionService;
  readonly eventTypes: EventTypeService;
  readonly haltedArtefacts: HaltedArtefacts;
  readonly knows: (tenantId: string, partition: number) => Promise<void>;
}

export function openDeployments(
  { settings, logger, metrics, shutdown, clock }: Ground,
  { ownership }: Storage,
  { catalog, room, quotaOf }: OpenedCatalog,
  { codeHost }: OpenedCodeHost,
  { readStore }: OpenedReadStore,
  { tenants, partitionsOf, largeChecks }: OpenedTenancy,
  { endpoints }: OpenedEndpoints,
  { client: peers }: OpenedPeers,
): OpenedDeployments {
  const deployments = new DeploymentService({
    catalog,
    codeHost,
    endpoints,
    serves: (tenantId) => ownership.owns(tenantId),
    projectionsOf: async (tenantId) => (await tenants.open(tenantId)).projections,
    quotaOf,
    storageRefusal: async (tenantId) => {
      const tenant = await within(tenants.open(tenantId), settings.answerDeadlineMs);
      if (tenant === undefined)
        throw new StatefoldError(
          'UNAVAILABLE',
          'the tenant is being opened, and what it may store is not known yet; nothing was kept, send the upload again',
          { retryAfterSeconds: 5 },
        );
      return tenant.storageRefusal;
    },
    room,
    checkWaitMs: settings.inspectionDeadlineMs,
    clock,
    logger,
    observer: metrics.deployments,
  });
  shutdown.add('deployments', () => deployments.close());
  const haltedArtefacts = new HaltedArtefacts(catalog);
  metrics.watch('faulted_artefacts', () => haltedArtefacts.total);
  const inspections = new InspectionService({
    tenants,
    catalog,
    codeHost,
    readStore,
    deadlineMs: settings.inspectionDeadlineMs,
    maxBytes: settings.inspectionMemoryBytes,
  });
  const knows = async (tenantId: string, partition: number): Promise<void> => {
    await catalog.caughtUp();
    const owned = await tenants.ownedPartition(tenantId, partition);
    // What was judged by what the catalog had before, and is on its way.
    await owned.passed();
  };
  const eventTypes = new EventTypeService({
    catalog,
    tenants,
    ownersKnow: ownersKnow({
      ...{ ownership, partitionsOf, knows, peers },
      deadlineMs: settings.answerDeadlineMs,
    }),
    large: largeChecks,
    deadlineMs: settings.inspectionDeadlineMs,
    clock,
  });
  return { deployments, inspections, eventTypes, haltedArtefacts, knows };
}
