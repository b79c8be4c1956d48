import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { after } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import {
  ClickHouseReadStore,
  type ClickHouseReadStoreOptions,
} from '../../src/read-store/clickhouse/clickhouse-read-store.js';
import { EmbeddedEngine, type EmbeddedEngineOptions } from '../../src/read-store/embedded/embedded-engine.js';
import { jsonLines } from '../support/json-lines.js';

export const SCHEMAS = join(process.cwd(), 'schemas', 'clickhouse');

/** Anything that takes a clean-up: a test's context, or `suiteCleanUp`. */
export interface CleanUp {
  after(work: () => void | Promise<void>): void;
}

/** To be called where a suite is declared: clean-ups that its tests add later run at its end, the last first. */
export function suiteCleanUp(): CleanUp {
  const works: (() => void | Promise<void>)[] = [];
  after(async () => {
    for (const work of works.reverse()) await work();
  });
  return { after: (work) => void works.push(work) };
}

export function temporaryDirectory(cleanUp: CleanUp): string {
  const directory = mkdtempSync(join(tmpdir(), 'statefold-read-store-'));
  cleanUp.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export function startEngine(cleanUp: CleanUp, options: Partial<EmbeddedEngineOptions> = {}): EmbeddedEngine {
  const directory = options.directory ?? temporaryDirectory(cleanUp);
  const engine = new EmbeddedEngine({
    directory,
    port: 0,
    password: undefined,
    memoryLimitBytes: 1024 ** 3,
    logger: silentLogger,
    ...options,
  });
  cleanUp.after(() => engine.stop());
  engine.start();
  return engine;
}

/** One that answers. */
export async function readyEngine(cleanUp: CleanUp): Promise<EmbeddedEngine> {
  const engine = startEngine(cleanUp);
  await engine.ready(60_000);
  return engine;
}

export function openStore(
  cleanUp: CleanUp,
  engine: EmbeddedEngine,
  options: Partial<ClickHouseReadStoreOptions> = {},
): ClickHouseReadStore {
  const store = new ClickHouseReadStore({
    endpoint: () => engine.endpoint(),
    schemaDirectory: SCHEMAS,
    logger: silentLogger,
    ...options,
  });
  cleanUp.after(() => store.close());
  return store;
}

export async function rowsOf<T>(store: ClickHouseReadStore, sql: string): Promise<T[]> {
  let text = '';
  for await (const chunk of await store.query(sql, 'JSONEachRow')) text += String(chunk);
  return jsonLines(text);
}

/** Polls until the condition holds. @throws after the deadline, with what was waited for. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  deadlineMs = 60_000,
): Promise<void> {
  for (const end = Date.now() + deadlineMs; !(await condition()); await delay(20))
    if (Date.now() > end) throw new Error(`${what}: not within ${deadlineMs} ms`);
}
