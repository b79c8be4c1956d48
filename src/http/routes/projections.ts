import { z } from 'zod';
import type { Entry, ProjectionEntity } from '../../catalog/catalog.js';
import { faultForClients, isoTimestamp } from '../../core/event.js';
import { StatefoldError } from '../../core/errors.js';
import { firstOf } from '../../core/reads.js';
import { memoryOf, turnsOf } from '../request-memory.js';
import { MAX_STATE_KEY } from '../../core/names.js';
import { costOfBytes, type Turn } from '../../core/turns.js';
import type { ProjectionState as StoredState } from '../../projections/projections.js';
import type { ProjectionReached } from '../../deployments/upload-waits.js';
import { isEvent, placeOfPosition, positionOfPlace } from '../../feed/feed-item.js';
import type { Tenant } from '../../tenancy/tenant.js';
import { jsonBy, upload } from '../bodies.js';
import { JsonWriter, type JsonParts } from '../json-writer.js';
import { answerList, memoryOfLists } from '../list-answer.js';
import { CONFIG_FIELD, NotificationConfig, readNotificationConfig } from '../notification-config.js';
import { anyText, nameUpTo, paging, requireName } from '../parameters.js';
import { WAIT_FOR } from '../position-waits.js';
import { idOfCursor, notificationsJson, projectionRecord, type ProjectionNow } from '../records.js';
import { requireProjection } from '../../catalog/require.js';
import {
  compiled,
  component,
  Fault,
  faulted,
  integer,
  KeyFault,
  listOf,
  notCompiled,
  progress,
  rate,
  secret,
  state,
  text,
  timestamp,
  version,
} from '../schema.js';
import { WAITED } from '../waits.js';
import { route } from './dependencies.js';

/** Enough to see what is wrong; the rest is in a list of its own. */
const FAULTS_SHOWN = 100;
/** As many events are read to count how far projections are behind: it is asked for every few seconds. */
const LAG_COUNTED = { items: 1_000, bytes: 256 * 1024 };

export const Projection = component(
  'Projection',
  z.strictObject({
    id: text,
    status: z.enum(['compiling', 'compiled', 'failed']),
    kind: z.literal('projection'),
    ...compiled,
    revision: integer,
    sse: z.boolean(),
    webhook: z
      .strictObject({ url: text.optional(), isolated: z.boolean(), disabledAt: timestamp.optional() })
      .optional(),
    cancelledAt: timestamp.optional(),
    live: z.strictObject({ revision: version, artefactId: text }).optional(),
    build: z
      .strictObject({
        ...progress,
        revision: version,
        cause: z.enum(['build', 'redeploy', 'rollback', 'rebuild', 'revive']),
      })
      .optional(),
    lag: z
      .strictObject({
        commits: integer,
        events: integer
          .describe(
            'Events that the states do not have; absent where they are too many to be counted: about a thousand.',
          )
          .optional(),
        since: timestamp.describe('The time of the first event that the states do not have.'),
      })
      .describe('Absent where the states have all events, or no revision is live.')
      .optional(),
    lastSequence: integer
      .describe(
        'Where the tenant’s changes, of all projections, end: who has come there with `afterSequence` has missed nothing. It may be past the last change, after a restart for one. Absent where no revision is live.',
      )
      .optional(),
    eventsPerSecond: rate
      .describe(
        'Events that it has worked off over the last minute, also those that it makes nothing of. Absent where no revision is live; of a build, `build` tells.',
      )
      .optional(),
    faulted: faulted.optional(),
    faults: z
      .array(KeyFault)
      .describe('The first hundred of them; of one projection alone, and not of each in a list.')
      .optional(),
    faultCount: integer.optional(),
    erasedSinceBuild: z
      .literal(true)
      .describe(
        'An aggregate was erased whose events may be in the states, until the projection is built again: POST /projections/{id}/rebuild.',
      )
      .optional(),
  }),
);
export type Projection = z.infer<typeof Projection>;
export const ProjectionUploaded = component(
  'ProjectionUploaded',
  z.strictObject({
    success: z.boolean(),
    projectionId: text,
    status: z
      .enum(['compiling', 'compiled', 'failed'])
      .describe('`compiling`, unless the upload was sent with `waitSeconds`.'),
    message: text,
    ...notCompiled,
    live: z
      .strictObject({ revision: version, artefactId: text })
      .describe('The uploaded revision, where it was live within `waitSeconds`.')
      .optional(),
    notifications: z
      .strictObject({
        webhook: z.strictObject({ enabled: z.boolean(), secret, isolated: z.boolean() }),
        sse: z.boolean(),
      })
      .optional(),
  }),
);
export type ProjectionUploaded = z.infer<typeof ProjectionUploaded>;
export const ProjectionState = component(
  'ProjectionState',
  z.strictObject({
    key: text,
    className: text,
    state,
    sequence: integer,
    lastModified: timestamp,
    fault: Fault.optional(),
  }),
);
export type ProjectionState = z.infer<typeof ProjectionState>;

