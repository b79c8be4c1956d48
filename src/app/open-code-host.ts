import { join } from 'node:path';
import { DotnetCodeHost, type DotnetCodeHostOptions } from '../code-host/dotnet/dotnet-code-host.js';
import { forkServer } from '../jail/fork-server.js';
import { describeJail, type Jail } from '../jail/jail.js';
import { jailOf, requireDotnet } from '../jail/launch.js';
import { RefusingCodeHost } from '../code-host/dotnet/refusing-code-host.js';
import type { CodeHost } from '../code-host/code-host.js';
import type { Catalog } from '../catalog/catalog.js';
import { ArtefactHealth } from '../deployments/artefact-health.js';
import { scratchNiceness } from '../inspection/scratch-priority.js';
import { DATA_FILES } from '../config/data-files.js';
import type { Settings } from '../config/settings.js';
import { tracing } from '../core/tracing.js';
import { tracedCodeHost } from './open-tracing.js';
import type { Ground } from './ground.js';

/** What is built of `dotnet`. `root`: where the service is installed. */
export const assembliesOf = (root: string): string => join(root, 'dist', 'dotnet');

/** What the settings say of the processes that compile and run uploaded code. `root`: where the service is installed. */
export const codeHostOptions = (
  settings: Settings,
  root: string,
): Omit<DotnetCodeHostOptions, 'logger' | 'observer'> => ({
  dotnet: 'dotnet',
  searchPath: process.env['PATH'] ?? '',
  assembliesDir: assembliesOf(root),
  workDir: join(settings.dataDirectory, DATA_FILES.work),
  batchDeadlineMs: settings.runnerBatchDeadlineMs,
  eventDeadlineMs: settings.runnerEventDeadlineMs,
  compileDeadlineMs: settings.compileDeadlineMs,
  compilationsDir: settings.compilationsDirectory,
  determinismChecks: settings.determinismChecks,
  compilers: settings.compilers,
  compilersWarm: settings.compilersWarm,
  compilerHeapLimitBytes: settings.compilerHeapLimitBytes,
  compilerMaxResidentBytes: 2 * settings.compilerHeapLimitBytes,
  heapLimitBytes: settings.runnerHeapLimitBytes,
  maxResidentBytes: settings.runnerMemoryLimitBytes,
  maxThreads: settings.runnerMaxThreads,
  spareProcessorMs: settings.runnerSpareProcessorMs,
  idleMs: settings.runnerIdleMs,
  maxRunners: settings.runnersMax,
  maxRunnersBytes: settings.runnersMemoryBytes,
  maxStateBytes: settings.maxStateBytes,
});

/** What compiles and runs uploaded code, and what is known of how it behaves. */
export interface OpenedCodeHost {
  readonly codeHost: CodeHost;
  /** One line on how uploaded code is kept from everything else. */
  readonly jailed: string;
  readonly refused: boolean;
  /** As this machine has it, for other processes that run what tenants wrote. */
  readonly jail: Jail;
  /** Makes the warm compilers ready before the first upload asks for one. */
  start(): void;
}

/**
 * Runs uploaded code in the jail that this machine has; refuses to where there is none, unless the settings say that it may run
 * without. Strikes of code are counted in the catalog. @throws StartupError without .NET
 */
export function openCodeHost(ground: Ground, catalog: Catalog): OpenedCodeHost {
  const { settings, logger, metrics, decorate, shutdown, clock } = ground;
  const health = new ArtefactHealth({
    catalog,
    strikes: settings.artefactStrikes,
    windowMs: settings.artefactStrikeWindowMs,
    clock,
    logger,
  });
  shutdown.add('strikes', () => health.idle());
  const options: DotnetCodeHostOptions = {
    ...codeHostOptions(settings, ground.root),
    marksDir: join(settings.dataDirectory, DATA_FILES.exchanges),
    runnerNiceness: scratchNiceness,
    logger,
    observer: {
      ...metrics.codeHost,
      onStrike: (strike) => {
        metrics.codeHost.onStrike();
        health.struck(strike);
      },
      halt: (strike) => health.halt(strike),
    },
  };
  forkServer.home = options.workDir;
  shutdown.add('fork server', () => forkServer.close());
  // What only forwards requests compiles and runs nothing.
  if (settings.roles.includes('tasks')) requireDotnet(options);
  const jail: Jail = settings.unsafeNoSandbox ? { kind: 'none' } : jailOf(options, settings.sandboxUidBase);
  const dotnet = jail.kind === 'refused' ? new RefusingCodeHost(jail.reason) : new DotnetCodeHost({ ...options, jail });
  const jailed = describeJail(jail);
  const landlock = jail.kind === 'jailed' ? jail.landlock : 0;
  logger[jail.kind === 'jailed' ? 'debug' : 'warn']({ jail: jail.kind, ...(landlock > 0 && { landlock }) }, jailed);
  const codeHost = tracedCodeHost(decorate.codeHost?.(dotnet) ?? dotnet, tracing.tracer);
  shutdown.add('code host', () => codeHost.close());
  metrics.watch('code_host_landlock_version', () => landlock);
  metrics.watch('runners', () => dotnet.runners.runners);
  metrics.watch('runners_waiting', () => dotnet.runners.waiting);
  metrics.watch('runners_resident_bytes', () => dotnet.runners.residentBytes);
  return { codeHost, jailed, refused: jail.kind === 'refused', jail, start: () => dotnet.start() };
}
