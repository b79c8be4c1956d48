import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { findProjectRoot, versionOf } from '../config/project-root.js';
import type { Settings } from '../config/settings.js';
import type { CodeHost } from '../code-host/code-host.js';
import { MemoryBudget } from '../core/budget.js';
import { systemClock, type Clock } from '../core/clock.js';
import { LOG_RESERVE_BYTES, spaceOf } from '../core/disk-space.js';
import type { Logger } from '../core/logger.js';
import { StartupError } from '../core/startup-error.js';
import { Turns } from '../core/turns.js';
import { FrontDoor } from '../http/front-door.js';
import { PeerTls } from '../http/gateway/peer-tls.js';
import type { Log } from '../log/log.js';
import type { ReadStore } from '../read-store/read-store.js';
import type { SecondTables } from '../read-store/second-tables.js';
import { LastHour } from '../telemetry/last-hour.js';
import { serveMetrics } from '../telemetry/metrics-server.js';
import type { Metrics } from '../telemetry/metrics.js';
import { takeDataDirectory } from './data-directory.js';
import { lastBackupOf } from './last-backup.js';
import { openTestClock, requireNothingToKeep } from './test-mode.js';
import { logIsLocal } from './log-setup.js';
import { memoryLimits } from './memory-limits.js';
import type { Shutdown } from './shutdown.js';

export interface ServiceOptions {
  readonly settings: Settings;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Wrap the ports, so that a test can break them at a chosen place. */
  readonly decorate?: {
    readonly log?: (log: Log) => Log;
    readonly codeHost?: (host: CodeHost) => CodeHost;
    /** The live tables, and the second set of a rebuild. */
    readonly readStore?: (store: ReadStore) => ReadStore;
    readonly secondTables?: (tables: SecondTables) => SecondTables;
  };
}

/** What every part of the service stands on. */
export interface Ground extends Required<ServiceOptions> {
  /** Where the service is installed. */
  readonly root: string;
  readonly shutdown: Shutdown;
  readonly clock: Clock;
  /** The time of the events that are appended: in test mode the test's. */
  readonly eventClock: Clock;
  /** What this process may hold in memory for its tenants. */
  readonly budget: MemoryBudget;
  /** Of the event loop, which requests take, and who reads history for those who follow it. */
  readonly turns: Turns;
  readonly lastHour: LastHour;
  /** Id of this process in the log, new at each start. */
  readonly owner: string;
  /** The port, taken; it answers 503 until the edge opens. */
  readonly door: FrontDoor;
  /** Where this process listens. */
  readonly url: string;
  /** Where the other processes of the cluster reach it. */
  readonly peerUrl: string;
  /** With which they meet; undefined: in clear. */
  readonly peerTls: PeerTls | undefined;
}

/** What the embedded log keeps back, and what a start writes. */
const START_SPACE_BYTES = LOG_RESERVE_BYTES + 2 * 1024 * 1024;

/** Takes the data directory and the ports. Nothing is made before: what can't start leaves nothing behind. */
export async function openGround(options: ServiceOptions, shutdown: Shutdown): Promise<Ground> {
  const { settings, metrics } = options;
  const root = findProjectRoot();
  if (settings.testMode) requireNothingToKeep(settings.dataDirectory);
  const eventClock = settings.testClock === undefined ? systemClock : openTestClock(settings.testClock);
  const lock = await takeDataDirectory(settings.dataDirectory, {
    version: versionOf(root),
    spaceBytes: logIsLocal(settings) ? START_SPACE_BYTES : 0,
  });
  shutdown.add('instance lock', () => lock.release());
  metrics.watch('data_directory_free_bytes', () => spaceOf(settings.dataDirectory).free);
  metrics.watch('data_directory_size_bytes', () => spaceOf(settings.dataDirectory).size);
  if (logIsLocal(settings))
    metrics.watch('last_backup_timestamp_seconds', () => {
      const takenAt = lastBackupOf(settings.dataDirectory);
      return takenAt === undefined ? undefined : takenAt / 1000;
    });
  const door = new FrontDoor(settings);
  const url = urlOf(settings.host, await door.listen());
  shutdown.add('port', () => door.close());
  const { peerUrl, peerTls } = await openToPeers(options, door, url);
  shutdown.add('certificate', () => peerTls?.close());
  if (settings.metricsPort !== undefined) {
    const scraped = await serveMetrics(settings.metricsPort, settings.host, metrics);
    shutdown.add('metrics endpoint', () => scraped.close());
  }
  const budget = new MemoryBudget(memoryLimits(settings));
  metrics.watchBudget(budget);
  const lastHour = new LastHour({ metrics, now: () => systemClock.now() });
  shutdown.add('last hour', () => lastHour.close());
  return {
    ...options,
    decorate: options.decorate ?? {},
    root,
    shutdown,
    clock: systemClock,
    eventClock,
    budget,
    turns: new Turns(),
    lastHour,
    owner: randomUUID(),
    door,
    url,
    peerUrl,
    peerTls,
  };
}

/** With `CLUSTER_TLS` on a port of their own: that of `ADVERTISED_URL`, or any. */
async function openToPeers(
  { settings, logger }: ServiceOptions,
  door: FrontDoor,
  url: string,
): Promise<Pick<Ground, 'peerUrl' | 'peerTls'>> {
  const { advertisedUrl, clusterTls } = settings;
  if (clusterTls === undefined) return { peerUrl: advertisedUrl ?? url, peerTls: undefined };
  if (advertisedUrl?.startsWith('http:'))
    throw new StartupError(
      `CLUSTER_TLS is set, and ADVERTISED_URL is ${advertisedUrl}: it must begin with https://, and its port is taken for the other processes.`,
    );
  const peerTls = new PeerTls(clusterTls, logger);
  const peerUrl = new URL(advertisedUrl ?? url.replace(/^http:/, 'https:'));
  const port = await door.listenToPeers(peerTls, advertisedUrl === undefined ? 0 : Number(peerUrl.port || 443));
  peerUrl.port = String(port);
  logger.info({ url: peerUrl.origin }, 'the other processes of the cluster reach this one by TLS');
  return { peerUrl: peerUrl.origin, peerTls };
}

/** Where it is reached; for other processes by the machine's name where it listens on all addresses. */
function urlOf(host: string, port: number): string {
  const reached = host === '0.0.0.0' || host === '::' ? hostname() : host;
  return `http://${reached.includes(':') ? `[${reached}]` : reached}:${port}`;
}
