import { requireReducer } from '../../catalog/require.js';
import { z } from 'zod';
import type { Catalog, ReducerEntity } from '../../catalog/catalog.js';
import { artefactFault } from '../../deployments/artefact-health.js';
import { unboundTypes } from '../../deployments/binding-records.js';
import { upload } from '../bodies.js';
import { paging } from '../parameters.js';
import { answerList } from '../list-answer.js';
import { reducerRecord } from '../records.js';
import { aggregateType, compiled, component, faulted, listOf, notCompiled, Source, text } from '../schema.js';
import { memoryOf } from '../request-memory.js';
import { answerSources } from '../source-answer.js';
import { WAITED } from '../waits.js';
import { route } from './dependencies.js';

export const Reducer = component(
  'Reducer',
  z.strictObject({
    id: text,
    status: z.enum(['pending_compilation', 'compiled', 'failed']),
    kind: z.literal('reducer'),
    ...compiled,
    unboundTypes: z.array(z.strictObject({ aggregateType, classNames: z.array(text), reason: text })).optional(),
    faulted: faulted.optional(),
  }),
);
export type Reducer = z.infer<typeof Reducer>;
export const ReducerUploaded = component(
  'ReducerUploaded',
  z.strictObject({
    reducerId: text,
    status: z
      .enum(['pending_compilation', 'compiled', 'failed'])
      .describe('`pending_compilation`, unless the upload was sent with `waitSeconds`.'),
    ...notCompiled,
  }),
);
export type ReducerUploaded = z.infer<typeof ReducerUploaded>;

const common = { tag: 'Reducers', servedBy: 'owner', credentials: 'tenant' } as const;

const recordNow = (catalog: Catalog, reducer: ReducerEntity): object =>
  reducerRecord(reducer, unboundTypes(catalog, reducer), artefactFault(catalog, reducer.artefactId));

const listReducers = route({
  ...common,
  method: 'GET',
  path: '/reducers',
  scope: 'read',
  operationId: 'listReducers',
  summary: 'List reducers',
  query: paging,
  answers: { 200: listOf('reducers', Reducer) },
  serve: ({ catalog }, call) =>
    answerList(call, call.query(), {
      name: 'reducers',
      past: (after) => catalog.past('reducer', call.tenantId, after),
      recordOf: (reducer) => (reducer.deletedAt === undefined ? recordNow(catalog, reducer) : undefined),
    }),
});

const uploadReducer = route({
  ...common,
  method: 'POST',
  path: '/reducers/upload',
  scope: 'deploy',
  operationId: 'uploadReducer',
  summary: 'Upload the sources of reducers',
  query: { waitSeconds: WAITED },
  strictQuery: true,
  body: upload({}),
  answers: { 202: ReducerUploaded },
  errors: ['INVALID_ARCHIVE', 'NOT_FOUND', 'QUOTA_EXCEEDED'],
  serve: async ({ deployments, waits }, call) => {
    const { tenantId } = call;
    const { waitSeconds } = call.query();
    deployments.requireFewerUploads(tenantId);
    const { sources } = await call.body();
    const uploaded = await deployments.uploadReducer(tenantId, sources);
    const reached =
      waitSeconds === 0
        ? uploaded
        : await waits.during(tenantId, call.response, waitSeconds, (signal) =>
            deployments.reducerReached(uploaded, signal),
          );
    const { reducerId, status, compilationError, diagnostics } = reached;
    call.answer(202, { reducerId, status, ...(status === 'failed' ? { compilationError, diagnostics } : {}) });
  },
});

const deleteReducer = route({
  ...common,
  method: 'DELETE',
  path: '/reducers/{id}',
  scope: 'deploy',
  operationId: 'deleteReducer',
  summary: 'Delete a reducer that no type is bound to',
  answers: { 204: null },
  errors: ['NOT_FOUND', 'REDUCER_BOUND', 'REDUCER_NOT_COMPILED'],
  serve: async ({ deployments }, call) => {
    await deployments.deleteReducer(call.tenantId, call.parameter('id'));
    call.done();
  },
});

const getReducer = route({
  ...common,
  method: 'GET',
  path: '/reducers/{id}/status',
  scope: 'read',
  operationId: 'getReducer',
  summary: 'A reducer and its compilation',
  ofCatalog: true,
  answers: { 200: Reducer },
  errors: ['NOT_FOUND'],
  serve: ({ catalog }, call) => {
    const id = call.parameter('id');
    const reducer = requireReducer(catalog, call.tenantId, id);
    call.answer(200, recordNow(catalog, reducer));
  },
});

const getReducerSources = route({
  ...common,
  method: 'GET',
  path: '/reducers/{id}/sources',
  scope: 'deploy',
  operationId: 'getReducerSources',
  summary: 'The sources of a reducer, as they were uploaded',
  ofCatalog: true,
  answers: { 200: z.strictObject({ reducerId: text, files: z.array(Source) }) },
  errors: ['NOT_FOUND'],
  serve: async ({ catalog, deployments }, call) => {
    const id = call.parameter('id');
    const reducer = requireReducer(catalog, call.tenantId, id);
    await memoryOf(call.request)?.pageOf(call.response);
    await answerSources(call, { reducerId: id }, await deployments.uploadedSources(reducer.artefactId));
  },
});

const reviveReducer = route({
  ...common,
  method: 'POST',
  path: '/reducers/{id}/revive',
  scope: 'deploy',
  operationId: 'reviveReducer',
  summary: 'Let code that was halted for its strikes run again, from where it was',
  answers: { 200: Reducer },
  errors: ['NOT_FOUND'],
  serve: async ({ catalog, deployments }, call) => {
    const reducer = await deployments.reviveReducer(call.tenantId, call.parameter('id'));
    call.answer(200, recordNow(catalog, reducer));
  },
});

export const REDUCERS = [listReducers, uploadReducer, deleteReducer, getReducer, getReducerSources, reviveReducer];
