import { z } from 'zod';
import type { Catalog, EndpointSource } from '../../catalog/catalog.js';
import { StatefoldError } from '../../core/errors.js';
import { MAX_EVENT_TYPE, MAX_STATE_KEY } from '../../core/names.js';
import type { Attempt } from '../../webhooks/attempt-store.js';
import type { DeadLetterWithId, EndpointOperations } from '../../webhooks/endpoint-operations.js';
import { projectionOf, type EndpointWithUrl } from '../../webhooks/endpoint-entities.js';
import { MAX_OWN_HEADERS, ownHeaderErrors } from '../../webhooks/own-headers.js';
import { errorOf } from '../../webhooks/webhook-sender.js';
import { json, optionalJson, refuse } from '../bodies.js';
import { described, paging, type Parameter } from '../parameters.js';
import { answerList, beforeIn, memoryOfLists, pastIn } from '../list-answer.js';
import { memoryOf } from '../request-memory.js';
import type { Call } from '../route.js';
import { component, integer, listOf, secret, text, timestamp, version } from '../schema.js';
import { route, type RouteDependencies } from './dependencies.js';

const LISTED = 'must be a list of texts';
const names = (max: number, most: number): z.ZodArray<z.ZodString> =>
  z
    .array(
      z.string('must be a text').min(1, 'must not be empty').max(max, `must have at most ${max} characters`),
      LISTED,
    )
    .min(1, 'must name at least one; leave it out for all')
    .max(most, `must name at most ${most}`);

const url = z.string('must be a string').min(1, 'must not be empty').max(2048, 'must have at most 2048 characters');
const keys = names(MAX_STATE_KEY, 1_000).describe(
  'Only messages of these keys: state keys of the projection, or aggregate ids of the feed.',
);
const description = z.string('must be a string').max(1_000, 'must have at most 1000 characters');
const ratePerSecond = z
  .number('must be a number')
  .min(0.01, 'must be at least 0.01')
  .max(10_000, 'must be at most 10000')
  .describe('Most attempts a second.');
const flag = z.boolean('must be true or false');
const Source = z
  .union(
    [
      z.strictObject({ projectionId: text.min(1).describe('Told of the changes of this projection.') }),
      z.strictObject({
        feed: z
          .strictObject({
            aggregateTypes: names(128, 1_000).optional(),
            eventTypes: names(MAX_EVENT_TYPE, 1_000).optional(),
          })
          .describe('Told of all events of the tenant, or of those of these types.'),
      }),
    ],
    'must be { "projectionId": … }, or { "feed": { "aggregateTypes"?, "eventTypes"? } }',
  )
  .describe('What the endpoint is told of.');

const state = z.strictObject({
  status: z.enum(['healthy', 'failing', 'paused', 'disabled']),
  reason: text.optional(),
  since: timestamp,
});

const endpointMembers = {
  endpointId: text,
  url: text,
  source: Source,
  keys: z.array(text).optional(),
  description: text.optional(),
  isolated: z.boolean().describe('It has a secret of its own; false: it uses the shared one of the tenant.'),
  headerNames: z
    .array(text)
    .describe('Of the headers that go with each attempt. Their values are not shown.')
    .optional(),
  ratePerSecond: z.number().optional(),
  createdAt: timestamp,
  state,
  through: integer.describe('Up to this sequence or position all is delivered or parked.'),
  pending: integer.describe('Messages past it that were taken, and are neither.'),
  parked: integer.describe('Messages that were given up, as GET …/parked lists them.'),
};
export const WebhookEndpoint = component('WebhookEndpoint', z.strictObject(endpointMembers));
export type WebhookEndpoint = z.infer<typeof WebhookEndpoint>;
export const NewWebhookEndpoint = component('NewWebhookEndpoint', z.strictObject({ ...endpointMembers, secret }));
export type NewWebhookEndpoint = z.infer<typeof NewWebhookEndpoint>;

/** A message is at a sequence of its projection, or at a position of the feed. */
const place = { sequence: version.optional(), position: version.optional() };
const sent = {
  messageId: text.describe('The `webhook-id` of the message.'),
  at: timestamp,
  status: z.int().min(100).max(599).describe('Of HTTP; absent where there was no answer.').optional(),
  durationMs: integer,
  error: text.describe('Why it failed; absent where it was delivered.').optional(),
  responseExcerpt: text.describe('How the body of a refusal begins.').optional(),
};
export const WebhookAttempt = component(
  'WebhookAttempt',
  z.strictObject({ ...sent, ...place, attempt: version.describe('From 1 on, of this message.') }),
);
export type WebhookAttempt = z.infer<typeof WebhookAttempt>;
export const ParkedMessage = component(
  'ParkedMessage',
  z.strictObject({ messageId: text, ...place, key: text, at: timestamp, attempts: integer, reason: text }),
);
export type ParkedMessage = z.infer<typeof ParkedMessage>;
const Range = z.strictObject({ from: version, to: version });

