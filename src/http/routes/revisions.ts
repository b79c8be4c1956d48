import { z } from 'zod';
import type { ProjectionEntity } from '../../catalog/catalog.js';
import { StatefoldError } from '../../core/errors.js';
import { revisionUnit } from '../../core/ids.js';
import { artefactFault } from '../../deployments/artefact-health.js';
import { historyOf, revisionsOf } from '../../deployments/revisions.js';
import { optionalJson } from '../bodies.js';
import { memoryOf } from '../request-memory.js';
import { answerSources } from '../source-answer.js';
import { requireProjection } from '../../catalog/require.js';
import { component, faulted, integer, Source, text, timestamp, version } from '../schema.js';
import { route, type RouteDependencies } from './dependencies.js';

// The revisions of a projection: which there are, an earlier one again, the live one from the start, one that was halted, and a
// build that is called off.

export const Revision = component(
  'Revision',
  z.strictObject({
    revision: version,
    status: z
      .enum(['compiling', 'failed', 'building', 'live', 'kept', 'cancelled', 'gone'])
      .describe('kept: its states are there, so that it could be live again without a build from the start.'),
    cause: z.enum(['upload', 'rollback', 'rebuild', 'revive']),
    of: version.describe('The revision whose code it has.').optional(),
    artefactId: text,
    createdAt: timestamp,
    uploadedAt: timestamp.describe('When its code was uploaded.'),
    compiledAt: timestamp.optional(),
    compilationError: text.optional(),
    changedKeys: integer.describe('How many keys were other than before when it went live.').optional(),
    faulted: faulted.omit({ revision: true }).optional(),
  }),
);
export type Revision = z.infer<typeof Revision>;
export const RevisionChosen = component(
  'RevisionChosen',
  z.strictObject({
    projectionId: text,
    revision: version,
    of: version,
    artefactId: text,
    status: z.enum(['building', 'live']),
    message: text,
  }),
);
export type RevisionChosen = z.infer<typeof RevisionChosen>;

const Rollback = z.object({ revision: z.int('must be an integer').min(1, 'must be 1 or more').optional() });

const projectionOf = (
  { catalog }: RouteDependencies,
  call: { readonly tenantId: string; parameter(name: 'id'): string },
): ProjectionEntity => requireProjection(catalog, call.tenantId, call.parameter('id'));

const common = { tag: 'Projections', servedBy: 'owner', credentials: 'tenant' } as const;

const listRevisions = route({
  ...common,
  method: 'GET',
  path: '/projections/{id}/revisions',
  scope: 'read',
  operationId: 'listRevisions',
  summary: 'The revisions of a projection, the newest first',
  ofCatalog: true,
  answers: { 200: z.strictObject({ projectionId: text, revisions: z.array(Revision) }) },
  errors: ['NOT_FOUND'],
  serve: async (dependencies, call) => {
    const projection = projectionOf(dependencies, call);
    const { projectionId } = projection;
    const { projections } = await dependencies.tenants.open(call.tenantId);
    const revisions = historyOf(projection, projections.life(projectionId)).map((one) => ({
      ...one,
      faulted: artefactFault(dependencies.catalog, revisionUnit(projectionId, one.revision)),
    }));
    call.answer(200, { projectionId, revisions });
  },
});

const getRevisionSources = route({
  ...common,
  method: 'GET',
  path: '/projections/{id}/revisions/{revision}/sources',
  scope: 'deploy',
  operationId: 'getRevisionSources',
  summary: 'The sources of a revision, as they were uploaded',
  ofCatalog: true,
  answers: { 200: z.strictObject({ projectionId: text, revision: version, files: z.array(Source) }) },
  errors: ['NOT_FOUND'],
  serve: async (dependencies, call) => {
    const projection = projectionOf(dependencies, call);
    const { projectionId } = projection;
    const asked = call.parameter('revision');
    const found = revisionsOf(projection).find(({ revision }) => String(revision) === asked);
    if (found === undefined)
      throw new StatefoldError('NOT_FOUND', `projection ${projectionId} has no revision ${asked} that is remembered`);
    await memoryOf(call.request)?.pageOf(call.response);
    const sources = await dependencies.deployments.uploadedSources(found.artefactId);
    await answerSources(call, { projectionId, revision: found.revision }, sources);
  },
});

