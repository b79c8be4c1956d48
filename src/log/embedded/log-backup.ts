import { open } from 'lmdb';

/**
 * Copies the embedded log in `from` into the empty folder `to`, as of one moment: all that was acknowledged before the call is in
 * it, and of what is written meanwhile a prefix. The process that writes the log goes on meanwhile, and needn't know; it need not
 * run either. The copy leaves out what lmdb holds free.
 * @throws Error when the copy could not be written, or what is in `from` not be read
 */
export async function copyLog(from: string, to: string): Promise<void> {
  const source = open({
    path: from,
    encoding: 'binary',
    keyEncoding: 'binary',
    noSubdir: false,
    maxDbs: 4,
    readOnly: true,
  });
  try {
    await source.backup(to, true);
  } finally {
    await source.close();
  }
}