const Create = z.object({
  url,
  source: Source,
  keys: keys.optional(),
  description: description.optional(),
  isolateSecret: flag.optional(),
  headers: z.record(z.string(), z.string('must be a string'), 'must be an object').optional(),
  ratePerSecond: ratePerSecond.optional(),
  from: z
    .enum(['now', 'start'], 'must be now or start')
    .describe('Where it begins: with what comes next, or with the oldest that is kept.')
    .optional(),
});
const Change = z.object({
  url: url.optional(),
  source: Source.optional(),
  keys: keys.nullish(),
  description: description.nullish(),
  isolateSecret: flag.optional(),
  headers: z
    .record(z.string(), z.string('must be a string, or null').nullable(), 'must be an object, or null')
    .describe(`Merged by name: null takes a header away. At most ${MAX_OWN_HEADERS}.`)
    .nullish(),
  ratePerSecond: ratePerSecond.nullish(),
});
const Replay = z.object({
  from: z.int('must be a whole number').min(1, 'must be at least 1'),
  to: z.int('must be a whole number').min(1, 'must be at least 1').optional(),
});

const WHAT = 'The body is invalid';
const checkHeaders = (headers: Readonly<Record<string, string | null>> | null | undefined): void =>
  refuse(WHAT, ownHeaderErrors(headers ?? {}));

type Known = Pick<RouteDependencies, 'catalog' | 'endpointOperations'>;

const sourceJson = (source: EndpointSource): object =>
  'feed' in source ? { feed: source.feed } : { projectionId: source.projectionId };

function endpointJson({ catalog, endpointOperations }: Known, endpoint: EndpointWithUrl): object {
  const { endpointId, source, keys, description, isolated, headers, ratePerSecond } = endpoint;
  const createdAt = createdAtOf(catalog, endpoint);
  return {
    endpointId,
    url: endpoint.url,
    source: sourceJson(source),
    keys,
    description,
    isolated,
    headerNames: headers?.names,
    ratePerSecond,
    createdAt,
    state: endpointOperations.state(endpoint, createdAt),
    ...endpointOperations.progress(endpoint),
  };
}

/** Earlier releases made an endpoint with its projection, and did not say when. */
const createdAtOf = (catalog: Pick<Catalog, 'get'>, { createdAt, source }: EndpointWithUrl): string =>
  createdAt ?? catalog.get('projection', projectionOf(source) ?? '')?.value.createdAt ?? new Date(0).toISOString();

const common = { tag: 'Webhooks', servedBy: 'notifier', credentials: 'tenant', scope: 'webhooks' } as const;
const one = { ...common, path: '/webhooks/endpoints/{id}' } as const;

const listEndpoints = route({
  ...common,
  method: 'GET',
  path: '/webhooks/endpoints',
  operationId: 'listWebhookEndpoints',
  summary: 'List webhook endpoints',
  query: paging,
  answers: { 200: listOf('endpoints', WebhookEndpoint) },
  serve: (dependencies, call) => {
    const entries = dependencies.endpoints.list(call.tenantId).map((value) => ({ id: value.endpointId, value }));
    const past = pastIn(entries);
    return answerList(call, call.query(), {
      name: 'endpoints',
      past,
      recordOf: (endpoint) => endpointJson(dependencies, endpoint),
    });
  },
});

const createEndpoint = route({
  ...common,
  method: 'POST',
  path: '/webhooks/endpoints',
  operationId: 'createWebhookEndpoint',
  summary: 'Create a webhook endpoint',
  body: json(Create, {
    url: 'https://shop.example/hooks',
    source: { projectionId: '0198c9d2-7e5a-7c31-8f0e-2f6f0a1b2c3d' },
    keys: ['t-1'],
    description: 'Transfers of the shop',
    headers: { authorization: 'Bearer a-token-of-yours' },
    ratePerSecond: 20,
    from: 'start',
  }),
  answers: { 201: NewWebhookEndpoint },
  errors: ['NOT_FOUND', 'QUOTA_EXCEEDED', 'WEBHOOK_URL_REFUSED'],
  serve: async (dependencies, call) => {
    const { endpoints } = dependencies;
    const asked = await call.body();
    checkHeaders(asked.headers);
    const endpoint = await endpoints.create(call.tenantId, asked as Parameters<typeof endpoints.create>[1]);
    call.answer(201, { ...endpointJson(dependencies, endpoint), secret: endpoints.secretOf(endpoint) });
  },
});

