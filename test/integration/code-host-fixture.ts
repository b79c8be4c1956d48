import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import {
  type CodeHostObserver,
  DotnetCodeHost,
  type DotnetCodeHostOptions,
} from '../../src/code-host/dotnet/dotnet-code-host.js';
import { silentLogger } from '../../src/core/logger.js';
import type { FoldItem } from '../../src/code-host/code-host.js';
import { event, noState } from '../contracts/code-host.contract.js';

/** The checkout, wherever the tests were compiled to. */
export const projectRoot = (() => {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return folder;
})();

export const HOST = {
  dotnet: 'dotnet',
  searchPath: process.env['PATH'] ?? '',
  assembliesDir: process.env['STATEFOLD_TEST_DOTNET'] ?? join(projectRoot, 'dist', 'dotnet'),
};

export interface Process {
  readonly role: string;
  readonly tenantId: string | undefined;
  readonly pid: number;
  reason: string | undefined;
}

export interface Fixture {
  readonly host: DotnetCodeHost;
  /** In the order in which they started. */
  readonly processes: Process[];
  readonly strikes: string[];
  /** The most runners that there were at once. */
  readonly mostRunners: number;
  readonly close: () => Promise<void>;
}

export function openHost(options: Partial<DotnetCodeHostOptions> = {}): Fixture {
  const workDir = mkdtempSync(join(tmpdir(), 'statefold-code-host-'));
  const processes: Process[] = [];
  const strikes: string[] = [];
  let mostRunners = 0;
  const observer: CodeHostObserver = {
    onProcessStart: (started) => {
      processes.push({ ...started, reason: undefined });
      mostRunners = Math.max(
        mostRunners,
        processes.filter(({ role, reason }) => role === 'runner' && reason === undefined).length,
      );
    },
    onProcessEnd: ({ pid, reason }) => {
      const process = processes.find((candidate) => candidate.pid === pid);
      if (process !== undefined) process.reason = reason;
    },
    onStrike: ({ className, message }) => strikes.push(`${className}: ${message}`),
  };
  const host = new DotnetCodeHost({
    ...HOST,
    workDir,
    logger: silentLogger,
    observer,
    // Else how many there are hangs on what other tests do meanwhile.
    compilersGiveWay: false,
    ...options,
  });
  const close = async (): Promise<void> => {
    await host.close();
    rmSync(workDir, { recursive: true, force: true });
  };
  return {
    host,
    processes,
    strikes,
    get mostRunners() {
      return mostRunners;
    },
    close,
  };
}

export const UNIT = { artefactId: 'artefact', className: 'Test.SumReducer' };

/** Events of these types, to be folded by the unit. */
export const item = (
  aggregateId: string,
  types: readonly string[],
  baseVersion = 0,
  baseState: FoldItem['baseState'] = noState,
): FoldItem => ({
  unit: UNIT,
  aggregateId,
  baseVersion,
  baseState,
  events: types.map((type, i) => event(aggregateId, baseVersion + i + 1, type)),
  stateAt: [],
});
