// Writes packages/client/src/wire.ts from the OpenAPI document of the service, which is made of its one table of routes:
// `npm run build && node scripts/wire-types.mjs`. A test compares the two.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import * as prettier from 'prettier';
import { ROOT } from './setup.mjs';

export const WIRE = join(ROOT, 'packages', 'client', 'src', 'wire.ts');
const REF = '#/components/schemas/';
const quoted = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));
const comment = (schema) => (schema.description ? `/** ${schema.description} */\n` : '');

/** JSON Schema (2020-12) as a TypeScript type. */
function typeOf(schema) {
  if (schema === undefined || Object.keys(schema).every((key) => key === 'description')) return 'unknown';
  if (schema.$ref) return schema.$ref.slice(REF.length);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const any = schema.anyOf ?? schema.oneOf;
  if (any) return any.map((one) => `(${typeOf(one)})`).join(' | ');
  if (schema.allOf) return schema.allOf.map((one) => `(${typeOf(one)})`).join(' & ');
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type })).join(' | ');
  switch (schema.type) {
    case 'string':
      return 'string';
    case 'integer':
    case 'number':
      return 'number';
    case 'boolean':
      return 'boolean';
    case 'null':
      return 'null';
    case 'array':
      return `readonly (${typeOf(schema.items)})[]`;
    case 'object':
      return objectOf(schema);
    default:
      return 'unknown';
  }
}

function objectOf({ properties = {}, required = [], additionalProperties }) {
  const members = Object.entries(properties).map(
    ([name, schema]) =>
      `${comment(schema)}readonly ${quoted(name)}${required.includes(name) ? '' : '?'}: ${typeOf(schema)};`,
  );
  const open = additionalProperties !== false && additionalProperties !== undefined;
  if (open)
    members.push(`readonly [member: string]: ${members.length > 0 ? 'unknown' : typeOf(additionalProperties)};`);
  return members.length === 0 ? 'Readonly<Record<string, unknown>>' : `{\n${members.join('\n')}\n}`;
}

const bodyOf = ({ requestBody }) => {
  if (requestBody === undefined) return 'undefined';
  const [[type, { schema }]] = Object.entries(requestBody.content);
  const of = type === 'application/json' ? typeOf(schema) : type === 'multipart/form-data' ? 'FormData' : 'string';
  return requestBody.required ? of : `${of} | undefined`;
};

const answerOf = ({ responses }) => {
  const good = Object.entries(responses).filter(([status]) => Number(status) < 400);
  const types = good.map(([, { content }]) => {
    if (content === undefined) return 'undefined';
    const [[type, { schema }]] = Object.entries(content);
    return type === 'application/json' ? typeOf(schema) : 'string';
  });
  return [...new Set(types)].join(' | ');
};

const parametersOf = ({ parameters = [] }, place) => {
  const of = parameters.filter((parameter) => parameter.in === place);
  if (of.length === 0) return 'undefined';
  return `{\n${of
    .map(
      ({ name, description, schema }) =>
        `${comment({ description })}readonly ${quoted(name)}${place === 'path' ? '' : '?'}: ${typeOf(schema)}${place === 'path' ? '' : ' | undefined'};`,
    )
    .join('\n')}\n}`;
};

/** The text of wire.ts. */
export async function wireTypes(document) {
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) => `${comment(schema)}export type ${name} = ${typeOf(schema)};`,
  );
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  const types = operations.map(
    ({ operation }) => `/** ${operation.summary}. */
  readonly ${operation.operationId}: {
    readonly path: ${parametersOf(operation, 'path')};
    readonly query: ${parametersOf(operation, 'query')};
    readonly body: ${bodyOf(operation)};
    readonly answer: ${answerOf(operation)};
  };`,
  );
  const table = operations.map(({ path, method, operation: { operationId, security } }) => {
    const [scheme = 'none'] = security.flatMap((one) => Object.keys(one));
    return `${operationId}: { method: ${JSON.stringify(method)}, path: ${JSON.stringify(path)}, key: ${JSON.stringify(scheme)} },`;
  });
  const text = `// Made by scripts/wire-types.mjs from the service's table of routes: change that, and run the script.

${schemas.join('\n\n')}

/** What goes over the wire, by operation: the parameters of its path and query, its body, and the body of its success. */
export interface Operations {
${types.join('\n')}
}

export type OperationId = keyof Operations;

/** Where each operation is, and whose key it takes. */
export const OPERATIONS = {
${table.join('\n')}
} as const satisfies Readonly<
  Record<OperationId, { readonly method: string; readonly path: string; readonly key: 'tenant' | 'admin' | 'none' }>
>;
`;
  return prettier.format(text, { ...(await prettier.resolveConfig(WIRE)), filepath: WIRE });
}

if (process.argv[1] && pathToFileURL(process.argv[1]).href === import.meta.url) {
  const { openapiDocument } = await import(
    pathToFileURL(join(ROOT, 'dist', 'src', 'http', 'openapi', 'document.js')).href
  );
  writeFileSync(WIRE, await wireTypes(openapiDocument()));
}