const common = { tag: 'Projections', servedBy: 'owner', credentials: 'tenant' } as const;

const listProjections = route({
  ...common,
  method: 'GET',
  path: '/projections',
  scope: 'read',
  operationId: 'listProjections',
  summary: 'List projections',
  query: paging,
  answers: { 200: listOf('projections', Projection) },
  serve: async ({ catalog, tenants }, call) => {
    const query = call.query();
    const past = (after: string): Iterable<Entry<'projection'>> => catalog.past('projection', call.tenantId, after);
    const nowOf = someMayBeLive(firstOf(past(idOfCursor(query.cursor)), query.limit))
      ? await nowOfTenant(await tenants.open(call.tenantId), turnsOf(call))
      : undefined;
    return answerList(call, query, {
      name: 'projections',
      past,
      recordOf: (projection) => projectionRecord(catalog, projection, nowOf?.(projection)),
    });
  },
});

const uploadProjection = route({
  ...common,
  method: 'POST',
  path: '/projections/upload',
  scope: 'deploy',
  operationId: 'uploadProjection',
  summary: 'Upload the sources of a projection',
  query: { waitSeconds: WAITED },
  strictQuery: true,
  body: upload({ config: CONFIG_FIELD, projectionId: anyText }),
  answers: { 202: ProjectionUploaded },
  errors: ['INVALID_ARCHIVE', 'NOT_FOUND', 'QUOTA_EXCEEDED', 'WEBHOOK_URL_REFUSED'],
  serve: async ({ deployments, settings, waits }, call) => {
    const { tenantId } = call;
    const { waitSeconds } = call.query();
    deployments.requireFewerUploads(tenantId);
    const { sources, fields } = await call.body();
    const notifications =
      fields.config === undefined ? undefined : readNotificationConfig(fields.config, settings.maxJsonDepth);
    const notified = await deployments.uploadProjection(tenantId, sources, notifications, fields.projectionId);
    const { projection } = notified;
    const reached =
      waitSeconds === 0
        ? undefined
        : await waits.during(tenantId, call.response, waitSeconds, (signal) =>
            deployments.projectionReached(projection, signal),
          );
    call.answer(202, {
      success: reached?.status !== 'failed',
      projectionId: projection.projectionId,
      status: reached?.status ?? 'compiling',
      message: uploadMessage(projection.projectionId, reached),
      ...(reached?.status === 'failed'
        ? { compilationError: reached.compilationError, diagnostics: reached.diagnostics }
        : {}),
      live: reached?.live,
      notifications: notifications === undefined ? undefined : notificationsJson(notified),
    });
  },
});

const configureProjection = route({
  ...common,
  method: 'PUT',
  path: '/projections/{id}/config',
  scope: 'webhooks',
  operationId: 'configureProjection',
  summary: 'Change the notifications of a projection, and no code',
  body: jsonBy(NotificationConfig, (given, { maxJsonDepth }) => readNotificationConfig(given, maxJsonDepth), {
    webhook: { url: 'https://shop.example/hooks' },
    isolateSecret: true,
    sse: true,
  }),
  answers: {
    200: z.strictObject({
      projectionId: text,
      notifications: z.strictObject({
        webhook: z.strictObject({
          enabled: z.boolean(),
          secret: text.optional(),
          isolated: z.boolean().optional(),
        }),
        sse: z.boolean(),
      }),
    }),
  },
  errors: ['NOT_FOUND', 'WEBHOOK_URL_REFUSED'],
  serve: async ({ catalog, deployments }, call) => {
    const { projectionId } = requireProjection(catalog, call.tenantId, call.parameter('id'));
    const config = await call.body();
    const notified = await deployments.configureProjection(call.tenantId, projectionId, config);
    call.answer(200, { projectionId, notifications: notificationsJson(notified) });
  },
});

