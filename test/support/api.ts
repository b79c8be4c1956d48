import assert from 'node:assert/strict';
import { openapiFault } from './openapi.js';
import { AS_ADMIN, API_KEY, until, type Answer, type RequestOptions, type Service } from './service.js';

/** The members of every problem document. */
export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: string;
  readonly requestId: string;
  readonly [member: string]: unknown;
}

export interface Notification {
  readonly sequence: number;
  readonly projectionId: string;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly state: unknown;
  readonly timestamp: string;
  readonly key: string;
  readonly version: number;
  readonly className: string;
  readonly cause?: string;
}

export interface Appended {
  readonly eventId: string;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly version: number;
  readonly timestamp: string;
  readonly state?: unknown;
  readonly stateStatus?: string;
}

export interface Listed {
  readonly events: readonly {
    readonly eventId: string;
    readonly aggregateId: string;
    readonly eventType: string;
    readonly data: unknown;
    readonly version: number;
    readonly timestamp: string;
  }[];
  readonly nextVersion?: number;
}

/** A request of whoever runs the service; the answer is held to the OpenAPI document. */
export const admin = (service: Service, method: string, path: string, body?: unknown): Promise<Answer> =>
  new Api(service, null).request(method, path, { ...AS_ADMIN, ...(body === undefined ? {} : { body }) });

/** Tenants without an id of their own that this file has made, by the data directory of the service, which outlasts a restart. */
const made = new Map<string, number>();

/**
 * Makes a tenant, with what `body` says of it; resolves with its first key. An id looks like those that the service gives, and is the
 * same in each run and file: what a tenant uploads is compiled once a run for all tenants of its id.
 */
export async function newTenant(service: Service, body: object): Promise<string> {
  const count = (made.get(service.dataDirectory) ?? 0) + 1;
  made.set(service.dataDirectory, count);
  const tenantId = `01900000-0000-7000-8000-${String(count).padStart(12, '0')}`;
  const answer = success(await admin(service, 'POST', '/admin/tenants', { tenantId, ...body }), 201);
  return answer.json<{ apiKey: string }>().apiKey;
}

const MOVING = new Set(['eventsPerSecond', 'lastSequence']);
/** What an answer says, but for what moves by itself: rates of the last minute, and the end of the changes, which a restart puts further. */
export const withoutMoving = <T>(answer: T): T =>
  JSON.parse(JSON.stringify(answer), (name, value: unknown) => (MOVING.has(name) ? undefined : value)) as T;

export const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
export const UUIDV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** A client of one tenant: each answer is held to the OpenAPI document before the test sees it. */
export class Api {
  readonly service: Service;
  readonly key: string | null;

  constructor(service: Service, key: string | null = API_KEY) {
    this.service = service;
    this.key = key;
  }

