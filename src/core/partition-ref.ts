/** One partition of a topic. */
export interface PartitionRef {
  readonly topic: string;
  readonly partition: number;
}
