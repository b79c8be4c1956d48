/** In how many places a log keeps its records, where that is more than this machine. */
export interface Replication {
  /** Looks at all topics of the service. Rejects when the log can't be asked. */
  look(): Promise<ReplicationState>;
}

/** A topic whose records are in fewer places than wanted. */
export interface ShortTopic {
  readonly topic: string;
  /** Of the partition that has the fewest. */
  readonly copies: number;
  readonly copiesWanted: number;
  /** Of an append before it is acknowledged. */
  readonly inSync: number;
  readonly inSyncWanted: number;
}

export interface ReplicationState {
  /** All of the service under the prefix. */
  readonly topics: number;
  readonly brokers: number;
  /** Ascending by name. */
  readonly short: readonly ShortTopic[];
}
