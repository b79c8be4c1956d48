/** The process can't start as it was told to. The message, in sentences, says what to do about it. */
export class StartupError extends Error {
  override readonly name: string = 'StartupError';
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException | undefined)?.code;

/** Why a port could not be taken, and what to do. `setting`: the environment variable that it came from. */
export function listenFailure(error: Error, setting: string, host: string, port: number): Error {
  const sentence = listenSentence(codeOf(error), setting, host, port);
  return sentence === undefined ? error : new StartupError(sentence, { cause: error });
}

function listenSentence(code: string | undefined, setting: string, host: string, port: number): string | undefined {
  switch (code) {
    case 'EADDRINUSE':
      return `Port ${port} of ${host} is taken by another program: end that one, or set ${setting} to another port (0 takes a free one).`;
    case 'EACCES':
      return `This user may not listen on port ${port}: set ${setting} to a port from 1024 on, or allow it with the capability CAP_NET_BIND_SERVICE.`;
    case 'EADDRNOTAVAIL':
    case 'EINVAL':
      return `${host} is no address of this machine: set HOST to one that is, to 127.0.0.1, or to 0.0.0.0 for all.`;
    case 'EAFNOSUPPORT':
      return `This machine has no addresses of the kind of ${host}: set HOST to 127.0.0.1, or to 0.0.0.0 for all.`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `The name ${host} has no address: set HOST to an address of this machine, to 127.0.0.1, or to 0.0.0.0 for all.`;
    default:
      return undefined;
  }
}

/** Why a file or folder of the data directory could not be used, and what to do. */
export function dataFailure(error: unknown, path: string, directory: string): StartupError | undefined {
  const other = 'or choose another STATEFOLD_DATA_DIR';
  const owner = process.getuid === undefined ? 'this user' : `this user (uid ${process.getuid()})`;
  switch (codeOf(error)) {
    case 'EEXIST':
    case 'ENOTDIR':
      return new StartupError(
        `The data directory ${directory} can't be made, because a file has that name or is above it: remove the file, ${other}.`,
        { cause: error },
      );
    case 'EACCES':
    case 'EPERM':
      return new StartupError(
        `${path} can't be read and written by ${owner}: start the service as the user whom it belongs to, give it to this one (chown -R), ${other}.`,
        { cause: error },
      );
    case 'EROFS':
      return new StartupError(
        `The data directory ${directory} is on a file system that can only be read: make it writable, ${other}.`,
        { cause: error },
      );
    case 'ENOSPC':
    case 'EDQUOT':
      return new StartupError(`There is no space left for the data directory ${directory}: make room, ${other}.`, {
        cause: error,
      });
    case 'ENOENT':
    case 'ENAMETOOLONG':
    case 'ELOOP':
      return new StartupError(
        `The data directory ${directory} can't be made there (${codeOf(error) ?? ''}): choose another STATEFOLD_DATA_DIR.`,
        { cause: error },
      );
    case 'EMFILE':
    case 'ENFILE':
      return new StartupError(
        'This process may not open so many files: raise the limit (ulimit -n), and start it again.',
        { cause: error },
      );
    default:
      return undefined;
  }
}
