import { requireProjection } from '../catalog/require.js';
import type { Catalog, EndpointEntity, EndpointSource, ProjectionEntity } from '../catalog/catalog.js';
import type { CatalogRoom } from '../catalog/catalog-room.js';
import type { Sealer } from '../catalog/sealing.js';
import { rotateSecrets, signingSecrets } from '../catalog/webhook-secrets.js';
import type { Clock } from '../core/clock.js';
import { hasCode, StatefoldError } from '../core/errors.js';
import { isoTimestamp } from '../core/event.js';
import { uuidv7 } from '../core/ids.js';
import { Tally } from '../core/tally.js';
import type { TenantFeeds } from '../feed/tenant-feeds.js';
import { systemTimers } from '../feed/timers.js';
import {
  allEndpoints,
  endpointIdsOf,
  endpointOf,
  firstEndpointId,
  firstEndpointOf,
  hasUrl,
  projectionOf,
  type EndpointWithUrl,
} from './endpoint-entities.js';
import { FairPermits, type Permit } from './fair-permits.js';
import { MAX_OWN_HEADERS } from './own-headers.js';
import { sourceOf } from './webhook-message.js';

export interface EndpointsOptions {
  readonly catalog: Catalog;
  readonly room: Pick<CatalogRoom, 'require' | 'reserve'>;
  readonly sealer: Sealer;
  /** @throws StatefoldError WEBHOOK_URL_REFUSED */
  readonly checkUrl: (url: string) => Promise<void>;
  /** The last sequence of a tenant's changes; rejects where this process does not serve the tenant. */
  readonly lastSequence: (tenantId: string) => Promise<number>;
  /** The feeds that endpoints follow; rejects where this process does not notify of the tenant. */
  readonly notified: Pick<TenantFeeds, 'open'>;
  /** Most endpoints of a tenant; those of uploads are counted, and not refused. */
  readonly most: number;
  /** Waits for the place of the feed that one which is made follows. @throws StatefoldError UNAVAILABLE where that is not known in time */
  readonly inTime: <T>(read: Promise<T>) => Promise<T>;
  readonly clock: Clock;
}

/** An endpoint of its own, as its owner asks for it. The names of headers were checked (`ownHeaderErrors`). */
export interface NewEndpoint {
  readonly url: string;
  readonly source: EndpointSource;
  readonly keys?: readonly string[] | undefined;
  readonly description?: string | undefined;
  readonly isolateSecret?: boolean | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly ratePerSecond?: number | undefined;
  /** `now` unless given. */
  readonly from?: 'now' | 'start' | undefined;
}

/** As a merge patch (RFC 7396): what is undefined stays, null takes it away, and headers are merged by name. */
export interface EndpointChange {
  readonly url?: string | undefined;
  /** Of an endpoint of the feed: its filter. What an endpoint follows can't be changed. */
  readonly source?: EndpointSource | undefined;
  readonly keys?: readonly string[] | null | undefined;
  readonly description?: string | null | undefined;
  readonly isolateSecret?: boolean | undefined;
  readonly headers?: Readonly<Record<string, string | null>> | null | undefined;
  readonly ratePerSecond?: number | null | undefined;
}

/** What is undefined stays as it was set before; at first there is no URL, and no secret of its own. */
export interface EndpointConfig {
  /** Null removes it. */
  readonly webhookUrl: string | null | undefined;
  readonly isolateSecret: boolean | undefined;
}

/** Why an endpoint is disabled: it answered 410, or all attempts have failed for too long. */
export type DisabledFor = 'gone' | 'failures';

type Rotated = ReturnType<typeof rotateSecrets>;

/** URLs of a tenant that are looked at: DNS may take seconds to answer, and each question has a socket of its own. So many others wait. */
const URLS_AT_ONCE = { total: 128, perOwner: 8 };
const URLS_WAITING = 100;
const URLS_RETRY_SECONDS = 5;

