import type { IncomingMessage } from 'node:http';
import type { AuditActor, AuditRecording, AuditTrail } from '../audit/audit-entry.js';
import type { Catalog } from '../catalog/catalog.js';
import { RequestAbortedError } from './body.js';
import { isForwarded } from './gateway/headers.js';
import { Pace } from './pace.js';
import { queryOf } from './parameters.js';
import { knownError, statusOf } from './problem.js';
import { PATH_PARAMETER, type Call, type Credentials } from './route.js';

/** How a route that changes something stands in the audit log. */
export interface Audited {
  readonly action: string;
  /** What the parameters of the path are called there, in their order, where that is not their name. */
  readonly names?: readonly string[];
  /** Members of the answer that name what was made. */
  readonly made?: readonly string[];
  /** Members of the body that are told: never one that is a secret. */
  readonly told?: readonly string[];
  /** With this parameter in its query it only says what it would do. */
  readonly notWith?: string;
  /** Its first parameter is the tenant. */
  readonly ofTenant?: true;
  /** The process that it comes to records it, also where another one does the work. */
  readonly whereItCame?: true;
}

const projection = ['projectionId'];
const endpoint = ['endpointId'];

/** By operationId. A test holds that each route that is no GET is here, or among those that are not audited. */
export const AUDITED: Readonly<Record<string, Audited>> = {
  setEventSchema: { action: 'event-type.set-schema', names: ['eventType'], notWith: 'check' },
  deleteEventSchema: { action: 'event-type.delete-schema', names: ['eventType'] },
  eraseAggregate: { action: 'aggregate.erase' },
  bindReducer: { action: 'reducer.bind', names: ['aggregateType'], told: ['reducerId', 'className'] },
  retryAggregate: { action: 'aggregate.retry', names: ['aggregateType', 'aggregateId'], told: ['eventId', 'version'] },
  skipAggregate: { action: 'aggregate.skip', names: ['aggregateType', 'aggregateId'], told: ['eventId', 'version'] },
  retryKeys: { action: 'projection.retry', names: projection, told: ['eventId', 'version', 'className', 'key'] },
  skipKeys: { action: 'projection.skip', names: projection, told: ['eventId', 'version', 'className', 'key'] },
  retryKey: { action: 'projection.retry', names: [...projection, 'key'], told: ['eventId', 'version', 'className'] },
  skipKey: { action: 'projection.skip', names: [...projection, 'key'], told: ['eventId', 'version', 'className'] },
  uploadReducer: { action: 'reducer.deploy', made: ['reducerId'] },
  deleteReducer: { action: 'reducer.delete', names: ['reducerId'] },
  reviveReducer: { action: 'reducer.revive', names: ['reducerId'] },
  uploadProjection: { action: 'projection.deploy', made: ['projectionId', 'revision'] },
  configureProjection: { action: 'projection.configure', names: projection },
  deleteProjection: { action: 'projection.delete', names: projection },
  rollbackProjection: { action: 'projection.rollback', names: projection, made: ['revision'], told: ['revision'] },
  rebuildProjection: { action: 'projection.rebuild', names: projection, made: ['revision'] },
  reviveProjection: { action: 'projection.revive', names: projection, made: ['revision'] },
  cancelBuild: { action: 'projection.cancel-build', names: projection },
  rotateProjectionSecret: { action: 'projection.rotate-secret', names: projection },
  rotateTenantSecret: { action: 'tenant.rotate-secret' },
  createWebhookEndpoint: { action: 'endpoint.create', made: endpoint },
  changeWebhookEndpoint: { action: 'endpoint.change', names: endpoint },
  deleteWebhookEndpoint: { action: 'endpoint.delete', names: endpoint },
  rotateWebhookEndpointSecret: { action: 'endpoint.rotate-secret', names: endpoint },
  pauseWebhookEndpoint: { action: 'endpoint.pause', names: endpoint },
  resumeWebhookEndpoint: { action: 'endpoint.resume', names: endpoint },
  resendParkedMessage: { action: 'endpoint.resend', names: [...endpoint, 'messageId'] },
  resendParkedMessages: { action: 'endpoint.resend-all', names: endpoint, told: ['since'] },
  retryWebhookMessage: { action: 'endpoint.retry', names: [...endpoint, 'messageId'] },
  replayWebhookEndpoint: { action: 'endpoint.replay', names: endpoint, told: ['from', 'to'] },
  createSqlAccount: { action: 'sql-account.create', made: ['accountId'], told: ['name'] },
  deleteSqlAccount: { action: 'sql-account.delete', names: ['accountId'] },
  createTenant: { action: 'tenant.create', made: ['tenantId', 'keyId'], told: ['tenantId', 'name', 'partitions'] },
  changeTenant: { action: 'tenant.change', names: ['tenantId'], told: ['name', 'suspended', 'quotas'], ofTenant: true },
  deleteTenant: { action: 'tenant.delete', names: ['tenantId'], ofTenant: true },
  importEvents: { action: 'tenant.import', names: ['tenantId'], ofTenant: true, made: ['events'], whereItCame: true },
  createKey: {
    action: 'key.create',
    names: ['tenantId'],
    ofTenant: true,
    made: ['keyId'],
    told: ['name', 'scopes', 'expiresAt'],
  },
  revokeKey: { action: 'key.revoke', names: ['tenantId', 'keyId'], ofTenant: true },
  rebuildReadStore: { action: 'read-store.rebuild' },
  cancelReadStoreRebuild: { action: 'read-store.cancel-rebuild' },
};