const getEndpoint = route({
  ...one,
  method: 'GET',
  operationId: 'getWebhookEndpoint',
  summary: 'A webhook endpoint',
  ofCatalog: true,
  answers: { 200: WebhookEndpoint },
  errors: ['NOT_FOUND'],
  serve: (dependencies, call) => {
    const endpoint = dependencies.endpoints.require(call.tenantId, call.parameter('id'));
    call.answer(200, endpointJson(dependencies, endpoint));
  },
});

/**
 * Before an endpoint is changed by a request that is short itself: all of its record is read, written and told again, by every process, so
 * that counts in the turns of its tenant as a body of its size. @throws StatefoldError NOT_FOUND
 */
async function turnToChange(
  { endpoints }: { readonly endpoints: Pick<RouteDependencies['endpoints'], 'require'> },
  { request, tenantId }: Pick<Call, 'request' | 'tenantId'>,
  endpointId: string,
): Promise<void> {
  const { keys = [], source } = endpoints.require(tenantId, endpointId);
  const { eventTypes = [], aggregateTypes = [] } = 'feed' in source ? source.feed : {};
  const texts = [...keys, ...eventTypes, ...aggregateTypes];
  await memoryOf(request)?.turnFor(texts.reduce((sum, { length }) => sum + length, 0));
}

const changeEndpoint = route({
  ...one,
  method: 'PATCH',
  operationId: 'changeWebhookEndpoint',
  summary: 'Change a webhook endpoint, from the next attempt on',
  body: json(Change, { url: 'https://shop.example/hooks/2', keys: null, headers: { 'x-team': 'orders' } }),
  answers: { 200: z.strictObject({ ...endpointMembers, secret: secret.optional() }) },
  errors: ['NOT_FOUND', 'QUOTA_EXCEEDED', 'WEBHOOK_URL_REFUSED'],
  serve: async (dependencies, call) => {
    const { endpoints } = dependencies;
    const asked = await call.body();
    checkHeaders(asked.headers);
    await turnToChange(dependencies, call, call.parameter('id'));
    const endpoint = await endpoints.change(
      call.tenantId,
      call.parameter('id'),
      asked as Parameters<typeof endpoints.change>[2],
    );
    // Which secret signs is another now.
    const told = asked.isolateSecret === undefined ? undefined : endpoints.secretOf(endpoint);
    call.answer(200, { ...endpointJson(dependencies, endpoint), secret: told });
  },
});

const deleteEndpoint = route({
  ...one,
  method: 'DELETE',
  operationId: 'deleteWebhookEndpoint',
  summary: 'Delete a webhook endpoint',
  answers: { 204: null },
  errors: ['NOT_FOUND'],
  serve: async ({ endpoints }, call) => {
    await endpoints.remove(call.tenantId, call.parameter('id'));
    call.done();
  },
});

const rotateEndpoint = route({
  ...common,
  method: 'POST',
  path: '/webhooks/endpoints/{id}/rotate',
  operationId: 'rotateWebhookEndpointSecret',
  summary: 'Rotate the secret of a webhook endpoint that has one of its own',
  answers: { 200: z.strictObject({ endpointId: text, secret, isolated: z.literal(true) }) },
  errors: ['NOT_FOUND', 'WEBHOOK_SECRET_SHARED'],
  serve: async ({ endpoints }, call) => {
    const endpointId = call.parameter('id');
    await turnToChange({ endpoints }, call, endpointId);
    const rotated = await endpoints.rotate(call.tenantId, endpointId);
    call.answer(200, { endpointId, secret: rotated, isolated: true });
  },
});

