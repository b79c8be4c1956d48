import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { StatefoldError, type FieldError } from '../core/errors.js';
import { scanJson } from '../core/json-scanner.js';
import { hasBody, MAX_FORM_BYTES, readBody, requireJson } from './body.js';
import { pointerPart, unknownMember } from './nearest-name.js';
import type { Parameters, Values } from './parameters.js';
import { MAX_ERRORS, shortened } from './problem.js';
import { memoryOf, responseOf } from './request-memory.js';
import type { Upload, UploadLimits } from './upload.js';

/** The settings by which bodies are read. */
export interface BodySettings extends UploadLimits {
  readonly maxBodyBytes: number;
  readonly maxJsonDepth: number;
}

/** The body of a route: what it may be, for the reader of the document, and how it is read. */
export interface Body<T> {
  readonly contentType: 'application/json' | 'application/x-ndjson' | 'multipart/form-data';
  /** False: it may be left out, and is then read as an empty one. */
  readonly required: boolean;
  /** Of JSON, by zod; of a form, JSON Schema (2020-12). */
  readonly schema: z.ZodType | Readonly<Record<string, unknown>>;
  readonly example?: unknown;
  /** Most bytes of it. */
  limit(settings: BodySettings): number;
  /** @throws StatefoldError UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, INVALID_REQUEST and what the kind has besides; RequestAbortedError */
  read(request: IncomingMessage, settings: BodySettings): Promise<T>;
}

/** Of a JSON body that is read whole: what is made of a value takes far longer than its bytes do. */
export const MAX_JSON_VALUES = 5_000;
const WHAT = 'The body is invalid';

const JSON_BODY = {
  contentType: 'application/json',
  required: true,
  limit: ({ maxBodyBytes }: BodySettings) => maxBodyBytes,
} as const;

/** A small JSON body; a member that the schema doesn't know is a fault: a misspelt one would be dropped without a word. */
export const json = <T>(schema: z.ZodType<T>, example?: unknown, maxValues?: number): Body<T> => ({
  ...JSON_BODY,
  schema,
  example,
  read: async (request, settings) => {
    const value = await readJson(request, settings, maxValues);
    if (schema instanceof z.ZodObject) refuse(WHAT, unknownMembers(value, schema));
    return checked(value, schema, WHAT);
  },
});

/** As `json`, where the body may be left out: all of its members are optional. */
export function optionalJson<T>(schema: z.ZodType<T>, example?: unknown): Body<T> {
  const body = json(schema, example);
  return {
    ...body,
    required: false,
    read: (request, settings) => (hasBody(request) ? body.read(request, settings) : Promise.resolve(schema.parse({}))),
  };
}

/** JSON that `parse` reads, within the limits. */
export const jsonBy = <T>(
  schema: z.ZodType,
  parse: (text: string, settings: BodySettings) => T,
  example?: unknown,
): Body<T> => ({
  ...JSON_BODY,
  schema,
  example,
  read: async (request, settings) => {
    requireJson(request);
    return parse((await readInTurn(request, settings.maxBodyBytes)).toString('utf8'), settings);
  },
});

/** JSON texts, each ended by a line feed, which the handler reads itself as they come; the schema is that of one. */
export const ndjson = <T>(schema: z.ZodType<T>, example?: unknown): Body<undefined> => ({
  ...JSON_BODY,
  contentType: 'application/x-ndjson',
  schema,
  example,
  read: () => Promise.reject(new Error('a body of lines is read line by line')),
});

