// What the parts of src/app stand on, in the process of a test: its settings are read as the service reads them, its log is whatever
// the test brings, and no port or folder's lock is taken.
import assert from 'node:assert/strict';
import { PackedSources } from '../../src/code-host/packed-sources.js';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { BoundReducer } from '../../src/aggregates/bindings.js';
import { codeHostOptions } from '../../src/app/open-code-host.js';
import type { TaskGround } from '../../src/app/open-tasks.js';
import { Shutdown } from '../../src/app/shutdown.js';
import { LogArtefactStore } from '../../src/catalog/artefacts.js';
import { FencedCatalog, type FencedCatalogOptions } from '../../src/catalog/fenced-catalog.js';
import type { CompileRequest } from '../../src/code-host/code-host.js';
import { DotnetCodeHost } from '../../src/code-host/dotnet/dotnet-code-host.js';
import { readSettings } from '../../src/config/settings.js';
import { systemClock } from '../../src/core/clock.js';
import { silentLogger } from '../../src/core/logger.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import type { Log } from '../../src/log/log.js';
import { LocalStore } from '../../src/store/local-store.js';
import type { TenantDefinitions } from '../../src/tenancy/task-options.js';
import { compiledOnce, ROOT, temporaryDirectory } from './service.js';

export const codecs = loadCodecs(join(ROOT, 'schemas', 'avro'));
/** A part that needs longer to end than this has failed. */
const END_MS = 30_000;

/** Of a tenant with these bindings. */
export const bindAll =
  (...reducers: readonly BoundReducer[]): TenantDefinitions['bindAll'] =>
  (bind) =>
    Promise.resolve(reducers.forEach((reducer) => bind(reducer)));

/** A tenant that uploaded no code. */
export const NO_CODE: TenantDefinitions = {
  bindAll: bindAll(),
  projections: () => [],
  projectionExists: () => false,
  assembly: () => Promise.reject(new Error('there is no code')),
};

export interface GroundOptions extends Partial<Omit<TaskGround, 'settings' | 'shutdown'>> {
  /** Becomes the data directory; the test removes it. */
  readonly directory: string;
  readonly env?: Readonly<Record<string, string>>;
}

export interface TestGround extends TaskGround {
  /** Ends the parts as the service ends them, and rejects where the service only logs that one did not. */
  close(): Promise<void>;
}

export function testGround({ directory, env, ...given }: GroundOptions): TestGround {
  const logger = given.logger ?? silentLogger;
  const failures: unknown[] = [];
  const shutdown = new Shutdown({ ...logger, error: (...failure) => void failures.push(failure) }, END_MS);
  return {
    settings: readSettings({ STATEFOLD_DATA_DIR: directory, ...env }),
    logger,
    shutdown,
    owner: randomUUID(),
    clock: systemClock,
    metrics: { tasks: {}, snapshots: {} },
    ...given,
    close: async () => {
      await shutdown.close();
      assert.deepEqual(failures, []);
    },
  };
}

/** The catalog as a process of that name has it over the log. Closed with the test. */
export async function openCatalog(
  t: Pick<TestContext, 'after'>,
  log: Log,
  owner: string,
  options: Partial<Pick<FencedCatalogOptions, 'codec' | 'logger' | 'shared' | 'sweepAfter' | 'onStopped'>> = {},
): Promise<FencedCatalog> {
  const artefacts = await LogArtefactStore.open({ log });
  const catalog = await FencedCatalog.open({
    ...{ log, codec: codecs.catalog, artefacts, owner, logger: silentLogger },
    ...options,
  });
  t.after(() => catalog.close());
  return catalog;
}

/** Ended with the ground. */
export function openStore({ settings, logger, shutdown }: TaskGround): LocalStore {
  const store = new LocalStore({ path: join(settings.dataDirectory, 'store'), logger });
  shutdown.add('local store', () => store.close());
  return store;
}

/** Compiles and runs code as the service does, in the jail that this machine has. Ended with the ground. */
export function openRunners({ settings, logger, shutdown }: TaskGround): DotnetCodeHost {
  const codeHost = new DotnetCodeHost({ ...codeHostOptions(settings, ROOT), logger });
  shutdown.add('code host', () => codeHost.close());
  return codeHost;
}

/** The assemblies of one source each, in their order, by a compiler that has ended when they are there, unless the run has them. */
export async function compiled(
  t: Pick<TestContext, 'after'>,
  ...sources: readonly (readonly [kind: CompileRequest['kind'], text: string])[]
): Promise<Buffer[]> {
  const ground = testGround({ directory: temporaryDirectory(t), env: compiledOnce });
  const codeHost = openRunners(ground);
  try {
    return await Promise.all(
      sources.map(async ([kind, text]) => {
        const result = await codeHost.compile({ kind, sources: () => PackedSources.pack([{ path: 'Code.cs', text }]) });
        assert.ok(result.ok, `the code of a test does not compile: ${JSON.stringify(result.diagnostics)}`);
        return result.assembly;
      }),
    );
  } finally {
    await ground.close();
  }
}

/** A tenant of one partition, as an administrator makes it. */
export const putTenant = (catalog: FencedCatalog, tenantId: string): Promise<void> =>
  catalog.put('tenant', tenantId, 0, {
    ...{ tenantId, name: tenantId, createdAt: '2026-01-01T00:00:00.000Z', partitions: 1, webhookSecrets: [] },
  });
