import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { StatefoldError, type FieldError } from '../core/errors.js';
import { scanJson } from '../core/json-scanner.js';
import { readBody, requireJson } from './body.js';
import { pointerPart, unknownMember } from './nearest-name.js';

/** So many are told at once. */
const MAX_UNKNOWN = 20;

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
  if (schema instanceof z.ZodObject) refuseUnknown(value, Object.keys(schema.shape));
  return checked(value, schema, 'The body is invalid');
}

/** @throws StatefoldError INVALID_REQUEST with the place of each member that is none of these */
function refuseUnknown(value: unknown, known: readonly string[]): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
  const errors = Object.keys(value)
    .filter((name) => !known.includes(name))
    .slice(0, MAX_UNKNOWN)
    .map((name) => ({ pointer: `/${pointerPart(name)}`, message: unknownMember(name, known) }));
  const [first] = errors;
  if (first !== undefined)
    throw new StatefoldError(
      'INVALID_REQUEST',
      `The body is invalid: ${first.pointer} ${first.message}${first.message.endsWith('?') ? '' : '.'}`,
      { errors },
    );
}

/** @throws StatefoldError INVALID_REQUEST with every fault and its place */
export function checked<T>(value: unknown, schema: z.ZodType<T>, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues.map((issue): FieldError => ({
    pointer: issue.path.map((part) => `/${escaped(String(part))}`).join(''),
    message: issue.message,
  }));
  const [first] = errors;
  throw new StatefoldError(
    'INVALID_REQUEST',
    `${what}: ${first?.pointer === '' ? '' : `${first?.pointer} `}${first?.message}.`,
    { errors },
  );
}

const escaped = (part: string): string => part.replaceAll('~', '~0').replaceAll('/', '~1');
