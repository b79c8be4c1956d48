import { WebhookError } from './errors.js';

export interface VerifyOptions {
  /** `whsec_…` as the service gave it; several while one is rotated. */
  readonly secret: string | readonly string[];
  /** How far the time of the message may be from now, seconds. */
  readonly toleranceSeconds?: number | undefined;
  /** Milliseconds since the epoch. */
  readonly now?: (() => number) | undefined;
}

const TOLERANCE_SECONDS = 300;
const encoder = new TextEncoder();

/** Headers of a request: the platform's, or an object as Node.js has it. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Checks that a webhook comes from the service (Standard Webhooks 1.0), and parses it.
 * @param body as it came, not parsed and written again @throws WebhookError
 */
export async function verifyWebhook<T = unknown>(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  { secret, toleranceSeconds = TOLERANCE_SECONDS, now = Date.now }: VerifyOptions,
): Promise<{ readonly id: string; readonly at: Date; readonly payload: T }> {
  const secrets = typeof secret === 'string' ? [secret] : secretsOf(secret);
  const bytes = typeof body === 'string' ? encoder.encode(body) : body;
  if (!ArrayBuffer.isView(bytes))
    throw new TypeError(
      'the body must be the text or the bytes that came, and is neither: take it before a parser of JSON does, with express by express.raw({ type: "application/json" })',
    );
  const id = header(headers, 'webhook-id');
  const timestamp = header(headers, 'webhook-timestamp');
  const given = header(headers, 'webhook-signature');
  if (!/^\d{1,12}$/.test(timestamp)) throw new WebhookError('the header webhook-timestamp is not a number of seconds');
  const at = new Date(Number(timestamp) * 1000);
  if (Math.abs(now() - at.getTime()) > toleranceSeconds * 1000)
    throw new WebhookError(`the webhook is of ${at.toISOString()}, more than ${toleranceSeconds} seconds from now`);
  const head = encoder.encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(head.length + bytes.length);
  signed.set(head);
  signed.set(bytes, head.length);
  const signatures = given.split(' ').flatMap((one) => (one.startsWith('v1,') ? [bytesOf(one.slice(3))] : []));
  for (const one of secrets) {
    const raw = bytesOf(one.replace(/^whsec_/, ''));
    // A setting that is missing: whoever knows that could sign.
    if (raw.length === 0)
      throw new WebhookError('the secret is empty: it is whsec_ and base64, as the service gave it');
    const key = await crypto.subtle.importKey('raw', raw, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
    for (const signature of signatures)
      // Compares in a time that tells nothing of where they differ.
      if (await crypto.subtle.verify('HMAC', key, signature, signed)) return { id, at, payload: payloadOf<T>(bytes) };
  }
  throw new WebhookError('no signature of the webhook was made with the secret');
}

/** A setting may be missing, as `process.env.WEBHOOK_SECRET` is then. @throws TypeError */
function secretsOf(secrets: readonly string[] | undefined | null): readonly string[] {
  const given = (secrets ?? []).filter((one) => typeof one === 'string');
  if (given.length > 0) return given;
  throw new TypeError('the option secret is missing: it is whsec_ and base64, as the service gave it');
}

function payloadOf<T>(bytes: Uint8Array): T {
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) as T;
  } catch {
    throw new WebhookError('the body of the webhook is not JSON');
  }
}

function header(headers: WebhookHeaders, name: string): string {
  const value = headers instanceof Headers ? headers.get(name) : headers[nameIn(headers, name)];
  if (typeof value !== 'string' || value === '') throw new WebhookError(`the webhook has no header ${name}`);
  return value;
}

/** Gateways pass names on in capitals, too. */
const nameIn = (headers: Readonly<Record<string, unknown>>, name: string): string =>
  name in headers ? name : (Object.keys(headers).find((one) => one.toLowerCase() === name) ?? name);

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  try {
    const text = atob(base64);
    return Uint8Array.from(text, (character) => character.charCodeAt(0));
  } catch {
    throw new WebhookError('a secret or signature is not base64');
  }
}