/** The endpoints of all tenants, and the secrets with which their webhooks are signed. */
export class Endpoints {
  readonly #options: EndpointsOptions;
  /** By tenant, how many are being made and are not in the catalog yet. */
  readonly #beingMade = new Tally();
  /** By tenant, how many URLs are looked at, or wait for it. */
  readonly #lookedAt = new Tally();
  readonly #looks = new FairPermits(URLS_AT_ONCE, systemTimers);

  constructor(options: EndpointsOptions) {
    this.#options = options;
  }

  /** Refuses what a config must not ask for. @throws StatefoldError WEBHOOK_URL_REFUSED, RATE_LIMITED */
  async check(tenantId: string, { webhookUrl }: EndpointConfig): Promise<void> {
    if (typeof webhookUrl === 'string') await this.#checkUrl(tenantId, webhookUrl);
  }

  /** @throws StatefoldError WEBHOOK_URL_REFUSED, RATE_LIMITED */
  async #checkUrl(tenantId: string, url: string): Promise<void> {
    const most = URLS_AT_ONCE.perOwner + URLS_WAITING;
    if (this.#lookedAt.of(tenantId) >= most)
      throw new StatefoldError(
        'RATE_LIMITED',
        `${most} webhook URLs of the tenant are to be looked up; send the request again when some are`,
        { retryAfterSeconds: URLS_RETRY_SECONDS },
      );
    await this.#lookedAt.during(tenantId, async () => {
      const permit = await new Promise<Permit>((resolve) => this.#looks.acquire(tenantId, tenantId, resolve));
      try {
        await this.#options.checkUrl(url);
      } finally {
        this.#looks.release(permit);
      }
    });
  }

  /**
   * What takes time, or may fail, is done before the projection is written; the result then writes what the config makes of its first
   * endpoint as that is by then: a rotation, or another config, may have come since the request.
   * @param before the projection; undefined while it is a new one, of which the endpoint gets all changes
   */
  async configuring(
    tenantId: string,
    config: EndpointConfig,
    before: ProjectionEntity | undefined,
  ): Promise<(projectionId: string) => Promise<EndpointEntity | undefined>> {
    await this.check(tenantId, config);
    // Whoever gave a config is told the secret, and may set up the receiver before there is a URL.
    if (config.isolateSecret !== true) await this.#sharedSecret(tenantId);
    const last =
      before === undefined || typeof config.webhookUrl !== 'string'
        ? undefined
        : await this.#options.lastSequence(tenantId);
    return (projectionId) =>
      this.#write(firstEndpointId(projectionId), projectionId, (had) =>
        this.#configured(tenantId, projectionId, config, had, before === undefined ? 'new' : last),
      );
  }

  /** @param last sequence of the tenant's changes: an endpoint that is added to a projection is told what comes after */
  #configured(
    tenantId: string,
    projectionId: string,
    config: EndpointConfig,
    had: EndpointEntity | undefined,
    last: number | 'new' | undefined,
  ): EndpointEntity | undefined {
    const url = config.webhookUrl === undefined ? had?.url : (config.webhookUrl ?? undefined);
    const isolated = config.isolateSecret ?? had?.isolated ?? false;
    if (url === undefined && !isolated) return undefined;
    const kept = isolated ? (had?.secrets ?? []) : [];
    const secrets = isolated && kept.length === 0 ? this.#rotated([]).secrets : kept;
    const endpoint = {
      tenantId,
      endpointId: firstEndpointId(projectionId),
      source: { projectionId },
      isolated,
      secrets,
    };
    if (url === undefined) return endpoint;
    const { description, keys, headers, ratePerSecond, pausedAt, createdAt = this.#now() } = had ?? {};
    const since = last === 'new' ? undefined : had?.url === undefined ? last : had.since;
    // Naming the URL again enables an endpoint that was disabled.
    const { disabledAt, disabledFor } = config.webhookUrl === undefined ? (had ?? {}) : {};
    return {
      ...endpoint,
      ...defined({ description, keys, headers, ratePerSecond, pausedAt, createdAt }),
      url,
      ...(since === undefined ? {} : { since }),
      ...defined({ disabledAt, disabledFor }),
    };
  }

  /** The secret that signs now, in clear, of the projection's first endpoint, or of the tenant where that has none of its own. */
  activeSecret(projection: ProjectionEntity): string | undefined {
    const { catalog, sealer, clock } = this.#options;
    return signingSecrets(
      sealer,
      secretsOf(catalog, projection.tenantId, firstEndpointOf(catalog, projection)),
      clock.now(),
    )[0];
  }

  /** New secret in clear. @throws StatefoldError WEBHOOK_NOT_CONFIGURED, WEBHOOK_SECRET_SHARED */
  async rotateOfProjection({ projectionId }: ProjectionEntity): Promise<string> {
    let secret = '';
    await this.#write(firstEndpointId(projectionId), projectionId, (had) => {
      if (had === undefined)
        throw new StatefoldError(
          'WEBHOOK_NOT_CONFIGURED',
          `projection '${projectionId}' has no webhook and no secret of its own; upload it with isolateSecret: true`,
        );
      if (!had.isolated)
        throw new StatefoldError(
          'WEBHOOK_SECRET_SHARED',
          `projection '${projectionId}' uses the tenant's shared secret; rotate that with POST /webhooks/rotate, or upload with isolateSecret: true`,
        );
      const rotated = this.#rotated(had.secrets);
      secret = rotated.secret;
      return { ...had, secrets: rotated.secrets };
    });
    return secret;
  }

  /** The same of the secret that the tenant's other endpoints share. */
  async rotateShared(tenantId: string): Promise<string> {
    let secret = '';
    await this.#options.catalog.update('tenant', tenantId, (tenant) => {
      const rotated = this.#rotated(tenant.webhookSecrets);
      secret = rotated.secret;
      return { ...tenant, webhookSecrets: rotated.secrets };
    });
    return secret;
  }

  /** All that the tenant has, ascending by id. */
  list(tenantId: string): readonly EndpointWithUrl[] {
    return allEndpoints(this.#options.catalog, tenantId).filter(hasUrl);
  }

  /** @throws StatefoldError NOT_FOUND, the same whether it is missing or another tenant's */
  require(tenantId: string, endpointId: string): EndpointWithUrl {
    const endpoint = endpointOf(this.#options.catalog, endpointId);
    if (!hasUrl(endpoint) || endpoint.tenantId !== tenantId) throw missing(endpointId);
    return endpoint;
  }

  /** The secret that signs the endpoint's messages now, in clear. */
  secretOf(endpoint: EndpointEntity): string | undefined {
    const { catalog, sealer, clock } = this.#options;
    return signingSecrets(sealer, secretsOf(catalog, endpoint.tenantId, endpoint), clock.now())[0];
  }

  /** @throws StatefoldError NOT_FOUND (the projection), WEBHOOK_URL_REFUSED, QUOTA_EXCEEDED, UNAVAILABLE */
  async create(tenantId: string, asked: NewEndpoint): Promise<EndpointWithUrl> {
    const projectionId = projectionOf(asked.source);
    if (projectionId !== undefined) requireProjection(this.#options.catalog, tenantId, projectionId);
    this.#requireRoom(tenantId);
    this.#options.room.require(tenantId);
    return this.#beingMade.during(tenantId, () => this.#create(tenantId, projectionId, asked));
  }

  #requireRoom(tenantId: string): void {
    const { most } = this.#options;
    const there = this.list(tenantId).length + this.#beingMade.of(tenantId);
    if (there >= most)
      throw new StatefoldError(
        'QUOTA_EXCEEDED',
        `The tenant has ${there} webhook endpoints, and may have ${most} (MAX_WEBHOOK_ENDPOINTS): delete what is not needed, or ask the owner of the service for more.`,
        { details: { quota: 'webhookEndpoints', usage: there, limit: most } },
      );
  }

  async #create(tenantId: string, projectionId: string | undefined, asked: NewEndpoint): Promise<EndpointWithUrl> {
    const { catalog, clock, notified } = this.#options;
    const { url, source, isolateSecret: isolated = false, headers = {}, from = 'now' } = asked;
    await this.#checkUrl(tenantId, url);
    if (!isolated) await this.#sharedSecret(tenantId);
    const since = from === 'start' ? undefined : await this.#lastOf(await notified.open(tenantId), source);
    const endpointId = uuidv7(clock.now());
    const { description, keys, ratePerSecond } = asked;
    const endpoint: EndpointWithUrl = {
      tenantId,
      endpointId,
      source,
      url,
      isolated,
      secrets: isolated ? this.#rotated([]).secrets : [],
      createdAt: this.#now(),
      ...defined({ since, description, keys, ratePerSecond, headers: this.#sealedHeaders(headers) }),
    };
    // Others may have been made while this one's URL was looked at.
    const written = this.#options.room.reserve(tenantId, bytesOf(endpoint));
    await catalog.put('endpoint', endpointId, 0, endpoint).finally(written);
    // Their deletion may not have seen the endpoint.
    const gone =
      catalog.get('tenant', tenantId) === undefined ||
      (projectionId !== undefined && catalog.get('projection', projectionId) === undefined);
    if (!gone) return endpoint;
    await catalog.remove('endpoint', endpointId);
    throw new StatefoldError('NOT_FOUND', `projection ${projectionId ?? ''} was deleted meanwhile`);
  }

  /** @throws StatefoldError NOT_FOUND, INVALID_REQUEST (another source), WEBHOOK_URL_REFUSED, QUOTA_EXCEEDED where it would be larger */
  async change(tenantId: string, endpointId: string, asked: EndpointChange): Promise<EndpointWithUrl> {
    this.require(tenantId, endpointId);
    if (asked.url !== undefined) await this.#checkUrl(tenantId, asked.url);
    if (asked.isolateSecret === false) await this.#sharedSecret(tenantId);
    return this.#changing(tenantId, endpointId, (had) => {
      const { secrets, ...kept } = had;
      const isolated = asked.isolateSecret ?? had.isolated;
      const pick = <T>(given: T | null | undefined, own: T | undefined): T | undefined =>
        given === undefined ? own : (given ?? undefined);
      const { keys: _keys, description: _description, ratePerSecond: _rate, headers: _headers, ...rest } = kept;
      const changed = {
        ...rest,
        isolated,
        secrets: !isolated ? [] : secrets.length > 0 ? secrets : this.#rotated([]).secrets,
        source: changedSource(had.source, asked.source),
        url: asked.url ?? had.url,
        ...defined({
          keys: pick(asked.keys, had.keys),
          description: pick(asked.description, had.description),
          ratePerSecond: pick(asked.ratePerSecond, had.ratePerSecond),
          headers: asked.headers === undefined ? had.headers : this.#mergedHeaders(had, asked.headers),
        }),
      };
      if (bytesOf(changed) > bytesOf(had)) this.#options.room.require(tenantId);
      return changed;
    });
  }

  /** Its place, its attempts and a secret of its own go with it. @throws StatefoldError NOT_FOUND */
  async remove(tenantId: string, endpointId: string): Promise<void> {
    const { source } = this.require(tenantId, endpointId);
    await this.#write(endpointId, projectionOf(source), () => undefined);
  }

  /** Nothing is sent until it is resumed; what comes meanwhile waits. @throws StatefoldError NOT_FOUND */
  async pause(tenantId: string, endpointId: string): Promise<EndpointWithUrl> {
    return this.#changing(tenantId, endpointId, (had) =>
      had.pausedAt === undefined ? { ...had, pausedAt: this.#now() } : had,
    );
  }

  /** One that was disabled is enabled again, too. @throws StatefoldError NOT_FOUND */
  async resume(tenantId: string, endpointId: string): Promise<EndpointWithUrl> {
    return this.#changing(tenantId, endpointId, (had) => {
      const { pausedAt, disabledAt, disabledFor: _why, ...resumed } = had;
      return pausedAt === undefined && disabledAt === undefined ? had : resumed;
    });
  }

  /** New secret in clear. @throws StatefoldError NOT_FOUND, WEBHOOK_SECRET_SHARED */
  async rotate(tenantId: string, endpointId: string): Promise<string> {
    let secret = '';
    await this.#changing(tenantId, endpointId, (had) => {
      if (!had.isolated)
        throw new StatefoldError(
          'WEBHOOK_SECRET_SHARED',
          `endpoint ${endpointId} uses the tenant's shared secret; rotate that with POST /webhooks/rotate, or give the endpoint a secret of its own with PATCH and isolateSecret: true`,
        );
      const rotated = this.#rotated(had.secrets);
      secret = rotated.secret;
      return { ...had, secrets: rotated.secrets };
    });
    return secret;
  }

  /** Headers of the owner's that go with each attempt, in clear. @throws Error where they were sealed with another master key */
  headersOf({ headers }: Pick<EndpointEntity, 'headers'>): Readonly<Record<string, string>> {
    return ownHeadersOf(this.#options.sealer, headers);
  }

  /** Reads, changes and writes one that is there. */
  async #changing(
    tenantId: string,
    endpointId: string,
    change: (had: EndpointWithUrl) => EndpointWithUrl,
  ): Promise<EndpointWithUrl> {
    const { source } = this.require(tenantId, endpointId);
    const written = await this.#write(endpointId, projectionOf(source), (had) => {
      if (!hasUrl(had) || had.tenantId !== tenantId) throw missing(endpointId);
      return change(had);
    });
    if (!hasUrl(written)) throw missing(endpointId);
    return written;
  }

  /** The last position that the source has. @throws StatefoldError UNAVAILABLE where that is not known in time */
  async #lastOf(tenant: Awaited<ReturnType<TenantFeeds['open']>>, source: EndpointSource): Promise<number> {
    const feed = sourceOf(source).of(tenant);
    await this.#options.inTime(feed.caughtUp());
    return feed.head - 1;
  }

  #sealedHeaders(headers: Readonly<Record<string, string>>): EndpointEntity['headers'] {
    const byName = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
    const names = Object.keys(byName).sort();
    return names.length === 0 ? undefined : { sealed: this.#options.sealer.seal(JSON.stringify(byName)), names };
  }

  #mergedHeaders(
    had: EndpointEntity,
    asked: Readonly<Record<string, string | null>> | null,
  ): EndpointEntity['headers'] {
    if (asked === null) return undefined;
    const merged = new Map(Object.entries(this.headersOf(had)));
    for (const [name, value] of Object.entries(asked))
      if (value === null) merged.delete(name.toLowerCase());
      else merged.set(name.toLowerCase(), value);
    if (merged.size > MAX_OWN_HEADERS)
      throw new StatefoldError('INVALID_REQUEST', `An endpoint has at most ${MAX_OWN_HEADERS} headers of its own.`, {
        errors: [{ pointer: '/headers', message: `would be ${merged.size} headers with those that are there` }],
      });
    return this.#sealedHeaders(Object.fromEntries(merged));
  }

  /**
   * No more webhooks are sent to it, until it is configured again. One that is gone meanwhile, or was given another URL than the one
   * that wants none, stays as it is: then it resolves with false.
   */
  async disable(endpointId: string, url: string, why: DisabledFor): Promise<boolean> {
    const had = endpointOf(this.#options.catalog, endpointId);
    if (had?.url !== url) return false;
    const disabledAt = this.#now();
    const written = await this.#write(endpointId, projectionOf(had.source), (value) =>
      value?.url === url ? { ...value, disabledAt, ...(why === 'failures' && { disabledFor: why }) } : value,
    );
    return written?.url === url;
  }

  /** Those of a projection that is deleted. */
  async removeOf(projection: ProjectionEntity): Promise<void> {
    const { catalog } = this.#options;
    await Promise.all(endpointIdsOf(catalog, projection).map((id) => catalog.remove('endpoint', id)));
  }

  /** Reads, changes and writes until no other write came between; undefined removes it. */
  async #write(
    endpointId: string,
    /** Of what it follows; undefined: the feed. */
    projectionId: string | undefined,
    change: (had: EndpointEntity | undefined) => EndpointEntity | undefined,
  ): Promise<EndpointEntity | undefined> {
    const { catalog } = this.#options;
    for (;;) {
      const entry = catalog.get('endpoint', endpointId);
      const value = change(endpointOf(catalog, endpointId));
      // It may be a megabyte, and asked for again and again.
      if (value !== undefined && value === entry?.value) return value;
      // What an older release stored in the projection goes: first where the endpoint goes too, or it would be back for a moment.
      if (value === undefined) await this.#forgetLegacy(projectionId);
      try {
        if (value !== undefined) await catalog.put('endpoint', endpointId, entry?.version ?? 0, value);
        else if (entry !== undefined) await catalog.delete('endpoint', endpointId, entry.version);
      } catch (error) {
        if (hasCode(error, 'ALREADY_EXISTS')) continue;
        throw error;
      }
      if (value === undefined) return undefined;
      await this.#forgetLegacy(projectionId);
      // Its deletion may not have seen the endpoint.
      if (projectionId !== undefined && catalog.get('projection', projectionId) === undefined)
        await catalog.remove('endpoint', endpointId);
      return value;
    }
  }

  async #forgetLegacy(projectionId: string | undefined): Promise<void> {
    const { catalog } = this.#options;
    if (projectionId === undefined) return;
    if (catalog.get('projection', projectionId)?.value.webhook === undefined) return;
    await catalog
      .update('projection', projectionId, ({ webhook, ...kept }) => (webhook === undefined ? undefined : kept))
      .catch((error: unknown) => {
        if (!hasCode(error, 'NOT_FOUND')) throw error; // deleted meanwhile
      });
  }

  /** The tenant's first webhook makes its shared secret. */
  async #sharedSecret(tenantId: string): Promise<void> {
    await this.#options.catalog.update('tenant', tenantId, (tenant) =>
      tenant.webhookSecrets.length > 0 ? undefined : { ...tenant, webhookSecrets: this.#rotated([]).secrets },
    );
  }

  #rotated(secrets: Parameters<typeof rotateSecrets>[1]): Rotated {
    return rotateSecrets(this.#options.sealer, secrets, this.#options.clock.now());
  }

  #now(): string {
    return isoTimestamp(this.#options.clock.now());
  }
}

