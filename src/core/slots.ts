import { crc32 } from 'node:zlib';

/** The slot of a tenant, or of a partition of one, by its key; the same in every process and for ever. */
export const slotOf = (key: string, slots: number): number => crc32(key) % slots;

/** What a partition of a tenant's events is known by: the first goes with the tenant itself. */
export const partitionKey = (tenantId: string, partition: number): string =>
  partition === 0 ? tenantId : `${tenantId}/${partition}`;

export const tenantOfKey = (key: string): string => key.split('/', 1)[0] ?? key;
export const partitionOfKey = (key: string): number => Number(key.split('/')[1] ?? 0);
