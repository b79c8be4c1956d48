import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Directory of the package that the running code was built from: the nearest one above that holds `package-lock.json`. */
export function findProjectRoot(): string {
  const start = dirname(fileURLToPath(import.meta.url));
  for (let directory = start; ; directory = dirname(directory)) {
    if (existsSync(join(directory, 'package-lock.json'))) return directory;
    if (dirname(directory) === directory) throw new Error(`no package-lock.json above ${start}`);
  }
}

/** Of the package in that directory. */
export const versionOf = (root: string): string =>
  (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly version: string }).version;
