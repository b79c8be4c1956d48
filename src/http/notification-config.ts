import { StatefoldError } from '../core/errors.js';
import { JsonError, scanJson } from '../core/json-scanner.js';
import type { NotificationConfig } from '../deployments/deployments.js';
import { z } from 'zod';
import { checked } from './json-body.js';

const flag = z.boolean('must be true or false').optional();
const unknownKeys =
  (known: string) =>
  (issue: { readonly code?: string | undefined }): string =>
    issue.code === 'unrecognized_keys'
      ? `has a key that is not known: the known ones are ${known}`
      : 'must be an object';

const WEBHOOK = z.strictObject(
  {
    url: z.string('must be a string').min(1, 'must not be empty').max(2048, 'must have at most 2048 characters'),
    isolateSecret: flag,
  },
  { error: unknownKeys('url, isolateSecret') },
);
const CONFIG = z.strictObject(
  { webhook: WEBHOOK.nullish(), isolateSecret: flag, sse: flag },
  { error: unknownKeys('webhook, isolateSecret, sse') },
);
const WRAPPED = z.strictObject({ notifications: CONFIG }, { error: unknownKeys('notifications') });

/**
 * The form field `config` of a projection's upload: `{ webhook: { url, isolateSecret? } | null, isolateSecret?, sse? }`, bare or as
 * `notifications`; `webhook: null` is none. The address of the URL is checked where it is stored. @throws StatefoldError INVALID_REQUEST
 */
export function readNotificationConfig(text: string, maxDepth: number): NotificationConfig {
  const value = parse(text, maxDepth);
  const wrapped = typeof value === 'object' && value !== null && Object.hasOwn(value, 'notifications');
  const config = wrapped
    ? checked(value, WRAPPED, 'The field config is invalid').notifications
    : checked(value, CONFIG, 'The field config is invalid');
  return {
    webhookUrl: config.webhook?.url,
    isolateSecret: config.isolateSecret === true || config.webhook?.isolateSecret === true,
    sse: config.sse === true,
  };
}

function parse(text: string, maxDepth: number): unknown {
  try {
    scanJson(Buffer.from(text), { maxDepth });
  } catch (error) {
    if (error instanceof JsonError)
      throw new StatefoldError('INVALID_REQUEST', `The field config is not valid JSON: ${error.message}.`, {
        cause: error,
      });
    throw error;
  }
  return JSON.parse(text);
}
