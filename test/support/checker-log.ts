import { join } from 'node:path';
import { EMPTY_FENCE, foldRecord, type Epochs, type FenceState } from '../../src/core/fence.js';
import { uuidText } from '../../src/core/ids.js';
import type { ChangesBody, EventsBody, OrderBody } from '../../src/core/records.js';
import { loadCodecs, type RecordCodec } from '../../src/log/codec/codec.js';
import { readBelow } from '../../src/log/journal/known-end.js';
import type { Log, PartitionRef } from '../../src/log/log.js';
import type { Chain } from './checker-model.js';
import type { SentEvent } from './history.js';
import { ChangesJudge, commitsOfBody, EventsJudge } from './rules.js';
import { ROOT } from './service.js';

export interface LoggedEvent extends SentEvent {
  readonly eventId: string;
}
export interface LoggedCommit {
  /** Of a tenant of several partitions, the place in its order. */
  readonly offset: number;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly baseVersion: number;
  readonly timestamp: number;
  /** The Idempotency-Key, where one was sent. */
  readonly key: string | undefined;
  readonly events: readonly LoggedEvent[];
}
export interface LoggedChange {
  readonly sequence: number;
  readonly projectionId: string;
  readonly key: string;
  readonly eventId: string;
  readonly aggregateId: string;
  readonly version: number;
  readonly state: Chain;
  readonly cause: string | null;
}
export interface LoggedSwap {
  readonly offset: number;
  readonly projectionId: string;
}

/** What a tenant's log holds for a reader that knows nothing but the log: accepted records, by the fold of `core/fence.ts`. */
export interface LogContent {
  readonly commits: readonly LoggedCommit[];
  readonly swaps: readonly LoggedSwap[];
  readonly changes: readonly LoggedChange[];
  /** Takeovers of the events topic. */
  readonly epochs: number;
  /** Records of both topics that don't count. */
  readonly voids: number;
}

/** Folds the log, and closes it. @throws InvariantError where the log lost data. */
export async function readLog(log: Log, storedAs: string, partitions = 1): Promise<LogContent> {
  const codecs = loadCodecs(join(ROOT, 'schemas', 'avro'));
  try {
    const changes: LoggedChange[] = [];
    const parts: EventsContent[] = [];
    for (let partition = 0; partition < partitions; partition++)
      parts.push(await readEvents(log, { topic: `statefold.${storedAs}.events`, partition }, codecs.events));
    const [first] = parts;
    const { commits, swaps } =
      partitions === 1 && first !== undefined ? first : await inOrder(log, storedAs, parts, codecs.order);
    const pushed = await fold<ChangesBody>(
      log,
      { topic: `statefold.${storedAs}.changes`, partition: 0 },
      codecs.changes,
      {
        epochs: 'given',
        judge: new ChangesJudge(),
        accept: ({ value }, sequence) => {
          const { projectionId, key, eventId, aggregateId, version, state, cause } = value;
          changes.push({
            sequence,
            projectionId,
            key,
            eventId,
            aggregateId,
            version,
            state: state === null ? null : (JSON.parse(state.toString()) as Chain),
            cause,
          });
        },
      },
    );
    return {
      commits,
      swaps,
      changes,
      epochs: parts.reduce((sum, { epochs }) => sum + epochs, 0),
      voids: parts.reduce((sum, { voids }) => sum + voids, pushed.voids),
    };
  } finally {
    await log.close();
  }
}

type EventsContent = Omit<LogContent, 'changes'>;

async function readEvents(log: Log, ref: PartitionRef, codec: RecordCodec<EventsBody>): Promise<EventsContent> {
  const commits: LoggedCommit[] = [];
  const swaps: LoggedSwap[] = [];
  const { state, voids } = await fold<EventsBody>(log, ref, codec, {
    judge: new EventsJudge(),
    accept: (body, offset) => {
      if (body.kind === 'ProjectionSwap') swaps.push({ offset, projectionId: body.value.projectionId });
      for (const value of commitsOfBody(body)) {
        const { aggregateId, aggregateType, baseVersion, timestamp, keyed, commandId } = value;
        const sent = value.events.map(({ eventId, eventType, data }) => {
          const { id, lane } = JSON.parse(data.toString()) as { id: string; lane: string };
          return { eventId: uuidText(eventId), eventType, mark: id, lane };
        });
        commits.push({
          offset,
          aggregateId,
          aggregateType,
          baseVersion,
          timestamp,
          key: keyed ? commandId : undefined,
          events: sent,
        });
      }
    },
  });
  return { commits, swaps, epochs: state.epoch, voids };
}

/** What the partitions hold, in the order that the tenant's order topic gives it; what it does not place is left out. */
async function inOrder(
  log: Log,
  storedAs: string,
  parts: readonly EventsContent[],
  codec: RecordCodec<OrderBody>,
): Promise<Pick<LogContent, 'commits' | 'swaps'>> {
  const commits: LoggedCommit[] = [];
  const swaps: LoggedSwap[] = [];
  const throughs = parts.map(() => 0);
  let place = 0;
  const ref = { topic: `statefold.${storedAs}.order`, partition: 0 };
  const end = await log.endOffset(ref);
  for (let at = 0; at < end;) {
    const { records, next } = await readBelow(log, ref, at, end, 1024 * 1024);
    at = next;
    for (const { value } of records) {
      const body = value === null ? undefined : codec.decode(value)?.body;
      if (body?.kind !== 'Through') continue;
      const { partition, through } = body.value;
      const from = throughs[partition] ?? through;
      if (through <= from) continue;
      const placed = <T extends { readonly offset: number }>(all: readonly T[]): T[] =>
        all
          .filter(({ offset }) => offset >= from && offset < through)
          .map((one) => ({ ...one, offset: place + one.offset - from }));
      commits.push(...placed(parts[partition]?.commits ?? []));
      swaps.push(...placed(parts[partition]?.swaps ?? []));
      throughs[partition] = through;
      place += through - from;
    }
  }
  return { commits, swaps };
}

interface Reader<B> {
  readonly judge: { judge(body: B): boolean; accept(body: B): void };
  readonly accept: (body: B, offset: number) => void;
  readonly epochs?: Epochs;
}

async function fold<B extends { readonly kind: string }>(
  log: Log,
  ref: PartitionRef,
  codec: RecordCodec<B>,
  reader: Reader<B>,
): Promise<{ state: FenceState; voids: number }> {
  let state = EMPTY_FENCE;
  let voids = 0;
  const end = await log.endOffset(ref);
  for (let at = 0; at < end;) {
    const { records, next } = await readBelow(log, ref, at, end, 1024 * 1024);
    at = next;
    for (const { offset, value } of records) {
      const record = value === null ? undefined : codec.decode(value);
      const folded = foldRecord<B>(state, offset, record, (body) => reader.judge.judge(body), reader.epochs);
      state = folded.state;
      if (folded.verdict === 'void') voids++;
      else if (folded.verdict === 'accepted' && record !== undefined) {
        reader.judge.accept(record.body as B);
        reader.accept(record.body as B, offset);
      }
    }
  }
  return { state, voids };
}
