import { closeSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';

/**
 * A key that was made and not shown yet, in clear, in a file of mode 0600 that is gone as soon as it was shown. So a start that ends
 * between the two, by an error or a crash, loses no key: the next start shows it.
 */
export class UnshownKey {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  read(): string | undefined {
    try {
      return readFileSync(this.#path, 'utf8').trim();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** Resolves when it is on disk; a text that a crash cut off is the key of nobody. */
  keep(key: string): void {
    rmSync(this.#path, { force: true });
    const file = openSync(this.#path, 'wx', 0o600);
    try {
      writeSync(file, `${key}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  }

  forget(): void {
    rmSync(this.#path, { force: true });
  }
}
