import { z } from 'zod';
import type { ErrorCode } from '../../core/errors.js';
import { PROBLEM_TYPE, statusOf } from '../problem.js';
import { PATH_PARAMETER } from '../route.js';
import type { Route } from '../routes/dependencies.js';
import { components, Problem } from '../schema.js';
import { ROUTES } from '../table.js';

/** JSON Schema (2020-12), as OpenAPI 3.1 has it. */
type Schema = Readonly<Record<string, unknown>>;

/** The OpenAPI 3.1 document of the service, made of the table of routes: `/openapi.json`, and what the tests check answers against. */
export function openapiDocument(): object {
  const routes = ROUTES.filter(({ described }) => described !== false);
  const { schemas, schemaOf } = jsonSchemas(routes);
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) (paths[route.path] ??= {})[route.method.toLowerCase()] = operation(route, schemaOf);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Statefold',
      version: '0.1.0',
      description: 'Event store with computed state.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The service that this document is of.' }],
    tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas,
      securitySchemes: {
        tenant: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        ticket: { type: 'apiKey', in: 'query', name: 'ticket', description: 'Of POST /auth/tickets.' },
        admin: { type: 'apiKey', in: 'header', name: 'X-Admin-Key' },
      },
    },
  };
}

const REF = '#/components/schemas/';
/** Schemas of one route, which have no name in `components`. */
const UNNAMED = 'of one route ';

/** All schemas at once, so that each refers to those that are named. */
function jsonSchemas(routes: readonly Route[]): {
  readonly schemas: Readonly<Record<string, Schema>>;
  readonly schemaOf: (schema: z.ZodType) => Schema;
} {
  const registry = z.registry<{ id: string }>();
  const names = new Map<z.ZodType, string>();
  const add = (schema: z.ZodType, id: string): void => {
    if (names.has(schema)) return;
    names.set(schema, id);
    registry.add(schema, { id });
  };
  for (const [id, schema] of components()) add(schema, id);
  const used = routes.flatMap(({ body, answers }) => [
    body?.schema,
    ...Object.values(answers).map((answer) => (answer !== null && 'media' in answer ? answer.lines : answer)),
  ]);
  for (const schema of used) if (schema instanceof z.ZodType) add(schema, UNNAMED + names.size);
  const { schemas } = z.toJSONSchema(registry, {
    uri: (id) => REF + id,
    override: ({ jsonSchema }) => {
      // Integers are safe ones by themselves, and the names of members text.
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      delete jsonSchema.propertyNames;
    },
  });
  const plain = (id: string): Schema => {
    const { $schema: _dialect, $id: _uri, ...schema } = schemas[id] ?? {};
    return schema;
  };
  return {
    schemas: Object.fromEntries([...components().keys()].map((id) => [id, plain(id)])),
    schemaOf: (schema) => {
      const id = names.get(schema) ?? '';
      return id.startsWith(UNNAMED) ? plain(id) : { $ref: REF + id };
    },
  };
}

function operation(route: Route, schemaOf: (schema: z.ZodType) => Schema): object {
  const { path, operationId, tag, summary, query = {}, headers = {}, body } = route;
  const parameters = [
    ...[...path.matchAll(PATH_PARAMETER)].map(([, name]) => ({
      name,
      in: 'path',
      required: true,
      schema: { type: 'string' },
    })),
    ...Object.entries(query).map(([name, { schema }]) => parameter(name, 'query', schema)),
    ...Object.entries(headers).map(([name, schema]) => parameter(name, 'header', schema)),
  ];
  const content = body && {
    [body.contentType]: {
      schema: body.schema instanceof z.ZodType ? schemaOf(body.schema) : body.schema,
      ...(body.example === undefined ? {} : { example: body.example }),
    },
  };
  return {
    operationId,
    tags: [tag],
    summary,
    security: securityOf(route),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(content && { requestBody: { required: body.required, content } }),
    responses: { ...answers(route, schemaOf), ...refusals(route) },
  };
}

/** Any one of them. */
function securityOf({ credentials, scope, tickets }: Route): object[] {
  if (credentials === 'none') return [];
  const key = { [credentials]: scope === undefined || scope === 'any' ? [] : [scope] };
  return tickets ? [key, { ticket: [] }] : [key];
}

/** What a schema describes is described where it is used. */
function parameter(name: string, place: 'query' | 'header', { description, ...schema }: Schema): object {
  return { name, in: place, required: false, ...(description === undefined ? {} : { description }), schema };
}

function answers(route: Route, schemaOf: (schema: z.ZodType) => Schema): object {
  const content = (answer: Route['answers'][number]): object => {
    if (answer === null) return {};
    const others = Object.fromEntries((route.orAs ?? []).map((media) => [media, { schema: { type: 'string' } }]));
    if (answer instanceof z.ZodType)
      return { content: { 'application/json': { schema: schemaOf(answer) }, ...others } };
    return {
      content: { [answer.media]: { schema: answer.lines === undefined ? { type: 'string' } : schemaOf(answer.lines) } },
    };
  };
  const headers = route.answerHeaders && {
    headers: Object.fromEntries(
      Object.entries(route.answerHeaders).map(([name, { description, ...schema }]) => [name, { description, schema }]),
    ),
  };
  return Object.fromEntries(
    Object.entries(route.answers).map(([status, answer]) => [
      status,
      { description: 'Done', ...headers, ...content(answer) },
    ]),
  );
}

/** Codes that any route of its kind may answer. */
function usualErrors({ body, credentials, scope }: Route): readonly ErrorCode[] {
  return [
    'INVALID_REQUEST',
    'INTERNAL',
    'UNAVAILABLE',
    ...(credentials === 'none' ? [] : (['UNAUTHENTICATED'] as const)),
    ...(credentials === 'tenant' ? (['RATE_LIMITED', 'TENANT_SUSPENDED'] as const) : []),
    ...(scope === undefined || scope === 'any' ? [] : (['FORBIDDEN'] as const)),
    ...(body === undefined ? [] : (['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'] as const)),
  ];
}

/** By status, with the codes that it may have. */
function refusals(route: Route): object {
  const codes = new Map<number, ErrorCode[]>();
  for (const code of [...usualErrors(route), ...(route.errors ?? [])]) {
    const status = statusOf(code);
    codes.set(status, [...(codes.get(status) ?? []), code]);
  }
  const problem = { $ref: REF + ([...components()].find(([, schema]) => schema === Problem)?.[0] ?? '') };
  return Object.fromEntries(
    [...codes].map(([status, of]) => [
      status,
      {
        description: `Refused: ${of.join(', ')}`,
        content: {
          [PROBLEM_TYPE]: { schema: { allOf: [problem, { type: 'object', properties: { code: { enum: of } } }] } },
        },
      },
    ]),
  );
}
