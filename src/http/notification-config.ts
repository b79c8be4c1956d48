import { StatefoldError } from '../core/errors.js';
import { JsonError, scanJson } from '../core/json-scanner.js';
import type { NotificationConfig as Configured } from '../deployments/deployments.js';
import { z } from 'zod';
import { checked, MAX_JSON_VALUES, refuse, unknownMembers } from './bodies.js';
import { anyText, type Parameter } from './parameters.js';

const WHAT = 'The field config is invalid';
const flag = z.boolean('must be true or false').optional();
const WEBHOOK = z.object(
  {
    url: z
      .string('must be a string')
      .min(1, 'must not be empty')
      .max(2048, 'must have at most 2048 characters')
      .optional(),
    isolateSecret: flag,
  },
  'must be an object, or null',
);
const CONFIG = z.object({ webhook: WEBHOOK.nullish(), isolateSecret: flag, sse: flag }, 'must be an object');
const WRAPPED = z.object({ notifications: CONFIG }, 'must be an object');
/** Both forms of it. */
export const NotificationConfig = z.union([CONFIG, WRAPPED]);
/** As a field of a form. */
export const CONFIG_FIELD: Parameter<string | undefined> = {
  ...anyText,
  schema: { type: 'string', contentMediaType: 'application/json' },
};

/**
 * The form field `config` of a projection's upload: `{ webhook: { url?, isolateSecret? } | null, isolateSecret?, sse? }`, bare or
 * as `notifications`. A member that is left out keeps what was set. The address of the URL is checked where it is stored.
 * @throws StatefoldError INVALID_REQUEST
 */
export function readNotificationConfig(text: string, maxDepth: number): Configured {
  const value = parse(text, maxDepth);
  const wrapped = isObject(value) && Object.hasOwn(value, 'notifications');
  const bare: unknown = wrapped ? value['notifications'] : value;
  const base = wrapped ? '/notifications' : '';
  refuse(WHAT, [
    ...(wrapped ? unknownMembers(value, WRAPPED) : []),
    ...unknownMembers(bare, CONFIG, base),
    ...unknownMembers(isObject(bare) ? bare['webhook'] : undefined, WEBHOOK, `${base}/webhook`),
  ]);
  const {
    webhook,
    isolateSecret = webhook?.isolateSecret,
    sse,
  } = wrapped ? checked(value, WRAPPED, WHAT).notifications : checked(value, CONFIG, WHAT);
  if (webhook !== null && webhook !== undefined && webhook.url === undefined && webhook.isolateSecret === undefined)
    refuse(WHAT, [{ pointer: `${base}/webhook`, message: 'must have url or isolateSecret; null removes the webhook' }]);
  if (webhook?.isolateSecret !== undefined && webhook.isolateSecret !== isolateSecret)
    refuse(WHAT, [
      { pointer: `${base}/webhook/isolateSecret`, message: 'is other than isolateSecret beside webhook: give it once' },
    ]);
  return { webhookUrl: webhook === null ? null : webhook?.url, isolateSecret, sse };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function parse(text: string, maxDepth: number): unknown {
  try {
    scanJson(Buffer.from(text), { maxDepth, maxValues: MAX_JSON_VALUES });
  } catch (error) {
    if (error instanceof JsonError)
      throw new StatefoldError('INVALID_REQUEST', `The field config is not valid JSON: ${error.message}.`, {
        cause: error,
      });
    throw error;
  }
  return JSON.parse(text);
}
