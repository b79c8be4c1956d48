import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Router, type Request, type Response } from 'express';
import type { Catalog } from '../../catalog/catalog.js';
import { findProjectRoot } from '../../config/project-root.js';
import { StatefoldError } from '../../core/errors.js';
import type { ConnectionQuota } from '../connection-quota.js';
import type { ChangeHub } from '../../feed/hub.js';
import { notificationBytes } from '../../feed/notification-record.js';
import { systemTimers, type Timers } from '../../feed/timers.js';
import type { ChangeFeed, TenantFeeds } from '../../feed/changes.js';
import type { Principal } from '../auth.js';
import { COUNTED_BYTES, memoryOf } from '../request-memory.js';
import { cursorParameter, integerParameter, keyParameter, queryOf, requireProjection } from '../notification-query.js';

export interface NotificationRoutesOptions {
  readonly hub: ChangeHub;
  readonly tenants: TenantFeeds;
  readonly catalog: Pick<Catalog, 'get'>;
  readonly quota: ConnectionQuota;
  readonly authenticate: (request: IncomingMessage) => Principal;
  readonly timers?: Timers;
}

export interface NotificationRoutes {
  readonly router: Router;
  /** Answers the long polls that wait, with what there is. */
  close(): void;
}

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1_000;
const MAX_WAIT_SECONDS = 60;
/** A page ends early past this many bytes: states may be large, and the cursor goes on from any place. */
const MAX_PAGE_BYTES = 8 * 1024 * 1024;
const READ_AT_ONCE = 250;

/** Polling: `GET /projections/{id}/notifications`, what a plain GET of the WebSocket's path is told, and the description of all channels. */
export function notificationRoutes(options: NotificationRoutesOptions): NotificationRoutes {
  const { hub, tenants, catalog, quota, authenticate } = options;
  const timers = options.timers ?? systemTimers;
  const asyncApi = readFileSync(join(findProjectRoot(), 'schemas', 'asyncapi.json'));
  const waits = new Set<() => void>();
  const router = Router({ strict: true, caseSensitive: true });

  router.get('/projections/:id/notifications', async (request: Request<{ id: string }>, response: Response) => {
    const { tenantId } = authenticate(request);
    const query = queryOf(request.url);
    const poll: Poll = {
      projectionId: request.params.id,
      after: cursorParameter(query),
      limit: integerParameter(query, 'limit', 1, MAX_LIMIT) ?? DEFAULT_LIMIT,
      key: keyParameter(query),
    };
    const waitSeconds = integerParameter(query, 'waitSeconds', 0, MAX_WAIT_SECONDS) ?? 0;
    requireProjection(catalog, tenantId, poll.projectionId);
    const { changes } = await tenants.open(tenantId);
    // What was answered elsewhere is in this answer too.
    await changes.refresh();
    const memory = memoryOf(request);
    await memory?.pageOf(response);
    let page = await readPage(changes, poll, () => response.destroyed);
    if (page.records.length === 0 && waitSeconds > 0 && request.method === 'GET') {
      memory?.noPage();
      const release = quota.take(tenantId);
      try {
        await nextChange(tenantId, { ...poll, after: page.cursor }, waitSeconds * 1000, response);
      } finally {
        release();
      }
      if (response.destroyed) return;
      requireProjection(catalog, tenantId, poll.projectionId);
      await memory?.pageOf(response);
      page = await readPage(
        (await tenants.open(tenantId)).changes,
        { ...poll, after: page.cursor },
        () => response.destroyed,
      );
    }
    if (!response.destroyed) send(response, page, poll.key !== undefined);
  });

  router.get('/asyncapi.json', (_request: Request, response: Response) => {
    response.status(200).setHeader('Content-Type', 'application/json; charset=utf-8');
    response.end(asyncApi);
  });

  router.get('/projections/:id/stream', (request: Request<{ id: string }>) => {
    const { tenantId } = authenticate(request);
    requireProjection(catalog, tenantId, request.params.id);
    throw new StatefoldError(
      'INVALID_REQUEST',
      'this path speaks WebSocket only: connect with an upgrade, or use /sse or /notifications',
    );
  });

  /** Resolves when there is a change past the cursor, when the time is up, or when nobody waits any more. */
  function nextChange(tenantId: string, poll: Poll, milliseconds: number, response: Response): Promise<void> {
    return new Promise((resolve, reject) => {
      let pushed = false;
      const subscription = hub.subscribe(
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
      const cancel = timers.after(milliseconds, stop);
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

  return {
    router,
    close() {
      for (const stop of [...waits]) stop();
    },
  };
}

interface Poll {
  readonly projectionId: string;
  /** Undefined: from the oldest that is kept. */
  readonly after: number | undefined;
  readonly limit: number;
  readonly key: string | undefined;
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
    if (page.items.length < items && page.end >= feed.head) break;
    // A filter may pass over much that is in memory: others have their turn between pages.
    if (poll.key !== undefined) await nextTurn();
  }
  return { records, cursor };
}

const OPEN = Buffer.from('{"notifications":[');
const COMMA = Buffer.from(',');

function send(response: Response, page: Page, filtered: boolean): void {
  const parts: Buffer[] = [OPEN];
  page.records.forEach((record, i) => {
    if (i > 0) parts.push(COMMA);
    parts.push(record);
  });
  parts.push(Buffer.from(filtered ? `],"cursor":${page.cursor}}` : ']}'));
  const body = Buffer.concat(parts);
  if (body.length > COUNTED_BYTES) memoryOf(response.req)?.answer(response, body.length);
  response.status(200).setHeader('Content-Type', 'application/json; charset=utf-8');
  response.setHeader('Content-Length', body.length);
  response.setHeader('Cache-Control', 'no-store');
  response.end(body);
}
