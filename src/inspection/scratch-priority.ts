import { constants } from 'node:os';

const MARK = '~';

/** Of a runner apart from the tenant's live one: no tenant's id, which has no such character. */
export const scratchName = (tenantId: string, what: 'at' | 'dry'): string => `${tenantId}${MARK}${what}`;

/** What is folded again gives way to what is folded live. */
export const scratchNiceness = (name: string): number | undefined =>
  name.includes(MARK) ? constants.priority.PRIORITY_BELOW_NORMAL : undefined;