const deleteProjection = route({
  ...common,
  method: 'DELETE',
  path: '/projections/{id}',
  scope: 'deploy',
  operationId: 'deleteProjection',
  summary: 'Delete a projection',
  answers: { 204: null },
  errors: ['NOT_FOUND'],
  serve: async ({ catalog, deployments }, call) => {
    const { projectionId } = requireProjection(catalog, call.tenantId, call.parameter('id'));
    await deployments.deleteProjection(call.tenantId, projectionId);
    call.done();
  },
});

const getProjection = route({
  ...common,
  method: 'GET',
  path: '/projections/{id}/status',
  scope: 'read',
  operationId: 'getProjection',
  summary: 'A projection and its compilation',
  ofCatalog: true,
  answers: { 200: Projection },
  errors: ['NOT_FOUND'],
  serve: async ({ catalog, tenants }, call) => {
    const projection = requireProjection(catalog, call.tenantId, call.parameter('id'));
    if (!mayBeLive(projection)) return call.answer(200, projectionRecord(catalog, projection));
    const tenant = await tenants.open(call.tenantId);
    await memoryOfLists(call);
    const turn = turnsOf(call);
    const nowOf = await nowOfTenant(tenant, turn);
    const { projectionId } = projection;
    const { faults } = await tenant.faults.ofProjection(projectionId, { limit: FAULTS_SHOWN, cursor: undefined, turn });
    const now = nowOf(projection);
    call.answer(
      200,
      projectionRecord(
        catalog,
        projection,
        now && { ...now, faults: faults.map(({ key, fault }) => ({ ...faultForClients(fault), key })) },
      ),
    );
  },
});

const listStates = route({
  ...common,
  method: 'GET',
  path: '/projections/{id}/states',
  scope: 'read',
  operationId: 'listStates',
  summary: 'List the states of a projection',
  ofCatalog: true,
  lastingWith: 'waitFor',
  query: { prefix: nameUpTo(MAX_STATE_KEY, { empty: true }), ...paging, ...WAIT_FOR },
  answers: { 200: listOf('states', ProjectionState) },
  errors: ['NOT_CAUGHT_UP', 'NOT_FOUND'],
  serve: async ({ catalog, tenants, channels }, call) => {
    const { projectionId } = requireProjection(catalog, call.tenantId, call.parameter('id'));
    const { prefix = '', waitFor, waitSeconds, ...asked } = call.query();
    const { projections } = await tenants.open(call.tenantId);
    await channels.positionWaits.projection(call, projections, projectionId, { waitFor, waitSeconds });
    await memoryOf(call.request)?.pageOf(call.response);
    const turn = turnsOf(call);
    const { states, nextCursor } = await projections.states({ projectionId, prefix, ...asked, turn });
    // One that was deleted meanwhile has none.
    requireProjection(catalog, call.tenantId, projectionId);
    call.answer(200, await statesJson(states, nextCursor, turn));
  },
});

