import type { Transport } from './transport.js';
import type { OperationId, Operations } from './wire.js';

export interface CallOptions {
  /** Ends the call: it rejects with the signal's reason. What was sent may be done all the same. */
  readonly signal?: AbortSignal | undefined;
  /** How long one attempt may take, milliseconds. */
  readonly timeoutMs?: number | undefined;
  /** Names an append, so that it is stored once however often it is sent. Made for each append unless given. */
  readonly idempotencyKey?: string | undefined;
}

/** Path, query and body of an operation, those that it has. */
export type Asked<O extends OperationId> = CallOptions &
  (Operations[O]['path'] extends undefined
    ? { readonly path?: undefined }
    : { readonly path: Readonly<Record<keyof Operations[O]['path'], string>> }) &
  (Operations[O]['query'] extends undefined
    ? { readonly query?: undefined }
    : { readonly query?: Operations[O]['query'] | undefined }) &
  (undefined extends Operations[O]['body']
    ? { readonly body?: Operations[O]['body'] }
    : { readonly body: Operations[O]['body'] });

/** What the parts of the client ask of it. */
export interface Requests {
  readonly transport: Transport;
  request<O extends OperationId>(
    operation: O,
    ...[asked]: Record<never, never> extends Asked<O> ? [asked?: Asked<O>] : [asked: Asked<O>]
  ): Promise<Operations[O]['answer']>;
}
