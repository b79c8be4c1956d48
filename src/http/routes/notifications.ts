import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { Router, type Request, type Response } from 'express';
import type { Catalog } from '../../catalog/catalog.js';
import { findProjectRoot } from '../../config/project-root.js';
import { StatefoldError } from '../../core/errors.js';
import type { ConnectionQuota } from '../connection-quota.js';
import type { FeedHub } from '../../feed/hub.js';
import { notificationBytes } from '../../feed/notification-record.js';
import { systemTimers, type Timers } from '../../feed/timers.js';
import { poll } from '../../feed/poll.js';
import { changesOf } from '../../feed/sources.js';
import type { TenantFeeds } from '../../feed/tenant-feeds.js';
import type { Principal } from '../auth.js';
import { cursorParameter, integerParameter, keyParameter, queryOf, requireProjection } from '../notification-query.js';

export interface NotificationRoutesOptions {
  readonly hub: FeedHub;
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

/** Polling: `GET /projections/{id}/notifications`, what a plain GET of the WebSocket's path is told, and the description of all channels. */
export function notificationRoutes(options: NotificationRoutesOptions): NotificationRoutes {
  const { hub, tenants, catalog, quota, authenticate } = options;
  const timers = options.timers ?? systemTimers;
  const asyncApi = readFileSync(join(findProjectRoot(), 'schemas', 'asyncapi.json'));
  const polls = new Set<() => void>();
  const router = Router({ strict: true, caseSensitive: true });

  router.get('/projections/:id/notifications', async (request: Request<{ id: string }>, response: Response) => {
    const { tenantId } = authenticate(request);
    const query = queryOf(request.url);
    const projectionId = request.params.id;
    const after = cursorParameter(query);
    const limit = integerParameter(query, 'limit', 1, MAX_LIMIT) ?? DEFAULT_LIMIT;
    const key = keyParameter(query);
    const waitSeconds = integerParameter(query, 'waitSeconds', 0, MAX_WAIT_SECONDS) ?? 0;
    requireProjection(catalog, tenantId, projectionId);
    const source = changesOf(projectionId);
    const feed = source.of(await tenants.open(tenantId));
    // What was answered elsewhere is in this answer too.
    await feed.refresh();
    const records: Buffer[] = [];
    let bytes = 0;
    const ended = new AbortController();
    const stop = (): void => ended.abort();
    polls.add(stop);
    response.on('close', stop);
    try {
      const end = await poll(hub, {
        tenantId,
        source,
        from: after === undefined ? await feed.start() : after + 1,
        wanted: key === undefined ? undefined : (change) => change.key === key,
        take: (change) => {
          const { record } = notificationBytes(change);
          bytes += record.length;
          return records.push(record) < limit && bytes < MAX_PAGE_BYTES;
        },
        waitMs: request.method === 'GET' ? waitSeconds * 1000 : 0,
        waiting: () => quota.take(tenantId),
        timers,
        signal: ended.signal,
      });
      if (!response.destroyed) send(response, records, key === undefined ? undefined : end - 1);
    } finally {
      polls.delete(stop);
      response.off('close', stop);
    }
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

  return {
    router,
    close() {
      for (const stop of [...polls]) stop();
    },
  };
}

const OPEN = Buffer.from('{"notifications":[');
const COMMA = Buffer.from(',');

/** `cursor`: how far was read, told where a filter may have passed over what lies between. */
function send(response: Response, records: readonly Buffer[], cursor: number | undefined): void {
  const parts: Buffer[] = [OPEN];
  records.forEach((record, i) => {
    if (i > 0) parts.push(COMMA);
    parts.push(record);
  });
  parts.push(Buffer.from(cursor === undefined ? ']}' : `],"cursor":${cursor}}`));
  const body = Buffer.concat(parts);
  response.status(200).setHeader('Content-Type', 'application/json; charset=utf-8');
  response.setHeader('Content-Length', body.length);
  response.setHeader('Cache-Control', 'no-store');
  response.end(body);
}
