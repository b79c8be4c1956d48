import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { StatefoldError } from '../core/errors.js';
import { BEHIND } from '../core/priority.js';
import { StartupError } from '../core/startup-error.js';
import type { Program } from './fork-server.js';
import {
  DEFAULT_UID_BASE,
  detectJail,
  engineArguments,
  type EngineJail,
  type Jail,
  type JailLimits,
  launcherArguments,
  refusalOf,
} from './jail.js';

export type Role = 'compiler' | 'runner';

export interface LaunchOptions {
  /** A path, or a name that is looked for along `searchPath`. */
  readonly dotnet: string;
  /** Folders as in PATH. */
  readonly searchPath: string;
  /** Holds `launcher/`, `compiler/` and `runner/` as `scripts/build-dotnet.mjs` makes them. */
  readonly assembliesDir: string;
  /** Of one process. It is told to the kernel with some to spare, so that whoever watches it sees the excess. */
  readonly maxThreads?: number;
  /** Unless given, the machine is asked for one. */
  readonly jail?: Jail;
}

export interface Launch extends Program {
  /** To be called once the process has ended. */
  readonly release: () => void;
}

const PROGRAMS: Record<Role, string> = { compiler: 'Statefold.Compiler.dll', runner: 'Statefold.Runner.dll' };
/** Who waits for a compilation waits for seconds; who waits for a fold waits for the answer to an append. */
const NICENESS: Record<Role, number | undefined> = { compiler: BEHIND, runner: undefined };
const MIB = 1024 * 1024;
const CHECKED_HEAP = 64 * MIB;
const SPARE_THREADS = 64;
/** Past the managed heap: the runtime itself, compiled code, and the stacks of threads. */
const DATA_BEYOND_HEAP = 384 * MIB;
/**
 * The runtime reserves five times the heap, and some 850 MiB for code and itself, the compiler's. What is left then is the most that
 * code can map as shared before whoever watches it has seen that: no other limit of the kernel counts it.
 */
const limitsOf = (heapLimitBytes: number, maxThreads = 128): JailLimits => ({
  dataBytes: heapLimitBytes + DATA_BEYOND_HEAP,
  addressBytes: 5 * heapLimitBytes + 1536 * MIB,
  threads: maxThreads + SPARE_THREADS,
});

/**
 * How a child is started: through the launcher, which jails itself and becomes the program. Nothing of the service's own
 * environment goes along: it holds keys. `isSpare`: it has a processor while nothing else wants it, where there are several and a launcher.
 *
 * @throws StatefoldError UNAVAILABLE when there is no jail
 */
export function launchOf(
  role: Role,
  options: LaunchOptions,
  heapLimitBytes: number,
  args: readonly string[] = [],
  isSpare = false,
): Launch {
  const { assembliesDir, jail = jailOf(options) } = options;
  if (jail.kind === 'refused') throw new StatefoldError('UNAVAILABLE', refusalOf(jail.reason));
  const command = resolveCommand(options);
  const env = { ...environment(heapLimitBytes), ...ENVIRONMENT[role] };
  const program = [join(assembliesDir, role, PROGRAMS[role]), ...args];
  const niceness = NICENESS[role];
  if (jail.kind === 'none') return { command, args: program, env, niceness, release: () => undefined };
  const user = jail.users?.take();
  const release = (): void => {
    if (user !== undefined) jail.users?.release(user);
  };
  return {
    command,
    args: [
      ...launcherArguments(assembliesDir, user, limitsOf(heapLimitBytes, options.maxThreads), isSpare),
      ...program,
    ],
    env,
    niceness,
    isGrouped: true,
    release,
  };
}

/** How a database engine is started in the jail: `program` is a path, `args` follow its name. Its environment is made anew. */
export function launchOfEngine(
  options: Pick<LaunchOptions, 'dotnet' | 'searchPath' | 'assembliesDir'>,
  jail: EngineJail,
  program: string,
  args: readonly string[],
): Program {
  return {
    command: resolveCommand(options),
    args: [...engineArguments(options.assembliesDir, jail), program, ...args],
    env: environment(CHECKED_HEAP),
    isGrouped: true,
  };
}

/**
 * Without .NET nothing that was uploaded can run, in a jail or not.
 * @throws StartupError
 */
export function requireDotnet(options: LaunchOptions): void {
  const command = resolveCommand(options);
  if (!command.includes('/') || !existsSync(command))
    throw new StartupError(
      `Statefold compiles and runs C# with .NET 10, and \`${options.dotnet}\` is not on the PATH: install the .NET SDK 10 from https://dotnet.microsoft.com/download/dotnet/10.0, or put its folder on the PATH.`,
    );
  if (!existsSync(join(options.assembliesDir, 'launcher')))
    throw new StartupError(
      'The C# hosts are not built yet: run `npm run build` once, with the .NET SDK 10, or start with `npm start`.',
    );
}

/** What this machine has for a jail; found out at the first question, which takes a tenth of a second. */
export const jailOf = (options: LaunchOptions, uidBase = DEFAULT_UID_BASE): Jail =>
  detectJail({
    dotnetPath: resolveCommand(options),
    assembliesDir: options.assembliesDir,
    env: environment(CHECKED_HEAP),
    limits: limitsOf(CHECKED_HEAP),
    uidBase,
  });

const environment = (heapLimitBytes: number): Record<string, string> => ({
  DOTNET_gcServer: '0',
  DOTNET_gcConcurrent: '0',
  DOTNET_GCHeapHardLimit: `0x${heapLimitBytes.toString(16)}`,
  // No diagnostic ports, no dumps, no second mapping of every page of code.
  DOTNET_EnableDiagnostics: '0',
  DOTNET_DbgEnableMiniDump: '0',
  DOTNET_EnableWriteXorExecute: '0',
  DOTNET_SYSTEM_GLOBALIZATION_INVARIANT: '1',
  // Stacks count as data from the start, touched or not.
  DOTNET_DefaultStackSize: (1.5 * MIB).toString(16),
  // Each arena of malloc takes 64 MiB of addresses.
  MALLOC_ARENA_MAX: '2',
  TZ: 'UTC',
});

/**
 * The runtime compiles again, and better, what was called often while nothing new ran for so many ms (in hexadecimal). After a tenth of a
 * second, its default, that would be a quarter of what a compiler takes for a few uploads; after four it is of one that has many.
 */
const ENVIRONMENT: Readonly<Record<Role, Readonly<Record<string, string>>>> = {
  compiler: { DOTNET_TC_CallCountingDelayMs: (4000).toString(16) },
  runner: {},
};

/** The child gets no PATH, so the command is looked up here. */
function resolveCommand({ dotnet, searchPath }: Pick<LaunchOptions, 'dotnet' | 'searchPath'>): string {
  if (dotnet.includes('/')) return dotnet;
  const folder = searchPath
    .split(delimiter)
    .find((candidate) => candidate !== '' && existsSync(join(candidate, dotnet)));
  return folder === undefined ? dotnet : join(folder, dotnet);
}