const testEndpoint = route({
  ...common,
  method: 'POST',
  path: '/webhooks/endpoints/{id}/test',
  operationId: 'testWebhookEndpoint',
  summary: 'Send a test message now, and tell what came of it',
  lasting: true,
  answers: { 200: z.strictObject({ delivered: z.boolean(), ...sent }) },
  errors: ['NOT_FOUND'],
  serve: async ({ endpoints, endpointOperations }, call) => {
    const endpoint = endpoints.require(call.tenantId, call.parameter('id'));
    const { messageId, outcome, at, durationMs } = await endpointOperations.test(endpoint);
    const refused = outcome.kind === 'delivered' ? undefined : outcome;
    call.answer(200, {
      delivered: refused === undefined,
      messageId,
      at: new Date(at).toISOString(),
      status: outcome.status,
      durationMs,
      error: refused && errorOf(refused),
      responseExcerpt: refused?.excerpt === '' ? undefined : refused?.excerpt,
    });
  },
});

const pauseEndpoint = route({
  ...common,
  method: 'POST',
  path: '/webhooks/endpoints/{id}/pause',
  operationId: 'pauseWebhookEndpoint',
  summary: 'Send nothing to a webhook endpoint until it is resumed',
  answers: { 200: WebhookEndpoint },
  errors: ['NOT_FOUND'],
  serve: async (dependencies, call) => {
    await turnToChange(dependencies, call, call.parameter('id'));
    const endpoint = await dependencies.endpoints.pause(call.tenantId, call.parameter('id'));
    call.answer(200, endpointJson(dependencies, endpoint));
  },
});

const resumeEndpoint = route({
  ...common,
  method: 'POST',
  path: '/webhooks/endpoints/{id}/resume',
  operationId: 'resumeWebhookEndpoint',
  summary: 'Go on with a webhook endpoint that was paused or disabled',
  answers: { 200: WebhookEndpoint },
  errors: ['NOT_FOUND'],
  serve: async (dependencies, call) => {
    await turnToChange(dependencies, call, call.parameter('id'));
    const endpoint = await dependencies.endpoints.resume(call.tenantId, call.parameter('id'));
    call.answer(200, endpointJson(dependencies, endpoint));
  },
});

/** The place of a message by the name that its feed has for it. */
const placeJson = ({ source }: EndpointWithUrl, position: number | undefined): object =>
  'feed' in source ? { position } : { sequence: position };

const outcomeOf: Parameter<string | undefined> = described(
  {
    schema: { type: 'string', pattern: '^(delivered|failed|[1-5]xx|[1-5][0-9][0-9])$' },
    read: (given) => {
      if (given === undefined || /^(delivered|failed|[1-5]xx|[1-5]\d\d)$/.test(given)) return given;
      throw new StatefoldError(
        'INVALID_REQUEST',
        'status must be delivered, failed, a status of HTTP like 503, or a class of them like 5xx',
      );
    },
  },
  'Only those that were delivered, that failed, or that were answered by this status of HTTP, like 503, or this class, like 5xx.',
);

function has(status: string, attempt: Pick<Attempt, 'error' | 'status'>): boolean {
  if (status === 'delivered' || status === 'failed') return (attempt.error === undefined) === (status === 'delivered');
  const answered = String(attempt.status ?? '');
  return status.endsWith('xx') ? answered.startsWith(status.charAt(0)) : answered === status;
}

const listAttempts = route({
  ...common,
  method: 'GET',
  path: '/webhooks/endpoints/{id}/attempts',
  operationId: 'listWebhookAttempts',
  summary: 'The latest attempts of a webhook endpoint, newest first',
  ofCatalog: true,
  query: { status: outcomeOf, ...paging },
  answers: { 200: listOf('attempts', WebhookAttempt) },
  errors: ['NOT_FOUND'],
  serve: async ({ endpoints, endpointOperations }, call) => {
    const endpoint = endpoints.require(call.tenantId, call.parameter('id'));
    const { status, ...asked } = call.query();
    await memoryOfLists(call);
    const all = await endpointOperations.attempts(endpoint);
    await answerList(call, asked, {
      name: 'attempts',
      past: beforeIn(all, ({ n }) => n),
      recordOf: ({ n: _n, position, ...attempt }: Attempt) =>
        status === undefined || has(status, attempt) ? { ...attempt, ...placeJson(endpoint, position) } : undefined,
    });
  },
});

const listDeadLetters = route({
  ...common,
  method: 'GET',
  path: '/webhooks/endpoints/{id}/parked',
  operationId: 'listParkedMessages',
  summary: 'Messages that were given up after their last attempt, highest place first',
  ofCatalog: true,
  query: paging,
  answers: { 200: listOf('parked', ParkedMessage) },
  errors: ['NOT_FOUND'],
  serve: ({ endpoints, endpointOperations }, call) => {
    const endpoint = endpoints.require(call.tenantId, call.parameter('id'));
    return answerList(call, call.query(), {
      name: 'parked',
      past: beforeIn(endpointOperations.deadLetters(endpoint), ({ position }) => position),
      recordOf: ({ position, ...letter }: DeadLetterWithId) => ({ ...letter, ...placeJson(endpoint, position) }),
    });
  },
});

