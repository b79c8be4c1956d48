import { partitionOfKey, tenantOfKey } from '../core/slots.js';
import type { PartitionRef, TopicSpec } from './log.js';

export const eventsTopic = (tenantId: string): string => `statefold.${tenantId}.events`;
export const changesTopic = (tenantId: string): string => `statefold.${tenantId}.changes`;
/** Of a tenant of several partitions alone. */
export const orderTopic = (tenantId: string): string => `statefold.${tenantId}.order`;
export const snapshotsTopic = (tenantId: string): string => `statefold.${tenantId}.snapshots`;

/** Made when a tenant has enough in its log for a snapshot. */
export const snapshotsTopicSpec = (tenantId: string, partitions = 1): TopicSpec => ({
  topic: snapshotsTopic(tenantId),
  partitions,
  cleanup: { policy: 'tombstones' },
});

/** The events, and the snapshots, of a tenant or of a further partition of one by its key: the name of its section of the local store. */
export const eventsRef = (key: string): PartitionRef => ({
  topic: eventsTopic(tenantOfKey(key)),
  partition: partitionOfKey(key),
});
export const snapshotsRef = (key: string): PartitionRef => ({
  topic: snapshotsTopic(tenantOfKey(key)),
  partition: partitionOfKey(key),
});

/** The topics of a tenant, made when it is activated. */
export const tenantTopics = (tenantId: string, changesRetentionMs: number, partitions = 1): TopicSpec[] => [
  { topic: eventsTopic(tenantId), partitions, cleanup: { policy: 'tombstones' } },
  { topic: changesTopic(tenantId), partitions: 1, cleanup: { policy: 'delete', retentionMs: changesRetentionMs } },
  ...(partitions === 1
    ? []
    : [{ topic: orderTopic(tenantId), partitions: 1, cleanup: { policy: 'tombstones' } } as const]),
];
