import { background } from '../../core/background.js';
import type { PartitionRef } from '../log.js';
import type { Broker } from '../../kafka/broker.js';
import { listOffsetsCall, type OffsetKind } from '../../kafka/calls.js';
import type { Cluster } from '../../kafka/cluster.js';
import { KafkaCodeError } from '../../kafka/kafka-error.js';

interface OffsetQuestion extends PartitionRef {
  readonly resolve: (offset: number) => void;
  readonly reject: (error: unknown) => void;
}

/** Queries under way at a time: what is asked meanwhile shares the next one. A query must begin after it was asked. */
const UNDER_WAY = 2;
const PARTITIONS_PER_REQUEST = 2000;
/**
 * While clients of several tenants are about, queries begin so many milliseconds apart. One behind the other, each with the few that were
 * asked meanwhile, one tenant's polls make 1,500 a second, which cost the broker and this process as much as appends do.
 */
const APART_MS = 2;

interface Queue {
  waiting: OffsetQuestion[];
  underWay: number;
  scheduled: boolean;
  /** When the last query began, by `performance.now()`. */
  begunAt: number;
}

/** Where partitions start and end, by queries to their leaders that gather. */
export class OffsetQuery {
  readonly #cluster: Cluster;
  readonly #timeoutMs: number;
  readonly #queues = new Map<string, Queue>();

  constructor(cluster: Cluster, timeoutMs: number) {
    this.#cluster = cluster;
    this.#timeoutMs = timeoutMs;
  }

  offset(of: PartitionRef, kind: OffsetKind): Promise<number> {
    return this.#cluster.routed(
      of,
      (leader) =>
        new Promise((resolve, reject) =>
          this.#ask(leader, kind, { topic: of.topic, partition: of.partition, resolve, reject }),
        ),
    );
  }

  #ask(leader: Broker, kind: OffsetKind, asked: OffsetQuestion): void {
    const name = `${kind} ${leader.address}`;
    let queue = this.#queues.get(name);
    if (queue === undefined)
      this.#queues.set(name, (queue = { waiting: [], underWay: 0, scheduled: false, begunAt: -Infinity }));
    queue.waiting.push(asked);
    this.#schedule(leader, kind, queue);
  }

  #schedule(leader: Broker, kind: OffsetKind, queue: Queue): void {
    if (queue.scheduled || queue.underWay === UNDER_WAY || queue.waiting.length === 0) return;
    queue.scheduled = true;
    const begin = (): void => {
      queue.scheduled = false;
      queue.underWay++;
      queue.begunAt = performance.now();
      void this.#send(leader, kind, queue.waiting.splice(0, PARTITIONS_PER_REQUEST)).finally(() => {
        queue.underWay--;
        this.#schedule(leader, kind, queue);
      });
      this.#schedule(leader, kind, queue);
    };
    const rest = background.restOf(queue.begunAt, APART_MS);
    if (rest > 0) setTimeout(begin, rest);
    // After the work of this turn: so that what was asked in one turn goes in one request.
    else setImmediate(begin);
  }

  async #send(leader: Broker, kind: OffsetKind, asked: readonly OffsetQuestion[]): Promise<void> {
    try {
      const partitions = new Map(asked.map((one) => [`${one.topic}/${one.partition}`, one]));
      const answers = await leader.send('query', listOffsetsCall([...partitions.values()], kind), this.#timeoutMs);
      const found = new Map(answers.map((answer) => [`${answer.topic}/${answer.partition}`, answer]));
      for (const { topic, partition, resolve, reject } of asked) {
        const answer = found.get(`${topic}/${partition}`);
        if (answer === undefined) reject(new Error(`the answer says nothing of ${topic}-${partition}`));
        else if (answer.code !== 0) reject(new KafkaCodeError(answer.code, `${topic}-${partition}`));
        else resolve(answer.offset);
      }
    } catch (error) {
      for (const { reject } of asked) reject(error);
    }
  }
}
