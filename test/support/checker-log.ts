import { join } from 'node:path';
import { EMPTY_FENCE, foldRecord, type FenceState } from '../../src/core/fence.js';
import { uuidText } from '../../src/core/ids.js';
import type { ChangesBody, EventsBody } from '../../src/core/records.js';
import { loadCodecs, type RecordCodec } from '../../src/log/codec.js';
import type { Log } from '../../src/log/log.js';
import type { Chain } from './checker-model.js';
import type { SentEvent } from './history.js';
import { ROOT } from './service.js';

export interface LoggedEvent extends SentEvent {
  readonly eventId: string;
}
export interface LoggedCommit {
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
export async function readLog(log: Log, tenantId: string): Promise<LogContent> {
  const codecs = loadCodecs(join(ROOT, 'schemas', 'avro'));
  try {
    const commits: LoggedCommit[] = [];
    const swaps: LoggedSwap[] = [];
    const changes: LoggedChange[] = [];
    const versions = new Map<string, number>();
    const inputs = new Map<string, readonly [number, number]>();
    const events = await fold<EventsBody>(log, `statefold.${tenantId}.events`, codecs.events, {
      judge: (body) => body.kind !== 'Commit' || body.value.baseVersion === (versions.get(body.value.aggregateId) ?? 0),
      accept: (body, offset) => {
        if (body.kind === 'ProjectionSwap') swaps.push({ offset, projectionId: body.value.projectionId });
        if (body.kind !== 'Commit') return;
        const { aggregateId, aggregateType, baseVersion, timestamp, keyed, commandId } = body.value;
        versions.set(aggregateId, baseVersion + body.value.events.length);
        const sent = body.value.events.map(({ eventId, eventType, data }) => {
          const { id, lane } = JSON.parse(data.toString()) as { id: string; lane: string };
          return { eventId: uuidText(eventId), eventType, mark: id, lane };
        });
        commits.push({ offset, aggregateId, aggregateType, baseVersion, timestamp, key: keyed ? commandId : undefined, events: sent });
      },
    });
    const pushed = await fold<ChangesBody>(log, `statefold.${tenantId}.changes`, codecs.changes, {
      judge: ({ value }) => {
        const [offset, index] = inputs.get(value.projectionId) ?? [-1, -1];
        return value.inputOffset > offset || (value.inputOffset === offset && value.inputIndex > index);
      },
      accept: ({ value }, sequence) => {
        const { projectionId, key, eventId, aggregateId, version, state, cause, inputOffset, inputIndex } = value;
        inputs.set(projectionId, [inputOffset, inputIndex]);
        changes.push({ sequence, projectionId, key, eventId, aggregateId, version, state: state === null ? null : (JSON.parse(state.toString()) as Chain), cause });
      },
    });
    return { commits, swaps, changes, epochs: events.state.epoch, voids: events.voids + pushed.voids };
  } finally {
    await log.close();
  }
}

interface Reader<B> {
  readonly judge: (body: B) => boolean;
  readonly accept: (body: B, offset: number) => void;
}

async function fold<B extends { readonly kind: string }>(log: Log, topic: string, codec: RecordCodec<B>, reader: Reader<B>): Promise<{ state: FenceState; voids: number }> {
  const ref = { topic, partition: 0 };
  let state = EMPTY_FENCE;
  let voids = 0;
  for (;;) {
    const records = await log.read(ref, state.position, 1024 * 1024);
    if (records.length === 0) return { state, voids };
    for (const { offset, value } of records) {
      const record = value === null ? undefined : codec.decode(value);
      const folded = foldRecord<B>(state, offset, record, (body) => reader.judge(body));
      state = folded.state;
      if (folded.verdict === 'void') voids++;
      else if (folded.verdict === 'accepted' && record !== undefined) reader.accept(record.body as B, offset);
    }
  }
}
