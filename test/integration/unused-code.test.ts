// Code that nothing names any more leaves the log.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { ARTEFACTS_TOPIC } from '../../src/catalog/artefacts.js';
import { deleteTenant } from '../../src/catalog/tenants.js';
import type { FencedCatalog } from '../../src/catalog/fenced-catalog.js';
import type { CodeHost, CompileResult } from '../../src/code-host/code-host.js';
import { ForgottenCodeError } from '../../src/code-host/tenant-code.js';
import { NotOwnerError, StatefoldError } from '../../src/core/errors.js';
import { silentLogger } from '../../src/core/logger.js';
import { CodeBytes } from '../../src/deployments/code-bytes.js';
import { DeploymentService } from '../../src/deployments/deployment-service.js';
import { tenantDefinitions } from '../../src/deployments/tenant-definitions.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import type { ProjectionLife } from '../../src/projections/projections.js';
import { openCatalog, putTenant } from '../support/ground.js';
import { temporaryDirectory, until } from '../support/service.js';

const TENANT = 't';
const MIB = 1024 * 1024;
const SOURCES = [{ path: 'A.cs', text: 'public class A;' }];
const COMPILED = {
  ok: true,
  assembly: Buffer.from('assembly'),
  stateTypes: Buffer.from('types'),
  discovered: [],
  diagnostics: [],
} as unknown as CompileResult;
const FAILED: CompileResult = { ok: false, compilationError: 'it does not', diagnostics: [] };

class World {
  result = FAILED;
  /** What compilations wait for. */
  gate: Promise<void> = Promise.resolve();
  life: ProjectionLife | undefined = {
    live: undefined,
    building: undefined,
    kept: [],
    past: [],
    erasedSinceBuild: false,
  };

  constructor(
    readonly log: LmdbLog,
    readonly catalog: FencedCatalog,
  ) {}

  static async open(t: TestContext): Promise<World & { readonly deployments: DeploymentService }> {
    const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log') });
    t.after(() => log.close());
    const world = new World(log, await openCatalog(t, log, 'owner'));
    const { catalog } = world;
    await putTenant(catalog, TENANT);
    const compile: CodeHost['compile'] = async ({ sources }) => {
      if (typeof sources === 'function') await sources();
      await world.gate;
      return world.result;
    };
    const deployments = new DeploymentService({
      catalog,
      codeHost: { compile } as CodeHost,
      endpoints: { activeSecret: () => undefined, removeOf: () => Promise.resolve() } as never,
      projectionsOf: () =>
        world.life === undefined
          ? Promise.reject(new NotOwnerError())
          : Promise.resolve({ life: () => world.life as ProjectionLife, onLive: () => () => undefined }),
      serves: () => true,
      checkWaitMs: 1_000,
      clock: { now: () => Date.now() },
      logger: silentLogger,
      retry: { first: 10, last: 20 },
    });
    t.after(() => deployments.close());
    return Object.assign(world, { deployments });
  }

  /** Names of what is in the log of code: an artefact's id and part. */
  async code(): Promise<readonly string[]> {
    const of = { topic: ARTEFACTS_TOPIC, partition: 0 };
    const there = new Set<string>();
    for (let from = 0, end = await this.log.endOffset(of); from < end;) {
      const page = await this.log.read(of, from, MIB);
      for (const { key, value, offset } of page.records) {
        const name = key.toString().split('/').slice(0, 2).join('/');
        if (value === null) there.delete(name);
        else there.add(name);
        from = offset + 1;
      }
    }
    return [...there];
  }

  async settled(deployments: DeploymentService): Promise<void> {
    await until(() => deployments.pendingUploads(TENANT) === 0);
  }
}

test('all code of a projection that is deleted leaves the log, that of its revisions too', async (t) => {
  const world = await World.open(t);
  const { deployments } = world;
  world.result = COMPILED;
  const { projection } = await deployments.uploadProjection(TENANT, SOURCES, undefined, undefined);
  await world.settled(deployments);
  await deployments.uploadProjection(TENANT, SOURCES, undefined, projection.projectionId);
  await world.settled(deployments);
  assert.equal((await world.code()).length, 6, 'sources, types and assembly of both');
  await deployments.deleteProjection(TENANT, projection.projectionId);
  await until(async () => (await world.code()).length === 0);
});

test('all code of a tenant that is deleted leaves the log', async (t) => {
  const world = await World.open(t);
  const { deployments } = world;
  const { projection } = await deployments.uploadProjection(TENANT, SOURCES, undefined, undefined);
  await deployments.uploadProjection(TENANT, SOURCES, undefined, projection.projectionId);
  await deployments.uploadReducer(TENANT, SOURCES);
  await world.settled(deployments);
  assert.equal((await world.code()).length, 3);
  await deleteTenant(world.catalog, TENANT, () => Promise.resolve());
  await until(async () => (await world.code()).length === 0);
});