const getStates = route({
  ...common,
  method: 'GET',
  path: '/projections/{id}/states/{key}',
  scope: 'read',
  operationId: 'getStates',
  summary: 'The states of one key, one a class',
  ofCatalog: true,
  lastingWith: 'waitFor',
  query: { cursor: paging.cursor, ...WAIT_FOR },
  answers: { 200: listOf('states', ProjectionState) },
  errors: ['NOT_CAUGHT_UP', 'NOT_FOUND'],
  serve: async ({ catalog, tenants, channels }, call) => {
    const { projectionId } = requireProjection(catalog, call.tenantId, call.parameter('id'));
    const key = requireName(call.parameter('key'), 'key', MAX_STATE_KEY);
    const { cursor, ...wait } = call.query();
    const { projections } = await tenants.open(call.tenantId);
    await channels.positionWaits.projection(call, projections, projectionId, wait);
    await memoryOf(call.request)?.pageOf(call.response);
    const turn = turnsOf(call);
    const { states, nextCursor } = await projections.statesOf({ projectionId, key, cursor, turn });
    if (states.length === 0 && cursor === undefined)
      throw new StatefoldError('NOT_FOUND', `projection ${projectionId} has no state of the key ${key}`);
    call.answer(200, await statesJson(states, nextCursor, turn));
  },
});

export const PROJECTIONS = [
  listProjections,
  uploadProjection,
  configureProjection,
  deleteProjection,
  getProjection,
  listStates,
  getStates,
];

/** The first upload has nothing live beside it until it is compiled: nothing is asked of the tenant then. */
const mayBeLive = ({ status, revision }: ProjectionEntity): boolean => status === 'compiled' || revision > 1;

function someMayBeLive(projections: Iterable<Entry<'projection'>>): boolean {
  for (const { value } of projections) if (mayBeLive(value)) return true;
  return false;
}

/**
 * What a tenant's task has of each projection; nothing of one that can't be live. @throws StatefoldError UNAVAILABLE where it is not
 * served here, now or when it is asked of one
 */
async function nowOfTenant(
  tenant: Tenant,
  turn: Turn,
): Promise<(projection: ProjectionEntity) => ProjectionNow | undefined> {
  const lag = await lagOf(tenant, turn);
  return (projection) => {
    if (!mayBeLive(projection)) return undefined;
    const { projectionId } = projection;
    const faultCount = tenant.faults.countOfProjection(projectionId);
    const life = tenant.projections.life(projectionId);
    const build = tenant.projections.build(projectionId);
    const lastSequence = life.live && tenant.changes.lastSequence();
    const eventsPerSecond = life.live && tenant.projections.eventsPerSecond(projectionId);
    return { life, build, lag: life.live && lag, lastSequence, eventsPerSecond, faultCount };
  };
}

/** The live projections of a tenant fold its events together, so that they are behind together. */
async function lagOf({ projections, events }: Tenant, turn: Turn): Promise<ProjectionNow['lag']> {
  const { reached } = projections;
  const commits = placeOfPosition(events.head) - reached;
  if (commits <= 0) return undefined;
  await turn(Math.min(commits, costOfBytes(LAG_COUNTED.bytes)));
  // What is past it may be no event: claims have places, too.
  const { items, end } = await events.read(positionOfPlace(reached), LAG_COUNTED);
  const first = items[0];
  if (first === undefined) return undefined;
  const isWhole = end >= events.head;
  return {
    commits,
    events: isWhole ? items.filter(isEvent).length : undefined,
    since: isoTimestamp(first.timestamp),
  };
}

function uploadMessage(projectionId: string, reached: ProjectionReached | undefined): string {
  const see = `see /projections/${projectionId}/status.`;
  if (reached === undefined || reached.status === 'compiling')
    return `The projection was accepted and is being compiled: ${see}`;
  if (reached.status === 'failed') return 'The code was not compiled: compilationError says why.';
  return reached.live === undefined
    ? `The projection is compiled, and is not live yet: ${see}`
    : 'The projection is compiled, and live.';
}

async function statesJson(
  states: readonly StoredState[],
  nextCursor: string | undefined,
  turn: Turn,
): Promise<JsonParts> {
  const writer = new JsonWriter().text('{"states":[');
  await writer.listOnTurns(states, turn, (state) => {
    writer
      .text('{')
      .member('key', state.key, true)
      .member('className', state.className)
      .raw('state', state.state)
      .member('sequence', state.sequence)
      .member('lastModified', isoTimestamp(state.lastModified));
    if (state.fault !== undefined) writer.member('fault', faultForClients(state.fault));
    writer.text('}');
  });
  writer.text(']');
  if (nextCursor !== undefined) writer.member('nextCursor', nextCursor);
  return writer.text('}').endInParts();
}