  async request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const answer = await this.service.request(method, path, { key: this.key, ...options }).catch((error: unknown) => {
      throw new Error(`${method} ${path} had no answer; the service said:\n${this.service.output.slice(-2000)}`, {
        cause: error,
      });
    });
    checkAnswer(method, path, answer);
    return answer;
  }

  get(path: string, options?: RequestOptions): Promise<Answer> {
    return this.request('GET', path, options);
  }
  post(path: string, body?: unknown, options?: RequestOptions): Promise<Answer> {
    return this.request('POST', path, { ...options, ...(body === undefined ? {} : { body }) });
  }
  put(path: string, body: unknown): Promise<Answer> {
    return this.request('PUT', path, { body });
  }
  patch(path: string, body: unknown): Promise<Answer> {
    return this.request('PATCH', path, { body });
  }
  delete(path: string): Promise<Answer> {
    return this.request('DELETE', path);
  }

  /** The body of an answer that must be a success. */
  async read<T>(path: string): Promise<T> {
    return success(await this.get(path), 200).json<T>();
  }

  /** Where the service's ClickHouse is reached: its engine is a process of its own, and may still be starting. */
  async readStoreAccess(): Promise<Record<'url' | 'user' | 'password' | 'database', string>> {
    const ask = (): Promise<Answer> => this.get('/admin/read-store', AS_ADMIN);
    await until(async () => (await ask()).status !== 503, 60_000);
    return success(await ask(), 200).json();
  }

  async append(
    aggregateId: string,
    eventType: string,
    data: object = {},
    rest: object = {},
    headers: Record<string, string> = {},
  ): Promise<Appended> {
    return success(
      await this.post('/events', { aggregateId, eventType, data, ...rest }, { headers }),
      201,
    ).json<Appended>();
  }

  /** Uploads loose sources, by file name. */
  upload(
    kind: 'reducers' | 'projections',
    sources: Readonly<Record<string, string | Buffer>>,
    fields: Readonly<Record<string, string>> = {},
  ): Promise<Answer> {
    return this.request('POST', `/${kind}/upload`, { raw: form(sources, fields) });
  }

  /** The record of an upload once its compilation has ended, one way or the other. */
  async compiled<T extends { readonly status: string }>(kind: 'reducers' | 'projections', id: string): Promise<T> {
    let record: T | undefined;
    await until(async () => {
      record = await this.read<T>(`/${kind}/${id}/status`);
      return record.status === 'compiled' || record.status === 'failed';
    });
    return record as T;
  }

  async deployReducer(sources: Readonly<Record<string, string | Buffer>>): Promise<string> {
    const { reducerId } = success(await this.upload('reducers', sources), 202).json<{ reducerId: string }>();
    const record = await this.compiled<{ status: string; compilationError?: string }>('reducers', reducerId);
    assert.equal(record.status, 'compiled', record.compilationError);
    return reducerId;
  }

  /** Deploys and waits until it is live: built over the history that was there. */
  async deployProjection(
    sources: Readonly<Record<string, string | Buffer>>,
    fields: Readonly<Record<string, string>> = {},
  ): Promise<string> {
    const { projectionId } = success(await this.upload('projections', sources, fields), 202).json<{
      projectionId: string;
    }>();
    const record = await this.compiled<{ status: string; compilationError?: string }>('projections', projectionId);
    assert.equal(record.status, 'compiled', record.compilationError);
    await this.live(projectionId);
    return projectionId;
  }

  async live(projectionId: string): Promise<void> {
    await until(
      async () => (await this.read<{ build?: object }>(`/projections/${projectionId}/status`)).build === undefined,
    );
  }

  /** Polls until as many notifications are there as are wanted, and gives all of them. */
  async notifications(projectionId: string, atLeast: number, query = ''): Promise<Notification[]> {
    let found: Notification[] = [];
    await until(async () => {
      found = (
        await this.read<{ notifications: Notification[] }>(
          `/projections/${projectionId}/notifications?limit=1000${query}`,
        )
      ).notifications;
      return found.length >= atLeast;
    });
    return found;
  }
}

/** Of a cluster in which the tenant may still change its owner: what 503 says was not done is asked for again. */
export class PatientApi extends Api {
  override async request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    let answer = await super.request(method, path, options);
    await until(async () => {
      if (answer.status !== 503) return true;
      answer = await super.request(method, path, options);
      return false;
    });
    return answer;
  }
}

export function form(
  sources: Readonly<Record<string, string | Buffer>>,
  fields: Readonly<Record<string, string>> = {},
): FormData {
  const data = new FormData();
  for (const [name, content] of Object.entries(sources))
    data.append('file', new Blob([typeof content === 'string' ? content : new Uint8Array(content)]), name);
  for (const [name, value] of Object.entries(fields)) data.append(name, value);
  return data;
}

export function checkAnswer(method: string, path: string, answer: Answer): void {
  const type = answer.headers.get('content-type') ?? '';
  assert.notEqual(answer.headers.get('x-request-id') ?? '', '', `${method} ${path} has no X-Request-Id`);
  const body: unknown = /[/+]json\b/.test(type) ? JSON.parse(answer.text) : undefined;
  assert.equal(
    openapiFault(method, path.replace(/\?.*$/s, ''), answer.status, body),
    undefined,
    answer.text.slice(0, 500),
  );
}

export function success(answer: Answer, status: number): Answer {
  assert.equal(answer.status, status, answer.text.slice(0, 2000));
  return answer;
}

/** Holds an answer to be the problem document of that code. */
export function problem(answer: Answer, status: number, code: string): Problem {
  assert.equal(answer.status, status, answer.text.slice(0, 2000));
  assert.equal(answer.headers.get('content-type'), 'application/problem+json');
  const document = answer.json<Problem>();
  assert.equal(document.code, code, answer.text.slice(0, 2000));
  assert.equal(document.status, status);
  assert.equal(document.type, `/problems/${code.toLowerCase().replaceAll('_', '-')}`);
  assert.equal(document.requestId, answer.headers.get('x-request-id'));
  assert.ok(document.title.length > 0 && document.detail.length > 0);
  return document;
}