const rangeJson = (endpoint: EndpointWithUrl, range: Awaited<ReturnType<EndpointOperations['replay']>>): object => ({
  endpointId: endpoint.endpointId,
  ...range,
});
const Replaying = z.strictObject({ endpointId: text, ...Range.shape });

const resendDeadLetter = route({
  ...common,
  method: 'POST',
  path: '/webhooks/endpoints/{id}/parked/{messageId}/resend',
  operationId: 'resendParkedMessage',
  summary: 'Send a message again that was given up',
  answers: { 202: Replaying },
  errors: ['CURSOR_EXPIRED', 'NOT_FOUND'],
  serve: async ({ endpoints, endpointOperations }, call) => {
    const endpoint = endpoints.require(call.tenantId, call.parameter('id'));
    call.answer(202, rangeJson(endpoint, await endpointOperations.resend(endpoint, call.parameter('messageId'))));
  },
});

const ResendAll = z.object({
  since: z.iso
    .datetime({ offset: true, error: 'must be a time of ISO 8601, like 2026-01-31T12:00:00Z' })
    .describe('Only those that were given up then or later.')
    .optional(),
});

const resendDeadLetters = route({
  ...common,
  method: 'POST',
  path: '/webhooks/endpoints/{id}/parked/resend',
  operationId: 'resendParkedMessages',
  summary: 'Send all messages again that were given up, or those since a time',
  body: optionalJson(ResendAll, { since: '2026-01-31T12:00:00.000Z' }),
  answers: {
    202: z.strictObject({
      endpointId: text,
      messages: integer.describe('How many are sent again. What retention has dropped is not among them.'),
      from: version.describe('The sequence or position of the first of them.').optional(),
      to: version.describe('Of the last of them.').optional(),
    }),
  },
  errors: ['NOT_FOUND'],
  serve: async ({ endpoints, endpointOperations }, call) => {
    const endpoint = endpoints.require(call.tenantId, call.parameter('id'));
    const { since } = await call.body();
    const { endpointId } = endpoint;
    call.answer(202, { endpointId, ...(await endpointOperations.resendAll(endpoint, since)) });
  },
});

const retryMessage = route({
  ...common,
  method: 'POST',
  path: '/webhooks/endpoints/{id}/messages/{messageId}/retry',
  operationId: 'retryWebhookMessage',
  summary: 'Attempt a message now that waits for its next attempt',
  answers: { 202: z.strictObject({ endpointId: text, messageId: text }) },
  errors: ['NOT_FOUND'],
  serve: async ({ endpoints, endpointOperations }, call) => {
    const endpoint = endpoints.require(call.tenantId, call.parameter('id'));
    const messageId = call.parameter('messageId');
    await endpointOperations.retry(endpoint, messageId);
    call.answer(202, { endpointId: endpoint.endpointId, messageId });
  },
});

const replayEndpoint = route({
  ...common,
  method: 'POST',
  path: '/webhooks/endpoints/{id}/replay',
  operationId: 'replayWebhookEndpoint',
  summary: 'Send a range again, beside what is live',
  body: json(Replay, { from: 1, to: 100 }),
  answers: { 202: Replaying },
  errors: ['CURSOR_EXPIRED', 'NOT_FOUND'],
  serve: async ({ endpoints, endpointOperations }, call) => {
    const endpoint = endpoints.require(call.tenantId, call.parameter('id'));
    const { from, to } = await call.body();
    if (to !== undefined && to < from) refuse(WHAT, [{ pointer: '/to', message: 'must not be less than from' }]);
    call.answer(202, rangeJson(endpoint, await endpointOperations.replay(endpoint, from, to)));
  },
});

export const WEBHOOK_ENDPOINTS = [
  listEndpoints,
  createEndpoint,
  getEndpoint,
  changeEndpoint,
  deleteEndpoint,
  rotateEndpoint,
  testEndpoint,
  pauseEndpoint,
  resumeEndpoint,
  listAttempts,
  listDeadLetters,
  resendDeadLetter,
  resendDeadLetters,
  retryMessage,
  replayEndpoint,
];
