import type { TopicSpec } from '../log/log.js';

export const eventsTopic = (tenantId: string): string => `statefold.${tenantId}.events`;
export const changesTopic = (tenantId: string): string => `statefold.${tenantId}.changes`;

/** The topics of a tenant, made when it is activated. */
export const tenantTopics = (tenantId: string, changesRetentionMs: number): TopicSpec[] => [
  { topic: eventsTopic(tenantId), partitions: 1, cleanup: { policy: 'tombstones' } },
  { topic: changesTopic(tenantId), partitions: 1, cleanup: { policy: 'delete', retentionMs: changesRetentionMs } },
];