const rollbackProjection = route({
  ...common,
  method: 'POST',
  path: '/projections/{id}/rollback',
  scope: 'deploy',
  operationId: 'rollbackProjection',
  summary:
    'Make the code of an earlier revision the live one again: of the last other one that was live, unless one is named',
  body: optionalJson(Rollback, { revision: 3 }),
  answers: { 200: RevisionChosen, 202: RevisionChosen },
  errors: ['NO_EARLIER_REVISION', 'NOT_FOUND', 'QUOTA_EXCEEDED', 'REVISION_NOT_COMPILED'],
  serve: async (dependencies, call) => {
    const { tenantId, projectionId } = projectionOf(dependencies, call);
    const { revision } = await call.body();
    const done = await dependencies.deployments.rollbackProjection(tenantId, projectionId, revision);
    const message =
      done.status === 'live'
        ? `The code of revision ${done.of} is live, as revision ${done.revision}; what was to follow it is called off.`
        : `Revision ${done.revision} has the code of revision ${done.of}. It is live as soon as it is folded to the end: see /projections/${projectionId}/status.`;
    call.answer(done.status === 'live' ? 200 : 202, { ...done, message });
  },
});

const rebuildProjection = route({
  ...common,
  method: 'POST',
  path: '/projections/{id}/rebuild',
  scope: 'deploy',
  operationId: 'rebuildProjection',
  summary: 'Fold the live code again from the start, beside what is live',
  answers: { 202: RevisionChosen },
  errors: ['BUILD_UNDER_WAY', 'NO_EARLIER_REVISION', 'NOT_FOUND', 'PROJECTION_NOT_LIVE', 'QUOTA_EXCEEDED'],
  serve: async (dependencies, call) => {
    const { tenantId, projectionId } = projectionOf(dependencies, call);
    const done = await dependencies.deployments.rebuildProjection(tenantId, projectionId);
    const message = `Revision ${done.revision} folds the code of revision ${done.of} again from the start, beside it, and then takes its place: changedKeys of /projections/${projectionId}/revisions says what differed.`;
    call.answer(202, { ...done, message });
  },
});

const reviveProjection = route({
  ...common,
  method: 'POST',
  path: '/projections/{id}/revive',
  scope: 'deploy',
  operationId: 'reviveProjection',
  summary: 'Let code that was halted for its strikes run again, from where it was',
  answers: { 200: RevisionChosen, 202: RevisionChosen },
  errors: ['BUILD_UNDER_WAY', 'NO_EARLIER_REVISION', 'NOT_FOUND', 'PROJECTION_NOT_LIVE', 'QUOTA_EXCEEDED'],
  serve: async (dependencies, call) => {
    const { tenantId, projectionId } = projectionOf(dependencies, call);
    const done = await dependencies.deployments.reviveProjection(tenantId, projectionId);
    const message =
      done.status === 'live'
        ? `Revision ${done.revision} is live and not faulted: there is nothing to revive.`
        : `Revision ${done.revision} goes on where its code was halted, and is live as soon as it has caught up: see /projections/${projectionId}/status.`;
    call.answer(done.status === 'live' ? 200 : 202, { ...done, message });
  },
});

const cancelBuild = route({
  ...common,
  method: 'DELETE',
  path: '/projections/{id}/build',
  scope: 'deploy',
  operationId: 'cancelBuild',
  summary: 'Call off the revision that is not live yet',
  answers: { 204: null },
  errors: ['NO_BUILD', 'NOT_FOUND'],
  serve: async (dependencies, call) => {
    const { tenantId, projectionId } = projectionOf(dependencies, call);
    await dependencies.deployments.cancelBuild(tenantId, projectionId);
    call.done();
  },
});

export const REVISIONS = [
  listRevisions,
  getRevisionSources,
  rollbackProjection,
  rebuildProjection,
  reviveProjection,
  cancelBuild,
];
