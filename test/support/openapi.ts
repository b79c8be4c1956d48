import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { openapiDocument } from '../../src/http/openapi/document.js';

interface Document {
  readonly paths: Readonly<
    Record<
      string,
      Readonly<
        Record<
          string,
          { readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, unknown>> }>> }
        >
      >
    >
  >;
}

const document = openapiDocument() as Document & object;
const ajv = new Ajv2020({ strict: false, allErrors: true });
ajv.addSchema(document, 'openapi');
const compiled = new Map<string, ValidateFunction>();

const paths = Object.keys(document.paths)
  // `/events/batch` before `/events/{aggregateId}`
  .sort((a, b) => a.split('{').length - b.split('{').length)
  .map((path) => ({ path, pattern: new RegExp(`^${path.replace(/[.]/g, '\\.').replace(/\{\w+\}/g, '[^/]+')}$`) }));

/**
 * What is wrong with an answer by the OpenAPI document, in words; undefined when nothing is. `path` is the requested one, without
 * its query; `body` is parsed JSON, or undefined where there is none. Paths that the document doesn't have may answer problems only.
 */
export function openapiFault(method: string, path: string, status: number, body: unknown): string | undefined {
  const found = paths.find(
    (candidate) => candidate.pattern.test(path) && document.paths[candidate.path]?.[method.toLowerCase()] !== undefined,
  );
  if (found === undefined)
    return status === 404 || status === 405 || status === 401
      ? faultOf('#/components/schemas/Problem', body)
      : `${method} ${path} is not in the document`;
  const response = document.paths[found.path]?.[method.toLowerCase()]?.responses[String(status)];
  if (response === undefined) return `${method} ${found.path} has no answer ${status}`;
  const type = Object.keys(response.content ?? {})[0];
  // What is no JSON has no members to compare.
  if (type === undefined || !/[/+]json$/.test(type)) return undefined;
  const place = ['paths', found.path, method.toLowerCase(), 'responses', String(status), 'content', type, 'schema'];
  const fault = faultOf(
    `#/${place.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`,
    body,
  );
  return fault === undefined ? undefined : `${method} ${found.path} ${status}: ${fault}`;
}

function faultOf(pointer: string, body: unknown): string | undefined {
  let validate = compiled.get(pointer);
  if (validate === undefined) compiled.set(pointer, (validate = ajv.compile({ $ref: `openapi${pointer}` })));
  return validate(body) ? undefined : ajv.errorsText(validate.errors, { dataVar: 'body' });
}
