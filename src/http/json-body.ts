import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { StatefoldError, type FieldError } from '../core/errors.js';
import { scanJson } from '../core/json-scanner.js';
import { readBody, requireJson } from './body.js';
import { pointerPart, unknownMember } from './nearest-name.js';

/** So many are told at once. */
const MAX_UNKNOWN = 20;
const WHAT = 'The body is invalid';

/** A small JSON body, checked; a member that the schema doesn't know is a fault: a misspelt one would be dropped without a word. @throws StatefoldError INVALID_REQUEST and what `body.ts` has */
export async function readJsonBody<T>(
  request: IncomingMessage,
  limits: { readonly maxBodyBytes: number; readonly maxJsonDepth: number },
  schema: z.ZodType<T>,
): Promise<T> {
  requireJson(request);
  const body = await readBody(request, limits.maxBodyBytes);
  scanJson(body, { maxDepth: limits.maxJsonDepth });
  const value: unknown = JSON.parse(body.toString('utf8'));
  if (schema instanceof z.ZodObject) refuse(WHAT, unknownMembers(value, schema).slice(0, MAX_UNKNOWN));
  return checked(value, schema, WHAT);
}

/** Each member that the schema doesn't know, with its place below `pointer`; none where the value is no object. */
export function unknownMembers(value: unknown, schema: z.ZodObject, pointer = ''): FieldError[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  const known = Object.keys(schema.shape);
  return Object.keys(value)
    .filter((name) => !known.includes(name))
    .map((name) => ({ pointer: `${pointer}/${pointerPart(name)}`, message: unknownMember(name, known) }));
}

/** @throws StatefoldError INVALID_REQUEST with the errors, unless there are none */
export function refuse(what: string, errors: readonly FieldError[]): void {
  const [first] = errors;
  if (first !== undefined) throw invalid(what, first, errors);
}

function invalid(what: string, { pointer, message }: FieldError, errors: readonly FieldError[]): StatefoldError {
  const place = pointer === '' ? '' : `${pointer} `;
  const end = message.endsWith('?') ? '' : '.';
  return new StatefoldError('INVALID_REQUEST', `${what}: ${place}${message}${end}`, { errors });
}

/** @throws StatefoldError INVALID_REQUEST with every fault and its place */
export function checked<T>(value: unknown, schema: z.ZodType<T>, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues.map((issue): FieldError => ({
    pointer: issue.path.map((part) => `/${escaped(String(part))}`).join(''),
    message: issue.message,
  }));
  throw invalid(what, errors[0] ?? { pointer: '', message: 'is not as it must be' }, errors);
}

const escaped = (part: string): string => part.replaceAll('~', '~0').replaceAll('/', '~1');
