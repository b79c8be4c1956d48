import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { JailUsers } from './jail-users.js';

/** How the processes of tenants' code are kept from everything else. */
export type Jail =
  | {
      readonly kind: 'jailed';
      /** Version of the kernel's landlock; from 4 on it refuses TCP too, from 6 on signals and abstract sockets. */
      readonly landlock: number;
      /** Each process is a user of its own; undefined: they run as the service's user, without its capabilities. */
      readonly users: JailUsers | undefined;
      /** Why they do. */
      readonly sharedUserReason: string | undefined;
    }
  /** Told to run code without a jail. */
  | { readonly kind: 'none' }
  /** Here is no jail, so no code runs. */
  | { readonly kind: 'refused'; readonly reason: string };

export interface JailLimits {
  /** Memory of its own that it may write to. */
  readonly dataBytes: number;
  /** All its addresses, most of which stay reserved only. */
  readonly addressBytes: number;
  /** Of its user, so only where each process has one of its own. */
  readonly threads: number;
}

export interface JailOptions {
  readonly dotnetPath: string;
  readonly assembliesDir: string;
  readonly env: Readonly<Record<string, string>>;
  readonly limits: JailLimits;
  /** The first user id of those that the processes may have, when the service is root; 0: they keep its user. */
  readonly uidBase: number;
}

const LAUNCHER = 'Statefold.Launcher.dll';
/** Exit codes of the launcher. */
const NO_LANDLOCK = 70;
const CHECK_MS = 60_000;
export const DEFAULT_UID_BASE = 1_900_000_000;

const launcherOf = (assembliesDir: string): string => join(assembliesDir, 'launcher', LAUNCHER);

/** What comes between `dotnet` and a program's assembly on a jailed command line. `isSpare`: it has what others leave of the processors. */
export function launcherArguments(
  assembliesDir: string,
  user: number | undefined,
  limits: JailLimits,
  isSpare = false,
): string[] {
  return [launcherOf(assembliesDir), isSpare ? 'spare' : 'run', ...argumentsOf(user, limits)];
}

/** What a database engine may do in the jail that runs other people's statements on it: read what it is given, and change one folder. */
export interface EngineJail extends JailLimits {
  /** Where it works: all that it can change. */
  readonly folder: string;
  /** Most bytes of one file. */
  readonly fileBytes: number;
  /** Files and folders that it may read, beside libraries of the system. */
  readonly readable: readonly string[];
}

/** What comes between `dotnet` and the path of a program on the command line of a jailed engine. */
export function engineArguments(
  assembliesDir: string,
  { folder, fileBytes, readable, ...limits }: EngineJail,
): string[] {
  return [
    launcherOf(assembliesDir),
    'engine',
    // The service's own user: the folder, and the files that it reads, are open to nobody else.
    ...argumentsOf(undefined, limits),
    folder,
    String(fileBytes),
    readable.join('\n'),
  ];
}

const argumentsOf = (user: number | undefined, { dataBytes, addressBytes, threads }: JailLimits): string[] =>
  [user ?? '-', dataBytes, addressBytes, threads].map(String);

const known = new Map<string, Jail>();

/** Finds out, by one start of the launcher, whether this machine has what the jail is made of. Asked once a process. */
export function detectJail(options: JailOptions): Jail {
  const key = JSON.stringify([options.dotnetPath, options.assembliesDir, options.uidBase]);
  let jail = known.get(key);
  if (jail === undefined) known.set(key, (jail = detect(options)));
  return jail;
}

function detect(options: JailOptions): Jail {
  if (process.platform !== 'linux') return refused(`${process.platform} has no landlock`);
  if (process.arch !== 'x64' && process.arch !== 'arm64')
    return refused(`the jail is not made for ${process.arch} processors`);
  const users =
    process.geteuid?.() === 0 && options.uidBase > 0
      ? JailUsers.open(options.uidBase, readFileSync('/proc/self/uid_map', 'utf8'))
      : undefined;
  let sharedUserReason: string | undefined;
  if (users !== undefined) {
    const checked = check(options, users.first);
    if ('landlock' in checked) return { kind: 'jailed', landlock: checked.landlock, users, sharedUserReason };
    if (checked.noLandlock) return refused(checked.reason);
    sharedUserReason = `another user can't start it here (${checked.reason}); is every folder above ${dirname(options.dotnetPath)} and ${options.assembliesDir} open to all users?`;
  }
  const checked = check(options, undefined);
  return 'landlock' in checked
    ? { kind: 'jailed', landlock: checked.landlock, users: undefined, sharedUserReason }
    : refused(checked.reason);
}

function check(
  { dotnetPath, assembliesDir, env, limits }: JailOptions,
  user: number | undefined,
): { landlock: number } | { noLandlock: boolean; reason: string } {
  const launcher = launcherOf(assembliesDir);
  const args = [launcher, 'check', ...argumentsOf(user, limits), launcher, 'inmate'];
  const { error, status, signal, stdout, stderr } = spawnSync(dotnetPath, args, {
    env: { ...env },
    cwd: '/',
    encoding: 'utf8',
    timeout: CHECK_MS,
    killSignal: 'SIGKILL',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const landlock = Number(/^landlock (\d+)$/m.exec(stdout ?? '')?.[1] ?? 0);
  if (status === 0 && landlock > 0) return { landlock };
  const said = (stderr ?? '')
    .split('\n')
    .find((line) => line !== '')
    ?.replace(/^jail: /, '');
  return {
    noLandlock: status === NO_LANDLOCK,
    reason: said ?? error?.message ?? `the launcher ended with ${signal ?? status ?? 'nothing'}`,
  };
}

const refused = (reason: string): Jail => ({ kind: 'refused', reason });

/** What a client reads where code would have to run. */
export const refusalOf = (reason: string): string =>
  `No uploaded code is run here, because it could not be jailed (${reason}): use Linux 5.13 or newer with landlock on, or start the service with --unsafe-no-sandbox (UNSAFE_NO_SANDBOX=true) if you trust everyone who can upload.`;

/** One line for whoever starts the service. */
export function describeJail(jail: Jail): string {
  if (jail.kind === 'refused') return refusalOf(jail.reason);
  if (jail.kind === 'none') return 'Uploaded code is NOT jailed (UNSAFE_NO_SANDBOX): it can do what this user can do.';
  const user =
    jail.users === undefined
      ? `as this user${jail.sharedUserReason === undefined ? '' : `, because ${jail.sharedUserReason}`}`
      : `each as a user of its own from ${jail.users.first}`;
  return `Uploaded code is jailed (landlock ${jail.landlock}, seccomp), ${user}.`;
}
