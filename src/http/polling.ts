import type { Authenticator } from './auth.js';
import type { ConcurrencyQuota } from './concurrency-quota.js';
import { PAGE_BYTES } from '../core/reads.js';
import { nextTurn } from '../core/slices.js';
import type { FeedHub } from '../feed/hub.js';
import { systemTimers, type Timers } from '../feed/timers.js';
import { poll } from '../feed/poll.js';
import type { TenantFeeds } from '../feed/tenant-feeds.js';
import type { FollowQuery } from './followed.js';
import { memoryOf } from './request-memory.js';
import type { Call } from './route.js';

export interface PollingOptions {
  readonly hub: FeedHub;
  readonly notified: TenantFeeds;
  readonly quota: ConcurrencyQuota;
  /** Asked again after a wait: the key may be in force no more. */
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly timers?: Timers;
}

/** Where a client wants few of many items: after so long without one it is answered how far that came, and asks again. */
const SCAN_MS = 5_000;
/** Of a turn: what it costs to go through as much of a feed as is read at a time. */
const PART_COST = 1;
/** And one more for so many bytes of the answer that are encoded, or written. */
const ENCODED_BYTES = 128 * 1024;
const WRITTEN_BYTES = 64 * 1024;
/** What costs less was reckoned when the request began. */
const LEAST_WRITTEN = 16 * 1024;

/** What a poll asks for. */
export interface PollQuery<T> extends FollowQuery<T> {
  /** Most items of the answer. */
  readonly limit: number;
}

/** Answers what there is after a cursor, or waits for the first of it. */
export class Polling {
  readonly #options: PollingOptions;
  readonly #timers: Timers;
  readonly #polls = new Set<() => void>();

  constructor(options: PollingOptions) {
    this.#options = options;
    this.#timers = options.timers ?? systemTimers;
  }

  /** @throws StatefoldError UNAUTHENTICATED, TENANT_SUSPENDED, FORBIDDEN where that came about while it waited */
  async answer<T>(
    call: Pick<Call, 'request' | 'response' | 'tenantId' | 'scope' | 'answer'>,
    { followed, after, limit }: PollQuery<T>,
    waitSeconds: number,
  ): Promise<void> {
    const { hub, notified, quota, authenticator } = this.#options;
    const { request, response, tenantId } = call;
    const { source, wanted } = followed;
    followed.guard(tenantId);
    const feed = source.of(await notified.open(tenantId));
    // What was answered elsewhere is in this answer too.
    await feed.caughtUp();
    const memory = memoryOf(request);
    await memory?.pageOf(response);
    const records: Buffer[] = [];
    let bytes = 0;
    let paid = 0;
    /** Pages of a tenant take turns part by part, however many it asks for at once. */
    const nextPage = async (): Promise<void> => {
      const cost = PART_COST + (bytes - paid) / ENCODED_BYTES;
      paid = bytes;
      await (memory?.turnOf(cost) ?? nextTurn());
    };
    const ended = new AbortController();
    const stop = (): void => ended.abort();
    this.#polls.add(stop);
    response.on('close', stop);
    try {
      const polled = await poll(hub, {
        tenantId,
        source,
        from: after === undefined ? await feed.start() : after + 1,
        wanted,
        nextPage,
        take: (item) => {
          const { record } = followed.encode(item);
          bytes += record.length;
          return records.push(record) < limit && bytes < PAGE_BYTES;
        },
        scanMs: wanted === undefined ? undefined : SCAN_MS,
        waitMs: request.method === 'GET' ? waitSeconds * 1000 : 0,
        waiting: () => {
          memory?.noPage();
          return quota.take(tenantId);
        },
        timers: this.#timers,
        signal: ended.signal,
      });
      if (bytes >= LEAST_WRITTEN) await memory?.turnOf(bytes / WRITTEN_BYTES);
      // While it waited the tenant may have come to be served anew: the former feed knows nothing of what was told since.
      const served = notified.active(tenantId);
      const latest = await (served === undefined ? feed : source.of(served)).latest();
      // A standby that has just begun may know less than what was read before.
      const newest = records.length === 0 ? latest : Math.max(latest, polled.reached);
      if (response.destroyed) return;
      authenticator.authenticate(request, call.scope);
      response.setHeader('Cache-Control', 'no-store');
      response.setHeader(followed.newest, String(newest));
      call.answer(200, pageJson(followed.words.items, records, followed.told?.(polled)));
    } finally {
      this.#polls.delete(stop);
      response.off('close', stop);
    }
  }

  /** Answers the long polls that wait, with what there is. */
  close(): void {
    for (const stop of [...this.#polls]) stop();
  }
}

const COMMA = Buffer.from(',');

/** `told`: a further member, how far was read. */
function pageJson(member: string, records: readonly Buffer[], told: readonly [string, number] | undefined): Buffer {
  const parts: Buffer[] = [Buffer.from(`{"${member}":[`)];
  records.forEach((record, i) => {
    if (i > 0) parts.push(COMMA);
    parts.push(record);
  });
  parts.push(Buffer.from(told === undefined ? ']}' : `],"${told[0]}":${told[1]}}`));
  return Buffer.concat(parts);
}
