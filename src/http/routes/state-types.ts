import { z } from 'zod';
import { answerItems, memoryOfLists } from '../list-answer.js';
import { badCursor, integerFrom, paging } from '../parameters.js';
import { turnsOf } from '../request-memory.js';
import { aggregateType, anyObject, component, text } from '../schema.js';
import { route } from './dependencies.js';

export const StateType = component(
  'StateType',
  z.strictObject({
    kind: z.enum(['reducer', 'projection']),
    className: text,
    aggregateType: aggregateType.describe('Of a reducer: of the aggregates that it is bound to.').optional(),
    projectionId: text.describe('Of a projection.').optional(),
    schema: anyObject.describe(
      'JSON Schema (2020-12) of the state where it is not null, as the compiler has found it in the code. x-dotnet is the type in C#.',
    ),
  }),
);
export type StateType = z.infer<typeof StateType>;

const listStateTypes = route({
  method: 'GET',
  path: '/state-types',
  operationId: 'listStateTypes',
  tag: 'System',
  summary: 'What the states of bound reducers and of projections are',
  servedBy: 'owner',
  credentials: 'tenant',
  scope: 'read',
  query: { ...paging, limit: integerFrom(1, 500, 100) },
  answers: { 200: z.strictObject({ states: z.array(StateType), nextCursor: text.optional() }) },
  serve: async ({ deployments }, call) => {
    const { limit, cursor } = call.query();
    const after = cursor === undefined ? '' : Buffer.from(cursor, 'base64url').toString();
    if (cursor !== undefined && !/^[ap]\//.test(after)) throw badCursor();
    await memoryOfLists(call);
    const { states, next } = await deployments.describeStates(call.tenantId, { after, limit, turn: turnsOf(call) });
    const nextCursor = next === undefined ? undefined : Buffer.from(next).toString('base64url');
    return answerItems(call, 'states', { items: states, nextCursor }, (state) => state);
  },
});

export const STATE_TYPES = [listStateTypes];