/** Routes that are no GET and yet leave no entry, by operationId, with the reason. */
export const NOT_AUDITED: Readonly<Record<string, string>> = {
  appendEvent: 'the log of events is the record of it',
  appendBatch: 'the log of events is the record of it',
  appendTransaction: 'the log of events is the record of it',
  appendBulk: 'the log of events is the record of it',
  ownerKnows: 'one process asks another, and nothing changes',
  checkReducer: 'only compiles',
  checkProjection: 'only compiles',
  dryRunReducers: 'only reads',
  dryRunProjection: 'only reads',
  runFixtures: 'runs code that is not kept',
  verifyAggregates: 'only reads',
  verifyProjection: 'only reads',
  createTicket: 'nothing is stored: a ticket is its key for some minutes',
  testWebhookEndpoint: 'sends a message of no content, and changes nothing',
  querySql: 'only reads',
};

/** What of a route its entry is made of. */
export interface AuditedRoute {
  readonly path: string;
  readonly operationId: string;
  readonly credentials: Credentials;
}

/** A name that a client chose stays whole where it is one that the service takes. */
const LONGEST = 1_024;
const ADMIN: AuditActor = { keyId: 'admin', keyName: 'admin' };

/**
 * Changes of one tenant that are recorded, refused ones too: entries are kept for months, in a topic that all tenants share. Whoever
 * deploys, retries or rotates, by hand or by script, stays far below; a key that repeats what is refused doesn't.
 */
export const CHANGES_PER_SECOND = 2;
export const CHANGES_AT_ONCE = 10_000;

/** Writes what routes change into the audit log: before they begin, and with what they answer before that is sent. */
export class Auditing {
  readonly #trail: AuditTrail;
  readonly #catalog: Pick<Catalog, 'get'>;
  readonly #pace: Pace;

  /** `now`: a monotonic clock in milliseconds. */
  constructor(trail: AuditTrail, catalog: Pick<Catalog, 'get'>, now: () => number) {
    this.#trail = trail;
    this.#catalog = catalog;
    const limit = { perSecond: CHANGES_PER_SECOND, burst: CHANGES_AT_ONCE };
    const what = `changes that the audit log records, after ${CHANGES_AT_ONCE} at once,`;
    this.#pace = new Pace({ quota: 'changesPerSecond', what, limitOf: () => limit, now });
  }

