import { crc32 } from 'node:zlib';

/** The slot of a tenant, the same in every process and for ever. */
export const slotOf = (tenantId: string, slots: number): number => crc32(tenantId) % slots;
