import type { IncomingMessage } from 'node:http';
import type { z } from 'zod';
import { StatefoldError, type FieldError } from '../core/errors.js';
import { scanJson } from '../core/json-scanner.js';
import { readBody, requireJson } from './body.js';

/** A small JSON body, checked; members that the schema doesn't know are passed over. @throws StatefoldError INVALID_REQUEST and what `body.ts` has */
export async function readJsonBody<T>(
  request: IncomingMessage,
  limits: { readonly maxBodyBytes: number; readonly maxJsonDepth: number },
  schema: z.ZodType<T>,
): Promise<T> {
  requireJson(request);
  const body = await readBody(request, limits.maxBodyBytes);
  scanJson(body, { maxDepth: limits.maxJsonDepth });
  return checked(JSON.parse(body.toString('utf8')), schema, 'The body is invalid');
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
