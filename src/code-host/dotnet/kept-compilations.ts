import { createHash, hash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DAY_MS } from '../../core/clock.js';
import type { Logger } from '../../core/logger.js';
import type { CompileRequest, CompileResult } from '../code-host.js';
import type { PackedSources } from '../packed-sources.js';
import { type DeterminismChecks, decodeCompiled } from './compile-codec.js';

export interface KeptCompilationsOptions {
  /** Made when it is missing. Several processes may share it. */
  readonly directory: string;
  /** The compiler's own files: another compiler's answers are never taken for its. */
  readonly compilerDirectory: string;
  readonly determinismChecks: DeterminismChecks;
  readonly logger: Logger;
}

/** Of what is in a file; a change here makes all of them void. */
const FORMAT = 1;
const SUM_BYTES = 32;
/** What nobody asked for in so long is removed. */
const UNUSED_MS = 30 * DAY_MS;

/**
 * What the compiler answered, in files: the same sources in the same order are not compiled again. Each tenant has its own, so
 * that none learns from the time of an upload what another has uploaded, or gets what was made of another's. A file that can't
 * be read, or is not whole, is none; one that can't be written is told of.
 */
export class KeptCompilations {
  readonly #options: KeptCompilationsOptions;
  #opening: Promise<string> | undefined;

  constructor(options: KeptCompilationsOptions) {
    this.#options = options;
  }

  async keyOf(
    { tenantId, kind }: Pick<CompileRequest, 'tenantId' | 'kind'>,
    sources: PackedSources,
  ): Promise<string> {
    this.#opening ??= this.#open();
    const asked = JSON.stringify([await this.#opening, tenantId ?? null, kind]);
    return createHash('sha256').update(asked).update(sources.bytes).digest('hex');
  }

  async find(key: string, kind: CompileRequest['kind']): Promise<CompileResult | undefined> {
    const path = this.#pathOf(key);
    try {
      const bytes = await readFile(path);
      const payload = bytes.subarray(SUM_BYTES);
      if (!sumOf(payload).equals(bytes.subarray(0, SUM_BYTES))) return undefined;
      const result = decodeCompiled(payload, kind);
      await this.#used(path);
      return result;
    } catch {
      return undefined;
    }
  }

  /** Keeps the payload of the compiler's answer. Resolves in any case. */
  async keep(key: string, payload: Buffer): Promise<void> {
    const path = this.#pathOf(key);
    const fresh = `${path}.${randomUUID()}`;
    try {
      await writeFile(fresh, Buffer.concat([sumOf(payload), payload]), { mode: 0o600 });
      await rename(fresh, path);
    } catch (err) {
      this.#options.logger.warn({ err, path }, 'A compilation could not be kept; the same code is compiled again');
      await rm(fresh, { force: true }).catch(() => undefined);
    }
  }

  #pathOf(key: string): string {
    return join(this.#options.directory, key);
  }

  async #open(): Promise<string> {
    const { directory, compilerDirectory, determinismChecks, logger } = this.#options;
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      await this.#removeUnused();
    } catch (err) {
      logger.warn({ err, directory }, 'The folder of kept compilations can not be used');
    }
    const files: unknown[] = [];
    for (const name of (await readdir(compilerDirectory, { recursive: true })).sort()) {
      const { size, mtimeMs } = await stat(join(compilerDirectory, name));
      files.push([name, size, mtimeMs]);
    }
    return sumOf(JSON.stringify([FORMAT, determinismChecks, files])).toString('hex');
  }

  async #removeUnused(): Promise<void> {
    const { directory } = this.#options;
    for (const name of await readdir(directory)) {
      const path = join(directory, name);
      // Another process may have removed it already.
      const unusedMs = await stat(path).then(
        ({ mtimeMs }) => Date.now() - mtimeMs,
        () => 0,
      );
      if (unusedMs > UNUSED_MS) await rm(path, { force: true });
    }
  }

  async #used(path: string): Promise<void> {
    const { mtimeMs } = await stat(path);
    const now = new Date();
    if (now.getTime() - mtimeMs > DAY_MS) await utimes(path, now, now);
  }
}

const sumOf = (bytes: Buffer | string): Buffer => hash('sha256', bytes, 'buffer');
