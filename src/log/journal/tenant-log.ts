import type { Logger } from '../../core/logger.js';
import type { Log } from '../log.js';

/** A tenant's topics, and this process as one that writes them. */
export interface TenantLog {
  readonly tenantId: string;
  /** Where a tenant of that id was deleted before: its topics and sections have it in their names. */
  readonly incarnation?: string | undefined;
  readonly log: Log;
  /** Id of this process, new at each start. */
  readonly owner: string;
  readonly logger: Logger;
  /** Of the newest records of a topic, so many bytes are kept in memory. */
  readonly tailBytes?: number;
}
