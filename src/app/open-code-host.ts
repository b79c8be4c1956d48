import { join } from 'node:path';
import { DotnetCodeHost, type DotnetCodeHostOptions } from '../code-host/dotnet/dotnet-code-host.js';
import type { Jail } from '../code-host/dotnet/jail.js';
import { jailOf, requireDotnet } from '../code-host/dotnet/launch.js';
import { RefusingCodeHost } from '../code-host/dotnet/refusing-code-host.js';
import type { Settings } from '../config/settings.js';

/** What the settings say of the processes that compile and run uploaded code. `root`: where the service is installed. */
export const codeHostOptions = (
  settings: Settings,
  root: string,
): Omit<DotnetCodeHostOptions, 'logger' | 'observer'> => ({
  dotnet: 'dotnet',
  searchPath: process.env['PATH'] ?? '',
  assembliesDir: join(root, 'dist', 'dotnet'),
  workDir: join(settings.dataDirectory, 'work'),
  batchDeadlineMs: settings.runnerBatchDeadlineMs,
  eventDeadlineMs: settings.runnerEventDeadlineMs,
  compileDeadlineMs: settings.compileDeadlineMs,
  determinismChecks: settings.determinismChecks,
  compilers: settings.compilers,
  compilerHeapLimitBytes: settings.compilerHeapLimitBytes,
  compilerMaxResidentBytes: 2 * settings.compilerHeapLimitBytes,
  heapLimitBytes: settings.runnerHeapLimitBytes,
  maxResidentBytes: settings.runnerMemoryLimitBytes,
  maxThreads: settings.runnerMaxThreads,
  idleMs: settings.runnerIdleMs,
  maxRunners: settings.runnersMax,
  maxRunnersBytes: settings.runnersMemoryBytes,
  maxStateBytes: settings.maxStateBytes,
});

/** Runs uploaded code in the jail that this machine has; refuses to where there is none, unless the settings say that it may run without. @throws StartupError without .NET */
export function openCodeHost(
  settings: Settings,
  options: DotnetCodeHostOptions,
): { codeHost: DotnetCodeHost | RefusingCodeHost; jail: Jail } {
  // What only forwards requests compiles and runs nothing.
  if (settings.roles.includes('tasks')) requireDotnet(options);
  const jail: Jail = settings.unsafeNoSandbox ? { kind: 'none' } : jailOf(options, settings.sandboxUidBase);
  return {
    codeHost: jail.kind === 'refused' ? new RefusingCodeHost(jail.reason) : new DotnetCodeHost({ ...options, jail }),
    jail,
  };
}
