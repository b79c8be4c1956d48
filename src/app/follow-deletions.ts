import type { Catalog } from '../catalog/catalog.js';
import { onSuspension } from '../catalog/suspension.js';
import type { FeedHub } from '../feed/hub.js';

/** Ends the subscriptions to what is deleted or suspended: the hub knows of feeds alone, and not of the catalog. */
export function followDeletions(catalog: Pick<Catalog, 'onChange'>, hub: FeedHub): void {
  catalog.onChange(({ kind, id, value, previous }) => {
    if (value !== undefined || previous === undefined) return;
    if (kind === 'projection') hub.sourceDeleted(previous.tenantId, id, `projection ${id}`);
    else if (kind === 'tenant') hub.tenantDeleted(id);
  });
  onSuspension(catalog, ({ tenantId }, suspended) => {
    if (suspended) hub.tenantSuspended(tenantId);
  });
}
