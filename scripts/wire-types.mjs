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

/**
 * JSON Schema (2020-12) as a TypeScript type. `isSent`: of what clients make; there a member may be undefined, which JSON leaves out, and what
 * may have any members may be of an interface, which has no index signature.
 */
function typeOf(schema, isSent = false) {
  if (schema === undefined || Object.keys(schema).every((key) => key === 'description')) return 'unknown';
  if (schema.$ref) return schema.$ref.slice(REF.length);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const any = schema.anyOf ?? schema.oneOf;
  if (any) return any.map((one) => `(${typeOf(one, isSent)})`).join(' | ');
  if (schema.allOf) return schema.allOf.map((one) => `(${typeOf(one, isSent)})`).join(' & ');
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type }, isSent)).join(' | ');
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
      return `readonly (${typeOf(schema.items, isSent)})[]`;
    case 'object':
      return objectOf(schema, isSent);
    default:
      return 'unknown';
  }
}

function objectOf({ properties = {}, required = [], additionalProperties }, isSent) {
  const members = Object.entries(properties).map(([name, schema]) => {
    const type = typeOf(schema, isSent);
    const member = required.includes(name) ? `: ${type}` : `?: ${type}${isSent ? ' | undefined' : ''}`;
    return `${comment(schema)}readonly ${quoted(name)}${member};`;
  });
  const open = additionalProperties !== false && additionalProperties !== undefined;
  const others = open ? typeOf(additionalProperties, isSent) : 'unknown';
  if (isSent && members.length === 0 && others === 'unknown') return 'object';
  if (open) members.push(`readonly [member: string]: ${members.length > 0 ? 'unknown' : others};`);
  return members.length === 0 ? 'Readonly<Record<string, unknown>>' : `{\n${members.join('\n')}\n}`;
}

/** Names of the schemas that are referred to, also by these. */
function referred(part, schemas, found = new Set()) {
  for (const [, name] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
    if (found.has(name)) continue;
    found.add(name);
    referred(schemas[name], schemas, found);
  }
  return found;
}

const bodyOf = ({ requestBody }) => {
  if (requestBody === undefined) return 'undefined';
  const [[type, { schema }]] = Object.entries(requestBody.content);
  const of =
    type === 'application/json' ? typeOf(schema, true) : type === 'multipart/form-data' ? 'FormData' : 'string';
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
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  const named = (parts) => referred(parts, document.components.schemas);
  const sent = named(operations.map(({ operation }) => operation.requestBody ?? {}));
  const answered = named(operations.map(({ operation }) => operation.responses));
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) =>
      `${comment(schema)}export type ${name} = ${typeOf(schema, sent.has(name) && !answered.has(name))};`,
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
