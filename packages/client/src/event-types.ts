import type { CallOptions, Requests } from './requests.js';
import { isRefused } from './errors.js';
import type { EventSchemaCheck, EventType, EventTypeWithSchema } from './wire.js';

type Options = Omit<CallOptions, 'idempotencyKey'>;

/** A JSON Schema (2020-12). */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown };

const PAGE = 500;

/** Types of the tenant's events, and the schemas that their data must fit. To set and to end one its key needs the scope `deploy`. */
export class EventTypes {
  readonly #client: Requests;

  constructor(client: Requests) {
    this.#client = client;
  }

  /** All that there are, ascending by name, page by page as they are asked for. @throws ClientError */
  async *list(options: Options = {}): AsyncGenerator<EventType, void, undefined> {
    let cursor: string | undefined;
    do {
      const page = await this.#client.request('listEventTypes', { ...options, query: { limit: PAGE, cursor } });
      yield* page.eventTypes;
      cursor = page.nextCursor;
    } while (cursor !== undefined);
  }

  /** With its schema. @throws RefusedError NOT_FOUND; ClientError */
  get(eventType: string, options: Options = {}): Promise<EventTypeWithSchema> {
    return this.#client.request('getEventType', { ...options, path: { type: eventType } });
  }

  /** Holds every append to the schema from the answer on, which tells of the stored events. @throws ClientError */
  set(eventType: string, schema: JsonSchema, options: Options = {}): Promise<EventSchemaCheck> {
    return this.#client.request('setEventSchema', { ...options, path: { type: eventType }, body: { schema } });
  }

  /** What it would tell; nothing is changed. @throws ClientError */
  check(eventType: string, schema: JsonSchema, options: Options = {}): Promise<EventSchemaCheck> {
    const query = { check: true };
    return this.#client.request('setEventSchema', { ...options, path: { type: eventType }, query, body: { schema } });
  }

  /** Ends the schema; without one nothing is done. @throws ClientError */
  async end(eventType: string, options: Options = {}): Promise<void> {
    try {
      await this.#client.request('deleteEventSchema', { ...options, path: { type: eventType } });
    } catch (error) {
      // Also where the answer of the first attempt was lost.
      if (!isRefused(error, 'NOT_FOUND')) throw error;
    }
  }
}
