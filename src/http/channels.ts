import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import type { Catalog } from '../catalog/catalog.js';
import type { RequiredScope } from '../core/scopes.js';
import { findProjectRoot } from '../config/project-root.js';
import type { Logger } from '../core/logger.js';
import type { FeedHub } from '../feed/hub.js';
import type { TenantFeeds } from '../feed/tenant-feeds.js';
import type { Timers } from '../feed/timers.js';
import type { Admission } from './admission.js';
import { Deadlines, readsInTime } from './deadlines.js';
import { Polling } from './polling.js';
import { PositionWaits } from './position-waits.js';
import { Refusals } from './refusals.js';
import { EventStreams, type EventStreamsLimits } from './sse/event-streams.js';
import type { ConnectionLimits } from './websocket/connection.js';
import { StreamsMemory } from './stream-memory.js';
import { StreamServer } from './websocket/stream-server.js';

export interface ChannelsOptions {
  readonly hub: FeedHub;
  readonly notified: TenantFeeds;
  readonly catalog: Pick<Catalog, 'caughtUp' | 'onChange'>;
  readonly admission: Pick<Admission, 'admit' | 'authenticator' | 'connections'> &
    Partial<Pick<Admission, 'memory' | 'dues'>>;
  readonly logger: Logger;
  /** Told how many WebSockets are open. */
  readonly onConnections?: (open: number) => void;
  /** How long sockets may take to end at a close, milliseconds. */
  readonly drainMs?: number;
  readonly limits?: Partial<ConnectionLimits & EventStreamsLimits>;
  /** How long a channel waits until a feed is caught up, milliseconds. */
  readonly answerDeadlineMs: number;
  readonly timers?: Timers;
}

/**
 * The channels of notification that clients come to: polling, SSE and WebSocket, which share a tenant's connections. They follow
 * feeds, which no deadline of answers is over: what waits for a change waits as long as its client asked. Until it is known what there is
 * now, they wait as long as any read.
 */
export class Channels {
  readonly polling: Polling;
  readonly positionWaits: PositionWaits;
  readonly events: EventStreams;
  readonly sockets: StreamServer;
  /** The description of the channels, in AsyncAPI. */
  readonly description = readFileSync(join(findProjectRoot(), 'schemas', 'asyncapi.json'));
  readonly #drainMs: number | undefined;

  constructor({ admission, onConnections, drainMs, answerDeadlineMs, ...shared }: ChannelsOptions) {
    const options = {
      ...shared,
      inTime: readsInTime(new Deadlines(answerDeadlineMs)),
      quota: admission.connections,
      memory: new StreamsMemory(admission.memory?.budget),
      authenticator: admission.authenticator,
      authenticate: (request: IncomingMessage, scope: RequiredScope) => admission.admit(request, scope),
      refusals: new Refusals(shared.logger, admission.dues),
    };
    this.polling = new Polling(options);
    this.positionWaits = new PositionWaits(options);
    this.events = new EventStreams(options);
    this.sockets = new StreamServer({ ...options, ...(onConnections && { onConnections }) });
    this.#drainMs = drainMs;
  }

  /** Ends what waits or streams; clients go on elsewhere from their cursors. */
  async close(): Promise<void> {
    this.polling.close();
    this.positionWaits.close();
    this.events.close();
    await this.sockets.close(this.#drainMs);
  }
}