test('the code of revisions that are forgotten leaves the log; what is live stays, and is remembered', async (t) => {
  const world = await World.open(t);
  const { deployments, catalog } = world;
  world.result = COMPILED;
  const { projection } = await deployments.uploadProjection(TENANT, SOURCES, undefined, undefined);
  await world.settled(deployments);
  const { projectionId, artefactId } = projection;
  world.life = { ...(world.life as ProjectionLife), live: { revision: 1, artefactId } };
  world.result = FAILED;
  for (let i = 0; i < 60; i++) {
    await deployments.uploadProjection(TENANT, SOURCES, undefined, projectionId);
    await world.settled(deployments);
  }
  const named = (): string[] => {
    const { value } = catalog.get('projection', projectionId) as NonNullable<
      ReturnType<typeof catalog.get<'projection'>>
    >;
    return [value, ...(value.earlier ?? [])].map((one) => one.artefactId);
  };
  assert.equal(named().length, 51);
  await until(async () => (await world.code()).filter((name) => name.endsWith('/sources')).length === 51);
  assert.deepEqual(new Set((await world.code()).map((name) => name.split('/')[0])), new Set(named()));
  assert.ok(named().includes(artefactId));
  // Compiled revisions push out compiled ones, and not that either.
  world.result = COMPILED;
  for (let i = 0; i < 60; i++) {
    await deployments.uploadProjection(TENANT, SOURCES, undefined, projectionId);
    await world.settled(deployments);
  }
  assert.ok(named().includes(artefactId));
  await until(async () => (await world.code()).filter((name) => name.endsWith('/sources')).length === 51);
});

test('whoever asks for code that has left the log is told whether it may come yet', async (t) => {
  const world = await World.open(t);
  const { deployments, catalog } = world;
  const definitions = tenantDefinitions(catalog, TENANT);
  const { projection } = await deployments.uploadProjection(TENANT, SOURCES, undefined, undefined);
  await world.settled(deployments);
  const isUnavailable = (error: unknown): boolean => error instanceof StatefoldError && error.code === 'UNAVAILABLE';
  await assert.rejects(
    definitions.assembly(projection.artefactId),
    (error) => isUnavailable(error) && !(error instanceof ForgottenCodeError),
  );
  await deployments.deleteProjection(TENANT, projection.projectionId);
  await assert.rejects(definitions.assembly(projection.artefactId), ForgottenCodeError);
});

test('what was compiled for a projection that was deleted meanwhile leaves the log', async (t) => {
  const world = await World.open(t);
  const { deployments } = world;
  world.result = COMPILED;
  let open: () => void = () => undefined;
  world.gate = new Promise((resolve) => (open = resolve));
  const { projection } = await deployments.uploadProjection(TENANT, SOURCES, undefined, undefined);
  await deployments.deleteProjection(TENANT, projection.projectionId);
  await until(async () => (await world.code()).length === 0);
  open();
  await world.settled(deployments);
  await until(async () => (await world.code()).length === 0);
});

test('an upload that is refused when its sources are kept leaves none', async (t) => {
  const world = await World.open(t);
  const { deployments, catalog } = world;
  const { projection } = await deployments.uploadProjection(TENANT, SOURCES, undefined, undefined);
  await world.settled(deployments);
  const { projectionId } = projection;
  const put = catalog.artefacts.put.bind(catalog.artefacts);
  // It is deleted between the sources and what is to name them.
  catalog.artefacts.put = async (...of): Promise<void> => {
    await put(...of);
    await catalog.remove('projection', projectionId);
  };
  await assert.rejects(
    deployments.uploadProjection(TENANT, SOURCES, undefined, projectionId),
    (error) => error instanceof StatefoldError && error.code === 'NOT_FOUND',
  );
  await until(async () => (await world.code()).length === 0);
});

test('what was deleted counts for an hour, past some megabytes', async (t) => {
  const { catalog } = await World.open(t);
  let now = 0;
  const bytes = new CodeBytes(catalog, () => now);
  const reducer = (codeBytes: number): Parameters<typeof catalog.put<'reducer'>>[3] => ({
    ...{ tenantId: TENANT, reducerId: 'r', artefactId: 'r', status: 'failed', codeBytes },
    createdAt: '2026-01-01T00:00:00.000Z',
  });
  await catalog.put('reducer', 'r', 0, reducer(60 * MIB));
  assert.equal(bytes.of(TENANT), 60 * MIB);
  await catalog.remove('reducer', 'r');
  assert.equal(bytes.of(TENANT), 0, 'who deletes something has the room at once');
  now += 30 * 60_000;
  await catalog.put('reducer', 'r', catalog.versionOf('reducer', 'r'), reducer(60 * MIB));
  await catalog.remove('reducer', 'r');
  assert.equal(bytes.of(TENANT), 56 * MIB, 'who does it again and again has it when the log has');
  now += 31 * 60_000;
  assert.equal(bytes.of(TENANT), 0);
});