/** Sources of code, fixtures where they are wanted, and fields beside them; a field that isn't among these is a fault. */
export const upload = <F extends Parameters>(
  fields: F,
  { withFixtures = false }: { readonly withFixtures?: boolean } = {},
): Body<Omit<Upload, 'fields'> & { readonly fields: Values<F> }> => ({
  contentType: 'multipart/form-data',
  required: true,
  schema: {
    type: 'object',
    properties: {
      file: {
        type: 'string',
        contentMediaType: 'application/octet-stream',
        description: withFixtures
          ? 'A zip of .cs files with .json files in a folder fixtures, or .cs and .json files; in fields of any name.'
          : 'A zip of .cs files, or .cs files; in a field of any name.',
      },
      ...Object.fromEntries(Object.entries(fields).map(([name, { schema }]) => [name, schema])),
    },
  },
  limit: ({ maxUploadBytes }) => maxUploadBytes + MAX_FORM_BYTES,
  read: async (request, settings) => {
    // The readers of forms and archives wait for the first one.
    const { readUpload, requireFields } = await import('./upload.js');
    const { fields: given, ...files } = await readUpload(request, settings, { withFixtures });
    requireFields(given, Object.keys(fields));
    const values = Object.fromEntries(
      Object.entries(fields).map(([name, parameter]) => [name, parameter.read(given.get(name), name)]),
    );
    return { ...files, fields: values as Values<F> };
  },
});

/**
 * The body, on the turn of its tenant on which it may be parsed; it is held of the tenant's budget as it comes.
 * @throws StatefoldError PAYLOAD_TOO_LARGE, RATE_LIMITED, UNAVAILABLE; RequestAbortedError
 */
export async function readInTurn(request: IncomingMessage, maxBodyBytes: number): Promise<Buffer> {
  const memory = memoryOf(request);
  const response = responseOf(request);
  const body = await readBody(request, maxBodyBytes, undefined, response && memory?.bodyOf(response));
  const turn = memory?.turnFor(body.length);
  if (turn !== undefined) await turn;
  return body;
}

/**
 * A body of JSON, parsed on the turn of its tenant.
 * @throws StatefoldError UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, RATE_LIMITED, UNAVAILABLE; JsonError, RequestAbortedError
 */
export async function readJson(
  request: IncomingMessage,
  { maxBodyBytes, maxJsonDepth }: Pick<BodySettings, 'maxBodyBytes' | 'maxJsonDepth'>,
  maxValues = MAX_JSON_VALUES,
): Promise<unknown> {
  requireJson(request);
  const body = await readInTurn(request, maxBodyBytes);
  scanJson(body, { maxDepth: maxJsonDepth, maxValues });
  return JSON.parse(body.toString('utf8'));
}

/** Each member that the schema doesn't know, with its place below `pointer`; none where the value is no object. What was meant is looked for of those that are told. */
export function unknownMembers(value: unknown, schema: z.ZodObject, pointer = ''): FieldError[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  const known = Object.keys(schema.shape);
  return Object.keys(value)
    .filter((name) => !known.includes(name))
    .map((name, i) => ({
      pointer: `${pointer}/${pointerPart(name)}`,
      message: i < MAX_ERRORS ? unknownMember(name, known) : 'is not a known member',
    }));
}

/** @throws StatefoldError INVALID_REQUEST with the errors, unless there are none */
export function refuse(what: string, errors: readonly FieldError[]): void {
  const [first] = errors;
  if (first !== undefined) throw invalid(what, first, errors);
}

function invalid(what: string, { pointer, message }: FieldError, errors: readonly FieldError[]): StatefoldError {
  const place = pointer === '' ? '' : `${pointer} `;
  const end = message.endsWith('?') ? '' : '.';
  return new StatefoldError('INVALID_REQUEST', `${what}: ${shortened(place)}${shortened(message)}${end}`, { errors });
}

/** @throws StatefoldError INVALID_REQUEST with every fault and its place */
export function checked<T>(value: unknown, schema: z.ZodType<T>, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues.map((issue): FieldError => ({
    pointer: issue.path.map((part) => `/${pointerPart(String(part))}`).join(''),
    message: issue.message,
  }));
  throw invalid(what, errors[0] ?? { pointer: '', message: 'is not as it must be' }, errors);
}
