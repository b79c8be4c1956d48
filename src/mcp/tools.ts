import { z } from 'zod';
import type { Scope } from '../core/scopes.js';
import type { StatefoldClient } from '../../packages/client/src/index.js';

/** What an assistant may do with a tenant. */
export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  /** Of the key; undefined: any key will do. */
  readonly scope: Scope | undefined;
  /** It changes what runs: there only where a person allowed it. */
  readonly changes: boolean;
  readonly input: z.ZodObject;
  readonly run: (client: StatefoldClient, input: unknown, signal: AbortSignal) => Promise<unknown>;
}

const USUAL_PAGE = 20;
const WAIT_SECONDS = 30;
/** What is folded over history may take as long as the service lets it. */
const LONG_MS = 120_000;

const limit = (most: number): z.ZodDefault<z.ZodNumber> =>
  z.number().int().min(1).max(most).default(USUAL_PAGE).describe('Entries of the answer, at most.');
const cursor = z.string().optional().describe('nextCursor of the answer before.');
const page = { limit: limit(200), cursor };
const aggregateType = z.string().describe('As list_aggregate_types names it.');
const aggregateId = z.string();
const projectionId = z.string().describe('As list_projections names it.');
const version = z.number().int().min(1);
const kind = z.enum(['reducer', 'projection']);
/** As an upload may have, unless its service is set otherwise. */
const MOST_FILES = 500;
const files = z
  .array(z.object({ name: z.string().describe('Its path, as Flights.cs or model/Flight.cs.'), source: z.string() }))
  .min(1)
  .max(MOST_FILES)
  .describe('All C# files of the code, whole.');

interface Sources {
  readonly files: readonly { readonly name: string; readonly source: string }[];
}

/** As a form of an upload. */
function formOf(
  { files: sources }: Sources,
  fields: Readonly<Record<string, string | number | undefined>> = {},
): FormData {
  const form = new FormData();
  for (const { name, source } of sources) form.append('file', new Blob([source]), name);
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) form.append(name, String(value));
  return form;
}

const tool = <I extends z.ZodRawShape>({
  input,
  run,
  ...described
}: Omit<Tool, 'input' | 'run' | 'changes'> & {
  readonly changes?: true;
  readonly input: I;
  readonly run: (client: StatefoldClient, input: z.infer<z.ZodObject<I>>, signal: AbortSignal) => Promise<unknown>;
}): Tool => ({
  changes: false,
  ...described,
  input: z.strictObject(input),
  run: (client, given, signal) => run(client, given as z.infer<z.ZodObject<I>>, signal),
});