/** With which the endpoint's webhooks are signed, sealed, newest first: its own, or the tenant's. */
export const secretsOf = (
  catalog: Pick<Catalog, 'get'>,
  tenantId: string,
  endpoint: EndpointEntity | undefined,
): EndpointEntity['secrets'] =>
  endpoint?.isolated === true ? endpoint.secrets : (catalog.get('tenant', tenantId)?.value.webhookSecrets ?? []);

/** Opens sealed headers. @throws Error where they were sealed with another master key */
export const ownHeadersOf = (
  sealer: Pick<Sealer, 'unseal'>,
  headers: { readonly sealed: string } | undefined,
): Readonly<Record<string, string>> =>
  headers === undefined ? {} : (JSON.parse(sealer.unseal(headers.sealed)) as Record<string, string>);

/** About what it takes in the catalog. */
const bytesOf = (endpoint: EndpointEntity): number => Buffer.byteLength(JSON.stringify(endpoint));

/** Without the members that are undefined. */
const defined = <T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };

function changedSource(had: EndpointSource, asked: EndpointSource | undefined): EndpointSource {
  if (asked === undefined) return had;
  if (('feed' in had && 'feed' in asked) || projectionOf(had) === projectionOf(asked)) return asked;
  throw new StatefoldError(
    'INVALID_REQUEST',
    'What an endpoint follows can not be changed: make another endpoint with that source, and delete this one.',
    {
      errors: [
        { pointer: '/source', message: 'must be the source that the endpoint has; of a feed its filter may change' },
      ],
    },
  );
}

const missing = (endpointId: string): StatefoldError =>
  new StatefoldError('NOT_FOUND', `webhook endpoint ${endpointId} does not exist`);
