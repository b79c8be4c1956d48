import { partitionOfKey, storedAsOfSection } from '../core/slots.js';
import type { PartitionRef, TopicSpec } from './log.js';

// All by what the tenant is stored as (`core/slots.ts`): its id, with its incarnation where it is not the first tenant of that id.
export const eventsTopic = (storedAs: string): string => `statefold.${storedAs}.events`;
export const changesTopic = (storedAs: string): string => `statefold.${storedAs}.changes`;
/** Of a tenant of several partitions alone. */
export const orderTopic = (storedAs: string): string => `statefold.${storedAs}.order`;
export const snapshotsTopic = (storedAs: string): string => `statefold.${storedAs}.snapshots`;

const EVENTS = '.events';
/** Of a tenant's events, partition by partition; made when an aggregate of a transaction is erased, or something of the events is gone. */
const redactionsTopic = (storedAs: string): string => `statefold.${storedAs}.redactions`;
/** What erasures drop records of. */
export const isErasable = (topic: string): boolean => topic.endsWith(EVENTS) || topic.endsWith('.redactions');
export const redactionsRef = ({ topic, partition }: PartitionRef): PartitionRef => ({
  topic: `${topic.slice(0, -EVENTS.length)}.redactions`,
  partition,
});
export const redactionsTopicSpec = (events: PartitionRef, partitions: number): TopicSpec => ({
  topic: redactionsRef(events).topic,
  partitions,
  cleanup: { policy: 'tombstones' },
});

/** Whatever topics a tenant may have. */
export const allTopics = (storedAs: string): string[] =>
  [eventsTopic, changesTopic, orderTopic, snapshotsTopic, redactionsTopic].map((topic) => topic(storedAs));

/** Made when a tenant has enough in its log for a snapshot. */
export const snapshotsTopicSpec = (storedAs: string, partitions = 1): TopicSpec => ({
  topic: snapshotsTopic(storedAs),
  partitions,
  cleanup: { policy: 'tombstones' },
});

/** The events, and the snapshots, of a tenant or of a further partition of one by the name of its section of the local store. */
export const eventsRef = (section: string): PartitionRef => ({
  topic: eventsTopic(storedAsOfSection(section)),
  partition: partitionOfKey(section),
});
export const snapshotsRef = (section: string): PartitionRef => ({
  topic: snapshotsTopic(storedAsOfSection(section)),
  partition: partitionOfKey(section),
});

/** The topics of a tenant, made when it is activated. */
export const tenantTopics = (storedAs: string, changesRetentionMs: number, partitions = 1): TopicSpec[] => [
  { topic: eventsTopic(storedAs), partitions, cleanup: { policy: 'tombstones' } },
  { topic: changesTopic(storedAs), partitions: 1, cleanup: { policy: 'delete', retentionMs: changesRetentionMs } },
  ...(partitions === 1
    ? []
    : [{ topic: orderTopic(storedAs), partitions: 1, cleanup: { policy: 'tombstones' } } as const]),
];
