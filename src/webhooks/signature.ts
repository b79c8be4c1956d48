import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';

/** A secret in clear (`whsec_` and base64) as the key that signs. */
export const signingKeyOf = (secret: string): KeyObject =>
  createSecretKey(Buffer.from(secret.replace(/^whsec_/, ''), 'base64'));

/**
 * The signature of a message (Standard Webhooks 1.0, symmetric). By Node's own HMAC: the library of the standard, which is what tests verify
 * with, has it in JavaScript, and takes longer than all else of an attempt but the request.
 * @param seconds since the epoch, as `webhook-timestamp` says it
 */
export const signatureOf = (key: KeyObject, id: string, seconds: number, body: Buffer): string =>
  `v1,${createHmac('sha256', key).update(`${id}.${seconds}.`).update(body).digest('base64')}`;
