import errors from 'kafkajs/src/protocol/error.js';
import type { PartitionRef } from '../core/partition-ref.js';

/** Kafka's error codes that we tell apart. */
export const CODE = {
  OFFSET_OUT_OF_RANGE: 1,
  UNKNOWN_TOPIC_OR_PARTITION: 3,
  LEADER_NOT_AVAILABLE: 5,
  NOT_LEADER_OR_FOLLOWER: 6,
  REQUEST_TIMED_OUT: 7,
  REPLICA_NOT_AVAILABLE: 9,
  MESSAGE_TOO_LARGE: 10,
  INVALID_TOPIC: 17,
  RECORD_LIST_TOO_LARGE: 18,
  NOT_ENOUGH_REPLICAS: 19,
  TOPIC_AUTHORIZATION_FAILED: 29,
  CLUSTER_AUTHORIZATION_FAILED: 31,
  TOPIC_ALREADY_EXISTS: 36,
  INVALID_REPLICATION_FACTOR: 38,
  KAFKA_STORAGE_ERROR: 56,
  FENCED_LEADER_EPOCH: 74,
  UNKNOWN_LEADER_EPOCH: 75,
  OFFSET_NOT_AVAILABLE: 78,
  INVALID_RECORD: 87,
  THROTTLING_QUOTA_EXCEEDED: 89,
} as const;

/** An answer of a broker that says no. */
export class KafkaCodeError extends Error {
  override readonly name = 'KafkaCodeError';

  constructor(
    readonly code: number,
    what: string,
    detail?: string | null,
  ) {
    const { type, message } = errors.createErrorFromCode(code);
    super(`${what}: ${type} (${code}): ${detail ?? message}`);
  }
}

/** The request was never handed to a socket. */
export class UnsentError extends Error {
  override readonly name = 'UnsentError';
}

/** The request went out, and no answer came: nobody knows whether it was carried out, or will be. */
export class UnansweredError extends Error {
  override readonly name = 'UnansweredError';
}

export class UnknownPartitionError extends Error {
  override readonly name = 'UnknownPartitionError';

  constructor({ topic, partition }: PartitionRef) {
    super(`there is no partition ${partition} of a topic ${topic}`);
  }
}

/** Certain not to be in the log: checked before anything is written. All other codes may come after the local write. */
const REFUSALS: ReadonlySet<number> = new Set([
  CODE.MESSAGE_TOO_LARGE,
  CODE.INVALID_TOPIC,
  CODE.RECORD_LIST_TOO_LARGE,
  CODE.NOT_ENOUGH_REPLICAS,
  CODE.TOPIC_AUTHORIZATION_FAILED,
  CODE.CLUSTER_AUTHORIZATION_FAILED,
  CODE.INVALID_RECORD,
]);

export const isRefusal = (code: number): boolean => REFUSALS.has(code);

/** Of those: the broker takes less at once. */
export const isTooLarge = (error: unknown): boolean =>
  error instanceof KafkaCodeError &&
  (error.code === CODE.MESSAGE_TOO_LARGE || error.code === CODE.RECORD_LIST_TOO_LARGE);

/** Gone once the metadata are fresh, or a moment later. */
const MOVED: ReadonlySet<number> = new Set([
  CODE.UNKNOWN_TOPIC_OR_PARTITION,
  CODE.LEADER_NOT_AVAILABLE,
  CODE.NOT_LEADER_OR_FOLLOWER,
  CODE.REPLICA_NOT_AVAILABLE,
  CODE.KAFKA_STORAGE_ERROR,
  CODE.FENCED_LEADER_EPOCH,
  CODE.UNKNOWN_LEADER_EPOCH,
  CODE.OFFSET_NOT_AVAILABLE,
]);

export const isMove = (code: number): boolean => MOVED.has(code);
