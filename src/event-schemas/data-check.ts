import type { FieldError } from '../core/errors.js';
import type { JsonSchema } from './json-schema.js';
import { TooCostlyError, type Run } from './run.js';

/** What was found of an event's data. */
export type DataCheck =
  | { readonly kind: 'fits' }
  | { readonly kind: 'unfit'; readonly violations: readonly FieldError[] }
  /** It neither fits nor doesn't: its check takes more than its size allows. */
  | { readonly kind: 'too_costly' };

const FITS: DataCheck = { kind: 'fits' };
export const TOO_COSTLY: DataCheck = { kind: 'too_costly' };

/** Parses the data, JSON, and holds it against the schema; `run` is of its size, and is told what that took. */
export function checkData(schema: JsonSchema, data: Buffer, run: Run): DataCheck {
  try {
    const value: unknown = JSON.parse(data.toString('utf8'));
    return schema.check(value, run) ? FITS : { kind: 'unfit', violations: run.violations };
  } catch (error) {
    if (error instanceof TooCostlyError) return TOO_COSTLY;
    throw error;
  }
}
