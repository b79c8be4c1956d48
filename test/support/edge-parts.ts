// Parts of the edge that a test of it needs, and isn't about.
import { join } from 'node:path';
import type { Catalog } from '../../src/catalog/catalog.js';
import type { Settings } from '../../src/config/settings.js';
import { silentLogger } from '../../src/core/logger.js';
import { FeedHub } from '../../src/feed/hub.js';
import type { Admission } from '../../src/http/admission.js';
import { Channels } from '../../src/http/channels.js';
import { SchemaRegistry } from '../../src/http/schema-registry.js';
import { BUILT_IN_SCHEMA_IDS, readSchemas } from '../../src/log/codec/schemas.js';
import { ListTenants } from './notifier-world.js';
import { ROOT } from './service.js';

/** A registry of the schemas of this tree. */
export const schemaRegistryOf = (catalog: Catalog, admission: Admission, limits: Settings): SchemaRegistry =>
  new SchemaRegistry({
    schemas: readSchemas(join(ROOT, 'schemas', 'avro')),
    ids: BUILT_IN_SCHEMA_IDS,
    topicPrefix: 'statefold',
    catalog,
    adminKey: 'an-admin-key-of-the-test',
    authenticate: (request) => admission.admitKnown(request, 'read'),
    limits,
  });

/** Channels of tenants that have no changes. */
export function quietChannels(catalog: Catalog, admission: Admission): Channels {
  const tenants = new ListTenants();
  return new Channels({
    hub: new FeedHub({ notified: tenants }),
    notified: tenants,
    catalog,
    admission,
    logger: silentLogger,
    answerDeadlineMs: 10_000,
  });
}
