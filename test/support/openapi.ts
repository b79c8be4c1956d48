import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { ValidateFunction } from 'ajv/dist/2020.js';
import type { Answers, OpenapiChecks } from './openapi-checks.js';

/** Where `npm test` had the checks written (openapi-checks.ts). */
const WRITTEN = process.env['STATEFOLD_TEST_OPENAPI'];
const { answers, check } =
  WRITTEN === undefined ? (await import('./openapi-checks.js')).compileChecks() : load(WRITTEN);

function load(folder: string): OpenapiChecks {
  const require = createRequire(import.meta.url);
  const checks = require(join(folder, 'checks.cjs')) as Record<string, ValidateFunction>;
  return {
    answers: require(join(folder, 'answers.json')) as Answers,
    check: (name) => checks[name] as ValidateFunction,
  };
}

const paths = Object.keys(answers)
  // `/events/batch` before `/events/{aggregateId}`
  .sort((a, b) => a.split('{').length - b.split('{').length)
  .map((path) => ({ path, pattern: new RegExp(`^${path.replace(/[.]/g, '\\.').replace(/\{\w+\}/g, '[^/]+')}$`) }));

/**
 * What is wrong with an answer by the OpenAPI document, in words; undefined when nothing is. `path` is the requested one, without
 * its query; `body` is parsed JSON, or undefined where there is none. Paths that the document doesn't have may answer problems only.
 */
export function openapiFault(method: string, path: string, status: number, body: unknown): string | undefined {
  const found = paths.find(
    (candidate) => candidate.pattern.test(path) && answers[candidate.path]?.[method.toLowerCase()] !== undefined,
  );
  if (found === undefined)
    return status === 404 || status === 405 || status === 401
      ? faultOf('problem', body)
      : `${method} ${path} is not in the document`;
  const name = answers[found.path]?.[method.toLowerCase()]?.[String(status)];
  if (name === undefined) return `${method} ${found.path} has no answer ${status}`;
  const fault = name === null ? undefined : faultOf(name, body);
  return fault === undefined ? undefined : `${method} ${found.path} ${status}: ${fault}`;
}

function faultOf(name: string, body: unknown): string | undefined {
  const validate = check(name);
  if (validate(body)) return undefined;
  return validate.errors?.map(({ instancePath, message }) => `body${instancePath} ${message}`).join(', ');
}
