import { crc32 } from 'node:zlib';

/** The slot of a tenant, or of a partition of one, by its key; the same in every process and for ever. */
export const slotOf = (key: string, slots: number): number => crc32(key) % slots;

/** What a partition of a tenant's events is known by: the first goes with the tenant itself. */
export const partitionKey = (tenantId: string, partition: number): string =>
  partition === 0 ? tenantId : `${tenantId}/${partition}`;

/**
 * What the topics of a tenant, and its sections of local stores, are named by: its id. Where a tenant of that id was deleted before,
 * its incarnation comes behind it, so that whatever is left of the former one anywhere is not taken for it. Ids hold no `_`.
 */
export const storedAs = ({
  tenantId,
  incarnation,
}: {
  readonly tenantId: string;
  readonly incarnation?: string | undefined;
}): string => (incarnation === undefined ? tenantId : `${tenantId}_${incarnation}`);

/** Of a slot key, or of the name of a section. */
export const tenantOfKey = (key: string): string => key.split(/[/_]/, 1)[0] ?? key;
export const partitionOfKey = (key: string): number => Number(key.split('/')[1] ?? 0);
/** What the tenant of a section is stored as. */
export const storedAsOfSection = (section: string): string => section.split('/', 1)[0] ?? section;
export const slotKeyOfSection = (section: string): string =>
  partitionKey(tenantOfKey(section), partitionOfKey(section));