/** Every tool; a key's scopes, and what a person allowed, decide which of them a session has. */
export const TOOLS: readonly Tool[] = [
  tool({
    name: 'whoami',
    title: 'This key',
    description: 'The tenant and the scopes of the key that this session has.',
    scope: undefined,
    input: {},
    run: (client, _input, signal) => client.request('whoami', { signal }),
  }),
  tool({
    name: 'list_event_types',
    title: 'Types of events',
    description:
      'The types of events with their numbers, the aggregate types they occur in, and the version of their schema.',
    scope: 'read',
    input: page,
    run: (client, query, signal) => client.request('listEventTypes', { query, signal }),
  }),
  tool({
    name: 'get_event_type',
    title: 'One type of events',
    description: 'A type of events with its JSON Schema, where it has one.',
    scope: 'read',
    input: { eventType: z.string() },
    run: (client, { eventType }, signal) => client.request('getEventType', { path: { type: eventType }, signal }),
  }),
  tool({
    name: 'describe_states',
    title: 'Shapes of states',
    description:
      'The states that the code in force makes, as JSON Schemas: of reducers by aggregate type, and of projections.',
    scope: 'read',
    input: page,
    run: (client, query, signal) => client.request('listStateTypes', { query, signal }),
  }),
  tool({
    name: 'read_feed',
    title: 'All events in their order',
    description: 'Events of the tenant in its one order, the oldest first, past a position; filters may be combined.',
    scope: 'read',
    input: {
      after: z.number().int().min(0).default(0).describe('A position; `position` of the answer is where to go on.'),
      limit: limit(200),
      aggregateType: z.array(z.string()).optional(),
      eventType: z.array(z.string()).optional(),
      aggregateId: z.array(z.string()).optional(),
    },
    run: (client, query, signal) => client.request('readFeed', { query, signal }),
  }),
  tool({
    name: 'list_aggregate_types',
    title: 'Types of aggregates',
    description:
      'Aggregate types, with the reducer that folds each, and how many events a second came over the last minute.',
    scope: 'read',
    input: page,
    run: (client, query, signal) => client.request('listAggregateTypes', { query, signal }),
  }),
  tool({
    name: 'list_aggregates',
    title: 'Aggregates',
    description: 'Aggregates by id, of one type or of all.',
    scope: 'read',
    input: { aggregateType: aggregateType.optional(), ...page },
    run: (client, { aggregateType: type, ...query }, signal) =>
      client.request('listAggregates', { query: { ...query, type }, signal }),
  }),
  tool({
    name: 'read_events',
    title: 'Events of an aggregate',
    description: 'Events of one aggregate by version, with correlation and metadata where they were sent.',
    scope: 'read',
    input: {
      aggregateId,
      fromVersion: version.optional(),
      toVersion: version.optional(),
      direction: z.enum(['forward', 'backward']).default('forward').describe('backward: the latest first.'),
      limit: limit(200),
    },
    run: (client, { aggregateId: id, ...query }, signal) =>
      client.request('listEvents', { path: { aggregateId: id }, query: { ...query, include: 'metadata' }, signal }),
  }),
  tool({
    name: 'get_state',
    title: 'State of an aggregate',
    description:
      'The state that the reducer folds of an aggregate: now, at a version, or at a time. With diff: what each event did to it.',
    scope: 'read',
    input: {
      aggregateType,
      aggregateId,
      atVersion: version.optional(),
      atTime: z.string().optional().describe('ISO 8601.'),
      diff: z.boolean().optional(),
      fromVersion: version.optional().describe('Where the diff begins.'),
      limit: limit(200).describe('Events of the diff, at most.'),
    },
    run: (client, { aggregateType: type, aggregateId: id, limit: most, ...query }, signal) =>
      client.request('getAggregateState', {
        path: { type, id },
        query: { ...query, ...(query.diff === true && { limit: most }) },
        signal,
        timeoutMs: LONG_MS,
      }),
  }),
  tool({
    name: 'list_projections',
    title: 'Projections',
    description: 'Projections with their classes and status: how far behind, keys, faults.',
    scope: 'read',
    input: page,
    run: (client, query, signal) => client.request('listProjections', { query, signal }),
  }),
  tool({
    name: 'get_projection',
    title: 'One projection',
    description: 'Status of a projection: how far it is, its faults, its build, and its revisions.',
    scope: 'read',
    input: { projectionId },
    run: async (client, { projectionId: id }, signal) => {
      const asked = { path: { id }, signal };
      const [status, { revisions }] = await Promise.all([
        client.request('getProjection', asked),
        client.request('listRevisions', asked),
      ]);
      return { ...status, revisions };
    },
  }),
  tool({
    name: 'list_states',
    title: 'States of a projection',
    description: 'Keys of a projection with their states, those that begin with a prefix or all.',
    scope: 'read',
    input: { projectionId, prefix: z.string().optional(), ...page },
    run: (client, { projectionId: id, ...query }, signal) =>
      client.request('listStates', { path: { id }, query, signal }),
  }),
  tool({
    name: 'list_faults',
    title: 'What stands still',
    description:
      'Where code threw: the event, the message, the file and the line. Of the keys of a projection, or of the aggregates of a type: name one of both.',
    scope: 'read',
    input: { projectionId: projectionId.optional(), aggregateType: aggregateType.optional(), ...page },
    run: (client, { projectionId: id, aggregateType: type, ...query }, signal) => {
      if (id !== undefined && type === undefined)
        return client.request('listKeyFaults', { path: { id }, query, signal });
      if (type !== undefined && id === undefined)
        return client.request('listAggregateFaults', { path: { type }, query, signal });
      throw new TypeError('name either projectionId or aggregateType');
    },
  }),
  tool({
    name: 'query_sql',
    title: 'SQL',
    description:
      "One statement of ClickHouse's SQL over the tenant's own rows: the table events, states of aggregates and of projections, and typed views. `SHOW TABLES` and `DESCRIBE TABLE` tell what there is. Add LIMIT.",
    scope: 'sql',
    input: {
      query: z.string(),
      parameters: z
        .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
        .optional()
        .describe('Values of the placeholders {name:Type}.'),
    },
    run: (client, { query, parameters }, signal) =>
      client.sql(query, { ...(parameters && { parameters }), signal, timeoutMs: LONG_MS }),
  }),
  tool({
    name: 'list_sql_accounts',
    title: 'Accounts for SQL',
    description:
      'The accounts with which tools of the tenant connect to the ClickHouse server, without their passwords.',
    scope: 'sql',
    input: page,
    run: (client, query, signal) => client.request('listSqlAccounts', { query, signal }),
  }),
  tool({
    name: 'list_code',
    title: 'Uploaded code',
    description: 'Reducers that were uploaded, with what their compilation found.',
    scope: 'read',
    input: page,
    run: (client, query, signal) => client.request('listReducers', { query, signal }),
  }),
  tool({
    name: 'get_usage',
    title: 'Usage and quotas',
    description: 'What the tenant uses, and what it may use.',
    scope: 'read',
    input: {},
    run: (client, _input, signal) => client.request('getUsage', { signal }),
  }),
  tool({
    name: 'check_code',
    title: 'Compile code',
    description:
      'Compiles C# of a reducer (class : IReducer<T>, `T? Apply(T? state, Event e)`) or of a projection (class : IProjection<T>, with `string? ResolveKey(Event e)` as well), and tells the classes or the diagnostics. Nothing is kept.',
    scope: 'deploy',
    input: { kind, files },
    run: (client, { kind: of, ...sources }, signal) =>
      client.request(of === 'reducer' ? 'checkReducer' : 'checkProjection', {
        body: formOf(sources),
        signal,
        timeoutMs: LONG_MS,
      }),
  }),
  tool({
    name: 'dry_run_code',
    title: 'Try code on the stored history',
    description:
      'Compiles code and folds the stored events with it, and compares with the states there are: what would change, be added, be gone, or throw. Nothing is kept. Do this before any deployment.',
    scope: 'deploy',
    input: {
      kind,
      files,
      aggregateType: aggregateType.optional().describe('Of a reducer: try this type alone.'),
      projectionId: projectionId.optional().describe('Of a projection: the one whose states it is compared with.'),
      sample: z.number().int().min(1).max(10_000).optional().describe('Of a reducer: so many aggregates, by chance.'),
      show: z.number().int().min(0).max(100).optional().describe('Differences that are told whole.'),
    },
    run: (client, { kind: of, aggregateType: type, projectionId: id, sample, show, ...sources }, signal) => {
      const asked = { signal, timeoutMs: LONG_MS };
      if (of === 'reducer')
        return client.request('dryRunReducers', {
          ...asked,
          body: formOf(sources, { aggregateType: type, sample, show }),
        });
      return client.request('dryRunProjection', { ...asked, body: formOf(sources, { projectionId: id, show }) });
    },
  }),
  tool({
    name: 'test_code',
    title: 'Run fixtures',
    description:
      'Compiles code and runs its fixtures (given, when, then) as the service would, and tells which fail and in what. Nothing is kept. A fixture: {"name":"…","projection":"Class","given":[],"when":[{"aggregateId":"order-1","eventType":"Placed","data":{}}],"then":{"states":{"key":{}}}}; "reducer" for a reducer, "state" where there is one alone, "fault" or "faults" where it is to throw.',
    scope: 'deploy',
    input: {
      files,
      fixtures: z
        .array(z.object({ name: z.string().describe('Its path, as fixtures/order.json.'), json: z.string() }))
        .min(1)
        .max(MOST_FILES)
        .describe('JSON files, each a fixture or an array of them.'),
      only: z.string().optional().describe('Those whose name or file has this in it.'),
    },
    run: (client, { fixtures, only, ...sources }, signal) => {
      const body = formOf(sources, { only });
      for (const { name, json } of fixtures) body.append('file', new Blob([json]), name);
      return client.request('runFixtures', { signal, timeoutMs: LONG_MS, body });
    },
  }),
  tool({
    name: 'deploy_code',
    title: 'Deploy code',
    description:
      'Uploads code, and waits until it is compiled: a reducer is bound then, a projection built from the stored history beside the live one, which it replaces. Tell the person what a dry run found, and ask, before this.',
    scope: 'deploy',
    changes: true,
    input: {
      kind,
      files,
      projectionId: projectionId.optional().describe('Of a projection that is to be replaced by the code.'),
    },
    run: (client, { kind: of, projectionId: id, ...sources }, signal) =>
      client.request(of === 'reducer' ? 'uploadReducer' : 'uploadProjection', {
        query: { waitSeconds: WAIT_SECONDS },
        body: formOf(sources, of === 'projection' ? { projectionId: id } : {}),
        signal,
        timeoutMs: LONG_MS,
      }),
  }),
  tool({
    name: 'roll_back_projection',
    title: 'Roll a projection back',
    description: 'Puts an earlier revision of a projection in force again, with the states that it had.',
    scope: 'deploy',
    changes: true,
    input: { projectionId, revision: z.number().int().min(1).optional().describe('Unless given: the one before.') },
    run: (client, { projectionId: id, revision }, signal) =>
      client.request('rollbackProjection', { path: { id }, body: revision === undefined ? {} : { revision }, signal }),
  }),
];
