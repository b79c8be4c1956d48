import { join } from 'node:path';
import type { Clock } from '../../core/clock.js';
import type { Logger } from '../../core/logger.js';
import type { DeterminismChecks } from './compile-codec.js';
import { ExchangeMarks } from './exchange-marks.js';
import { KeptCompilations } from './kept-compilations.js';
import { jailOf, type LaunchOptions, type Role } from '../../jail/launch.js';

export interface DotnetCodeHostOptions extends LaunchOptions {
  /** The working directory of the children: an empty one. */
  readonly workDir: string;
  /** Where it is remembered what large answer is being worked off, over the end of this process; unless given, nowhere. */
  readonly marksDir?: string;
  /** A request of several events (or what its events may take each, if that is less); past it the events are tried one by one. */
  readonly batchDeadlineMs?: number;
  /** A single event; past it the event is a fault of its aggregate or key. */
  readonly eventDeadlineMs?: number;
  readonly compileDeadlineMs?: number;
  /** A folder that keeps what compilations gave, for the same sources of the same tenant; unless given, nothing is kept. */
  readonly compilationsDir?: string | undefined;
  /** `error` unless given. */
  readonly determinismChecks?: DeterminismChecks;
  /** From the start of a process to its first word. */
  readonly startDeadlineMs?: number;
  /** Managed heap of a runner. */
  readonly heapLimitBytes?: number;
  readonly compilerHeapLimitBytes?: number;
  readonly compilerMaxResidentBytes?: number;
  /** Compilers at once; those past the warm ones start when they are needed. */
  readonly compilers?: number;
  /** Of these, those that `start` starts. */
  readonly compilersWarm?: number;
  /** Compilers have what others leave of the processors, where there are several; unless given, they do. */
  readonly compilersGiveWay?: boolean;
  /** How far the runner of a tenant gives way to others; unless given, none does. */
  readonly runnerNiceness?: (tenantId: string) => number | undefined;
  /** Resident memory and threads of one runner; past either it is killed. */
  readonly maxResidentBytes?: number;
  readonly maxThreads?: number;
  /** Processor time of one runner beside its work, which grows back; past it it is killed. 0: as much as it takes. */
  readonly spareProcessorMs?: number;
  /** A runner that nobody has called for so long is stopped. */
  readonly idleMs?: number;
  /** Runners at once, and the resident memory of all together: the longest idle one is stopped for another. */
  readonly maxRunners?: number;
  readonly maxRunnersBytes?: number;
  /** Runners that are being started at once. */
  readonly startsAtOnce?: number;
  /** While others wait, a runner that always has work is stopped after so long. */
  readonly turnMs?: number;
  /** How often it is looked what they take. */
  readonly pollMs?: number;
  /** Bounds of a runner's cache of typed states. */
  readonly cacheEntries?: number;
  readonly cacheBytes?: number;
  /** One state as JSON. */
  readonly maxStateBytes?: number;
  readonly logger: Logger;
  readonly clock?: Clock;
  readonly observer?: CodeHostObserver;
}

export interface Strike {
  readonly tenantId: string;
  readonly artefactId: string;
  /** What is struck: a reducer's artefact, or the revision of a projection. */
  readonly unitId: string;
  readonly className: string;
  readonly message: string;
}

export interface CodeHostObserver {
  onProcessStart?(process: { readonly role: Role; readonly tenantId: string | undefined; readonly pid: number }): void;
  onProcessEnd?(process: {
    readonly role: Role;
    readonly tenantId: string | undefined;
    readonly pid: number | undefined;
    readonly reason: string;
  }): void;
  /** A process was killed for what it took. */
  onExceeded?(process: { readonly role: Role; readonly tenantId: string | undefined; readonly reason: string }): void;
  /** Code of which it is known that what it answers ends the service: resolves when nobody runs it any more. */
  halt?(strike: Strike): Promise<void>;
  /** An event that alone ended its process or overran a limit; or an artefact that did over several events. */
  onStrike?(strike: Strike): void;
}

export type ResolvedOptions = Required<Omit<DotnetCodeHostOptions, 'observer' | 'marksDir' | 'compilationsDir'>> & {
  readonly observer: CodeHostObserver;
  readonly marks: ExchangeMarks | undefined;
  readonly kept: KeptCompilations | undefined;
};

const MIB = 1024 * 1024;

export const resolveOptions = (options: DotnetCodeHostOptions): ResolvedOptions => ({
  batchDeadlineMs: 10_000,
  eventDeadlineMs: 1_000,
  compileDeadlineMs: 30_000,
  determinismChecks: 'error',
  startDeadlineMs: 30_000,
  heapLimitBytes: 256 * MIB,
  compilerHeapLimitBytes: 512 * MIB,
  compilerMaxResidentBytes: 1024 * MIB,
  compilers: 2,
  compilersWarm: 1,
  compilersGiveWay: true,
  maxResidentBytes: 384 * MIB,
  maxThreads: 128,
  spareProcessorMs: 3000,
  idleMs: 60_000,
  maxRunners: 64,
  maxRunnersBytes: 4096 * MIB,
  startsAtOnce: 4,
  turnMs: 500,
  runnerNiceness: () => undefined,
  pollMs: 200,
  cacheEntries: 100_000,
  cacheBytes: 64 * MIB,
  maxStateBytes: MIB,
  clock: { now: () => Date.now() },
  observer: {},
  ...options,
  marks: options.marksDir === undefined ? undefined : new ExchangeMarks(options.marksDir, options.logger),
  kept: keptBy(options),
  jail: options.jail ?? jailOf(options),
});

function keptBy({
  compilationsDir,
  assembliesDir,
  determinismChecks = 'error',
  logger,
}: DotnetCodeHostOptions): KeptCompilations | undefined {
  if (compilationsDir === undefined) return undefined;
  const compilerDirectory = join(assembliesDir, 'compiler');
  return new KeptCompilations({ directory: compilationsDir, compilerDirectory, determinismChecks, logger });
}
