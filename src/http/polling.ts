import type { Authenticator } from './auth.js';
import type { ConcurrencyQuota } from './concurrency-quota.js';
import { PAGE_BYTES } from '../core/reads.js';
import { nextTurn } from '../core/slices.js';
import { costOfListed } from '../core/turns.js';
import type { FeedHub } from '../feed/hub.js';
import { systemTimers, type Timers } from '../feed/timers.js';
import { poll, type Polled } from '../feed/poll.js';
import type { TenantFeeds } from '../feed/tenant-feeds.js';
import { EndableWaits } from './client-leaves.js';
import type { InTime } from './deadlines.js';
import type { FollowQuery, Followed } from './followed.js';
import { memoryOf, type RequestMemory } from './request-memory.js';
import type { Call } from './route.js';

export interface PollingOptions {
  readonly hub: FeedHub;
  readonly notified: TenantFeeds;
  readonly quota: ConcurrencyQuota;
  /** Asked again after a wait: the key may be in force no more. */
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly inTime: InTime;
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

type PollCall = Pick<Call, 'request' | 'response' | 'tenantId' | 'scope' | 'answer'>;

/** How a page is filled. */
interface Filling<T> {
  readonly followed: Followed<T>;
  readonly from: number;
  readonly waitSeconds: number;
  readonly signal: AbortSignal;
}

/** The page of a poll, as it is filled. */
class Page<T> {
  readonly #records: Buffer[] = [];
  #bytes = 0;
  /** Of the records and bytes that are in the page so many were paid for. */
  #paid = { records: 0, bytes: 0 };

  constructor(
    private readonly followed: Followed<T>,
    private readonly limit: number,
    private readonly memory: RequestMemory | undefined,
  ) {}

  get isEmpty(): boolean {
    return this.#records.length === 0;
  }

  /** False: it is full with the item. */
  take(item: T): boolean {
    const { record } = this.followed.encode(item);
    this.#bytes += record.length;
    return this.#records.push(record) < this.limit && this.#bytes < PAGE_BYTES;
  }

  /** Resolves when more may be read: pages of a tenant take turns part by part, however many it asks for at once. */
  async nextPart(): Promise<void> {
    const [records, bytes] = [this.#records.length, this.#bytes];
    const cost = PART_COST + costOfListed(records - this.#paid.records) + (bytes - this.#paid.bytes) / ENCODED_BYTES;
    this.#paid = { records, bytes };
    await (this.memory?.turnOf(cost) ?? nextTurn());
  }

  /** Resolves when it may be written. */
  async filled(): Promise<void> {
    if (this.#bytes >= LEAST_WRITTEN) await this.memory?.turnOf(this.#bytes / WRITTEN_BYTES);
  }

  json(polled: Polled): Buffer {
    const { words, told } = this.followed;
    return pageJson(words.items, this.#records, told?.(polled));
  }
}

/** Answers what there is after a cursor, or waits for the first of it. */
export class Polling {
  readonly #options: PollingOptions;
  readonly #timers: Timers;
  readonly #waits = new EndableWaits();

  constructor(options: PollingOptions) {
    this.#options = options;
    this.#timers = options.timers ?? systemTimers;
  }

  /** @throws StatefoldError UNAUTHENTICATED, TENANT_SUSPENDED, FORBIDDEN where that came about while it waited */
  async answer<T>(call: PollCall, query: PollQuery<T>, waitSeconds: number): Promise<void> {
    const { notified, authenticator, inTime } = this.#options;
    const { request, response, tenantId } = call;
    const { followed, after, limit } = query;
    const { source } = followed;
    followed.guard(tenantId);
    const feed = source.of(await notified.open(tenantId));
    // What was answered elsewhere is in this answer too.
    await inTime(feed.caughtUp());
    const memory = memoryOf(request);
    await memory?.pageOf(response);
    const page = new Page(followed, limit, memory);
    await this.#waits.during(response, async ({ signal }) => {
      const from = after === undefined ? await feed.start() : after + 1;
      const polled = await this.#fill(call, page, { followed, from, waitSeconds, signal });
      await page.filled();
      // While it waited the tenant may have come to be served anew: the former feed knows nothing of what was told since.
      const served = notified.active(tenantId);
      const latest = await (served === undefined ? feed : source.of(served)).latest();
      // A standby that has just begun may know less than what was read before.
      const newest = page.isEmpty ? latest : Math.max(latest, polled.reached);
      if (response.destroyed) return;
      authenticator.authenticate(request, call.scope);
      response.setHeader('Cache-Control', 'no-store');
      response.setHeader(followed.newest, String(newest));
      call.answer(200, page.json(polled));
    });
  }

  #fill<T>(
    { request, tenantId }: PollCall,
    page: Page<T>,
    { followed, from, waitSeconds, signal }: Filling<T>,
  ): Promise<Polled> {
    const { hub, quota } = this.#options;
    const { source, wanted } = followed;
    return poll(hub, {
      ...{ tenantId, source, from, wanted },
      nextPage: () => page.nextPart(),
      take: (item) => page.take(item),
      scanMs: wanted === undefined ? undefined : SCAN_MS,
      waitMs: request.method === 'GET' ? waitSeconds * 1000 : 0,
      waiting: () => {
        memoryOf(request)?.noPage();
        return quota.take(tenantId);
      },
      timers: this.#timers,
      signal,
    });
  }

  /** Answers the long polls that wait, with what there is. */
  close(): void {
    this.#waits.close();
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
