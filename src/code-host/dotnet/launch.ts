import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

export type Role = 'compiler' | 'runner';

export interface LaunchOptions {
  /** A path, or a name that is looked for along `searchPath`. */
  readonly dotnet: string;
  /** Folders as in PATH. */
  readonly searchPath: string;
  /** Holds `compiler/` and `runner/` as `scripts/build-dotnet.mjs` makes them. */
  readonly assembliesDir: string;
}

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const PROGRAMS: Record<Role, string> = { compiler: 'Statefold.Compiler.dll', runner: 'Statefold.Runner.dll' };

/**
 * How a child is started, and the one place to put a jail's launcher in front of its command line. Nothing of the service's own
 * environment goes along: it holds keys.
 */
export function launchOf(role: Role, options: LaunchOptions, heapLimitBytes: number, args: readonly string[] = []): Launch {
  return {
    command: resolveCommand(options),
    args: [join(options.assembliesDir, role, PROGRAMS[role]), ...args],
    env: {
      DOTNET_gcServer: '0',
      DOTNET_gcConcurrent: '0',
      DOTNET_GCHeapHardLimit: `0x${heapLimitBytes.toString(16)}`,
      // No diagnostic ports, no dumps, no second mapping of every page of code.
      DOTNET_EnableDiagnostics: '0',
      DOTNET_DbgEnableMiniDump: '0',
      DOTNET_EnableWriteXorExecute: '0',
      DOTNET_SYSTEM_GLOBALIZATION_INVARIANT: '1',
      TZ: 'UTC',
    },
  };
}

/** The child gets no PATH, so the command is looked up here. */
function resolveCommand({ dotnet, searchPath }: LaunchOptions): string {
  if (dotnet.includes('/')) return dotnet;
  const folder = searchPath.split(delimiter).find((candidate) => candidate !== '' && existsSync(join(candidate, dotnet)));
  return folder === undefined ? dotnet : join(folder, dotnet);
}
