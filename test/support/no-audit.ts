import type { AuditTrail } from '../../src/audit/audit-entry.js';

/** Of edges whose tests are of something else. */
export const NO_AUDIT: AuditTrail = {
  begin: () => Promise.resolve({ end: () => Promise.resolve() }),
  list: () => Promise.resolve({ entries: [], next: undefined }),
};
