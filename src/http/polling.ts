import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Catalog } from '../catalog/catalog.js';
import type { ConcurrencyQuota } from './concurrency-quota.js';
import type { ChangeHub } from '../feed/hub.js';
import { notificationBytes } from '../feed/notification-record.js';
import { systemTimers, type Timers } from '../feed/timers.js';
import type { ChangeFeed, TenantFeeds } from '../feed/changes.js';
import { requireProjection } from './require-projection.js';
import type { Call } from './route.js';

export interface PollingOptions {
  readonly hub: ChangeHub;
  readonly tenants: TenantFeeds;
  readonly catalog: Pick<Catalog, 'get'>;
  readonly quota: ConcurrencyQuota;
  readonly timers?: Timers;
}

/** What a poll asks for. */
export interface Poll {
  readonly projectionId: string;
  /** Undefined: from the oldest that is kept. */
  readonly after: number | undefined;
  readonly limit: number;
  readonly key: string | undefined;
}

/** A page ends early past this many bytes: states may be large, and the cursor goes on from any place. */
const MAX_PAGE_BYTES = 8 * 1024 * 1024;
const READ_AT_ONCE = 250;

/** Answers what there is after a cursor, or waits for the first of it. */
export class Polling {
  readonly #options: PollingOptions;
  readonly #timers: Timers;
  readonly #waits = new Set<() => void>();

  constructor(options: PollingOptions) {
    this.#options = options;
    this.#timers = options.timers ?? systemTimers;
  }

  async answer(
    call: Pick<Call, 'request' | 'response' | 'tenantId' | 'answer'>,
    poll: Poll,
    waitSeconds: number,
  ): Promise<void> {
    const { catalog, tenants, quota } = this.#options;
    const { request, response, tenantId } = call;
    requireProjection(catalog, tenantId, poll.projectionId);
    const { changes } = await tenants.open(tenantId);
    // What was answered elsewhere is in this answer too.
    await changes.refresh();
    let page = await readPage(changes, poll, () => response.destroyed);
    if (page.records.length === 0 && waitSeconds > 0 && request.method === 'GET') {
      const release = quota.take(tenantId);
      try {
        await this.#nextChange(tenantId, { ...poll, after: page.cursor }, waitSeconds * 1000, response);
      } finally {
        release();
      }
      if (response.destroyed) return;
      requireProjection(catalog, tenantId, poll.projectionId);
      page = await readPage(
        (await tenants.open(tenantId)).changes,
        { ...poll, after: page.cursor },
        () => response.destroyed,
      );
    }
    if (response.destroyed) return;
    response.setHeader('Cache-Control', 'no-store');
    call.answer(200, pageJson(page, poll.key !== undefined));
  }

  /** Answers the long polls that wait, with what there is. */
  close(): void {
    for (const stop of [...this.#waits]) stop();
  }

  /** Resolves when there is a change past the cursor, when the time is up, or when nobody waits any more. */
  #nextChange(tenantId: string, poll: Poll, milliseconds: number, response: ServerResponse): Promise<void> {
    return new Promise((resolve, reject) => {
      let pushed = false;
      const subscription = this.#options.hub.subscribe(
        { tenantId, projectionId: poll.projectionId, after: poll.after, key: poll.key },
        {
          push: () => {
            // The change is read again with its page, so that a batch comes whole.
            if (!pushed) queueMicrotask(stop);
            pushed = true;
            return false;
          },
          ended: (reason) => {
            reject(reason instanceof Error ? reason : new Error(String(reason)));
            stop();
          },
        },
      );
      const waits = this.#waits;
      const cancel = this.#timers.after(milliseconds, stop);
      waits.add(stop);
      response.on('close', stop);
      function stop(): void {
        subscription.close();
        cancel();
        waits.delete(stop);
        response.off('close', stop);
        resolve();
      }
    });
  }
}

interface Page {
  readonly records: readonly Buffer[];
  /** How far was read: the sequence to ask from next, also where a key filter passed over everything. */
  readonly cursor: number;
}

async function readPage(changes: ChangeFeed, poll: Poll, gone: () => boolean): Promise<Page> {
  const feed = changes.of(poll.projectionId);
  const records: Buffer[] = [];
  let cursor = poll.after ?? (await changes.oldest(poll.projectionId));
  for (let bytes = 0; !gone();) {
    const items = poll.key === undefined ? Math.min(READ_AT_ONCE, poll.limit - records.length) : READ_AT_ONCE;
    const page = await feed.read(cursor + 1, { items });
    for (const change of page.items) {
      if (records.length >= poll.limit || bytes >= MAX_PAGE_BYTES) return { records, cursor };
      cursor = change.sequence;
      if (poll.key !== undefined && change.key !== poll.key) continue;
      const { record } = notificationBytes(change);
      records.push(record);
      bytes += record.length;
    }
    if (records.length >= poll.limit || bytes >= MAX_PAGE_BYTES) break;
    cursor = page.end - 1;
    if (page.items.length < items) break;
    // A filter may pass over much that is in memory: others have their turn between pages.
    if (poll.key !== undefined) await nextTurn();
  }
  return { records, cursor };
}

const OPEN = Buffer.from('{"notifications":[');
const COMMA = Buffer.from(',');

function pageJson(page: Page, filtered: boolean): Buffer {
  const parts: Buffer[] = [OPEN];
  page.records.forEach((record, i) => {
    if (i > 0) parts.push(COMMA);
    parts.push(record);
  });
  parts.push(Buffer.from(filtered ? `],"cursor":${page.cursor}}` : ']}'));
  return Buffer.concat(parts);
}
