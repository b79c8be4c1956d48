/** In how many places a log keeps its records, where that is more than this machine, and whether it keeps them. */
export interface Replication {
  /** Looks at all topics of the service. Rejects when the log can't be asked. */
  look(): Promise<ReplicationState>;
  /** Has the brokers compress what comes no more; what they have compressed stays so. Rejects where that can't be set. */
  uncompress(topics: readonly CompressingTopic[]): Promise<void>;
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

/** A topic that drops records by itself which are to be kept for ever. */
export interface DroppingTopic {
  readonly topic: string;
  /** What makes it: `delete`, or `compact,delete`. */
  readonly cleanup: string;
}

/** A topic whose records the brokers compress, by what the service can't unpack. */
export interface CompressingTopic {
  readonly topic: string;
  /** `lz4`, say. */
  readonly compression: string;
}

export interface ReplicationState {
  /** All of the service under the prefix. */
  readonly topics: number;
  readonly brokers: number;
  /** Ascending by name. */
  readonly short: readonly ShortTopic[];
  /** Ascending by name. */
  readonly dropping: readonly DroppingTopic[];
  /** Ascending by name. */
  readonly compressing: readonly CompressingTopic[];
}

/** Whether anything is wrong with a topic. */
export const isWell = ({ short, dropping, compressing }: ReplicationState): boolean =>
  short.length + dropping.length + compressing.length === 0;

/** For whoever runs the service: what is wrong with the topic, and the command that puts it right. */
export const droppingText = ({ topic, cleanup }: DroppingTopic): string =>
  `topic ${topic} drops records by their age (cleanup.policy=${cleanup}) that are to be kept for ever: kafka-configs.sh --alter --entity-type topics --entity-name ${topic} --add-config cleanup.policy=compact`;

/** As above. */
export const compressingText = ({ topic, compression }: CompressingTopic): string =>
  `topic ${topic} is compressed by the brokers (compression.type=${compression}), and no process can read what is: kafka-configs.sh --alter --entity-type topics --entity-name ${topic} --add-config compression.type=producer`;
