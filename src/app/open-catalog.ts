import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { AuditLog } from '../audit/audit-log.js';
import { CatalogRoom } from '../catalog/catalog-room.js';
import { LogArtefactStore } from '../catalog/artefacts.js';
import { agreeOnCluster } from '../catalog/cluster.js';
import { FencedCatalog } from '../catalog/fenced-catalog.js';
import { masterKey, Sealer } from '../catalog/sealing.js';
import { readOrMakeSecret } from '../core/secret-file.js';
import { quotasOf } from '../catalog/tenant-quotas.js';
import type { Logger } from '../core/logger.js';
import type { QuotaOf } from '../core/quotas.js';
import { endProcess } from './end-of-process.js';
import type { Ground } from './ground.js';
import { DATA_FILES } from '../config/data-files.js';
import type { Storage } from './open-storage.js';

/** What the service knows of tenants, keys and code, and the secrets that it is sealed and administered with. */
export interface OpenedCatalog {
  readonly catalog: FencedCatalog;
  /** What tenants may have in it. */
  readonly room: CatalogRoom;
  /** What tenants may have. */
  readonly quotaOf: QuotaOf;
  readonly sealer: Sealer;
  /** The same in all processes. */
  readonly masterKey: string;
  readonly adminKey: string;
  /** What was changed in it, and by which key. */
  readonly audit: AuditLog;
}

export async function openCatalog(ground: Ground, storage: Storage): Promise<OpenedCatalog> {
  const { settings, logger, shutdown, owner } = ground;
  const { log, codecs, shared, schemaIds } = storage;
  const artefacts = await LogArtefactStore.open({ log });
  const end = new EndOfProcess(logger);
  const catalog = await FencedCatalog.open({
    ...{ log, codec: codecs.catalog, artefacts, owner, logger, shared },
    onStopped: (error) => end.catalogStopped(error),
  });
  end.opened = true;
  shutdown.add('catalog', () => catalog.close());
  const key = masterKey(settings.masterKey, join(settings.dataDirectory, DATA_FILES.masterKey));
  const sealer = new Sealer(key);
  if (shared) await agreeOnCluster(catalog, sealer, schemaIds);
  const adminKey =
    settings.adminKey ?? readOrMakeSecret(join(settings.dataDirectory, DATA_FILES.adminKey), () => randomUUID());
  const audit = await AuditLog.open({ log, logger, retentionMs: settings.auditRetentionMs });
  const room = new CatalogRoom(catalog, settings.tenantCatalogBytes);
  return { catalog, room, quotaOf: quotasOf(catalog, settings), sealer, masterKey: key, adminKey, audit };
}

/** A broken log: what the process believes may be wrong, so it ends, and the next start folds it again. */
class EndOfProcess {
  /** A start that can't open the catalog says why by itself. */
  opened = false;

  constructor(private readonly logger: Logger) {}

  catalogStopped(error: Error): void {
    if (!this.opened) return;
    endProcess(this.logger, error, 'the catalog stopped');
  }
}