  /**
   * Serves a request whose key was checked.
   * @throws what `serve` throws; before it is called StatefoldError UNAVAILABLE, and RATE_LIMITED past the pace of a tenant's changes
   */
  async serve(
    route: AuditedRoute,
    call: Call,
    parameters: Readonly<Record<string, string>>,
    serve: () => Promise<void> | void,
  ): Promise<void> {
    const audited = AUDITED[route.operationId];
    if (audited === undefined || (audited.whereItCame && isForwarded(call.request))) return serve();
    if (audited.notWith !== undefined && queryOf(call.request.url ?? '').get(audited.notWith) === 'true')
      return serve();
    if (route.credentials === 'tenant') this.#pace.take(call.tenantId);
    const recording = await this.#begin(audited, route, call, parameters);
    const answer = call.hold();
    try {
      await serve();
    } catch (thrown) {
      await recording.end(this.#endOf(audited, call, refusalOf(thrown)));
      call.release();
      throw thrown;
    }
    const status = answer.status ?? call.response.statusCode;
    await recording.end(this.#endOf(audited, call, { outcome: outcomeOf(status), status }));
    call.release();
  }

  #begin(
    { action, names, ofTenant }: Audited,
    { path, credentials }: AuditedRoute,
    call: Call,
    parameters: Readonly<Record<string, string>>,
  ): Promise<AuditRecording> {
    const object: Record<string, string> = {};
    for (const [i, [, name = '']] of [...path.matchAll(PATH_PARAMETER)].entries())
      object[names?.[i] ?? name] = (parameters[name] ?? '').slice(0, LONGEST);
    const ofQuery = action === 'read-store.rebuild' ? tenantOfQuery(call.request) : undefined;
    const tenantId = credentials === 'tenant' ? call.tenantId : ofTenant ? object['tenantId'] : ofQuery;
    return this.#trail.begin({
      ...(credentials === 'tenant' ? this.#actor(call.keyId) : ADMIN),
      tenantId,
      tenantCreatedAt: this.#createdAt(tenantId),
      action,
      object: ofQuery === undefined ? object : { ...object, tenantId: ofQuery },
      requestId: call.requestId,
      remoteAddress: addressOf(call.request),
    });
  }

  /** Of what the body asked for and the answer told. */
  #endOf(
    { told = [], made = [], action }: Audited,
    call: Call,
    outcome: Pick<Parameters<AuditRecording['end']>[0], 'outcome' | 'status' | 'code'>,
  ): Parameters<AuditRecording['end']>[0] {
    const details = membersOf(call.given, told);
    const object: Record<string, string> = {};
    for (const [name, value] of Object.entries(membersOf(call.held?.body, made)))
      if (typeof value === 'string' || typeof value === 'number') object[name] = String(value);
    const tenantId = action === 'tenant.create' ? object['tenantId'] : undefined;
    return {
      ...outcome,
      object,
      details: Object.keys(details).length === 0 ? undefined : details,
      tenantId,
      tenantCreatedAt: this.#createdAt(tenantId),
    };
  }

  #actor(keyId: string): AuditActor {
    return { keyId, keyName: this.#catalog.get('key', keyId)?.value.name };
  }

  #createdAt(tenantId: string | undefined): string | undefined {
    return tenantId === undefined ? undefined : this.#catalog.get('tenant', tenantId)?.value.createdAt;
  }
}

const outcomeOf = (status: number): 'done' | 'refused' | 'failed' =>
  status < 400 ? 'done' : status < 500 ? 'refused' : 'failed';

function refusalOf(thrown: unknown): Pick<Parameters<AuditRecording['end']>[0], 'outcome' | 'status' | 'code'> {
  // There was nobody to answer.
  if (thrown instanceof RequestAbortedError) return { outcome: 'refused', code: 'ABORTED' };
  const { code } = knownError(thrown);
  const status = statusOf(code);
  return { outcome: outcomeOf(status), status, code };
}

function membersOf(of: unknown, names: readonly string[]): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  if (typeof of !== 'object' || of === null) return found;
  for (const name of names) {
    const value = (of as Readonly<Record<string, unknown>>)[name];
    if (value !== undefined) found[name] = typeof value === 'string' ? value.slice(0, LONGEST) : value;
  }
  return found;
}

function tenantOfQuery({ url = '' }: IncomingMessage): string | undefined {
  return queryOf(url).get('tenantId')?.slice(0, LONGEST);
}

/** Of whoever connected to the service; proxies before it are not asked, since anybody may say what they would say. */
export function addressOf(request: IncomingMessage): string | undefined {
  const hops = isForwarded(request) ? request.headers['x-forwarded-for'] : undefined;
  return [hops].flat().join(',').split(',').at(-1)?.trim() || request.socket.remoteAddress;
}
