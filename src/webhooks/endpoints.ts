import type { Catalog, EndpointEntity, ProjectionEntity } from '../catalog/catalog.js';
import type { Sealer } from '../catalog/sealing.js';
import { rotateSecrets, signingSecrets } from '../catalog/webhook-secrets.js';
import type { Clock } from '../core/clock.js';
import { StatefoldError } from '../core/errors.js';
import { endpointIdsOf, endpointOf, firstEndpointId, firstEndpointOf } from './endpoint-entities.js';

export interface EndpointsOptions {
  readonly catalog: Catalog;
  readonly sealer: Sealer;
  /** @throws StatefoldError WEBHOOK_URL_REFUSED */
  readonly checkUrl: (url: string) => Promise<void>;
  /** The last sequence of a tenant's changes; rejects where this process does not serve the tenant. */
  readonly lastSequence: (tenantId: string) => Promise<number>;
  readonly clock: Clock;
}

/** What is undefined stays as it was set before; at first there is no URL, and no secret of its own. */
export interface EndpointConfig {
  /** Null removes it. */
  readonly webhookUrl: string | null | undefined;
  readonly isolateSecret: boolean | undefined;
}

type Rotated = ReturnType<typeof rotateSecrets>;

/** The endpoints of all tenants, and the secrets with which their webhooks are signed. */
export class Endpoints {
  readonly #options: EndpointsOptions;

  constructor(options: EndpointsOptions) {
    this.#options = options;
  }

  /** Refuses what a config must not ask for. @throws StatefoldError WEBHOOK_URL_REFUSED */
  async check({ webhookUrl }: EndpointConfig): Promise<void> {
    if (typeof webhookUrl === 'string') await this.#options.checkUrl(webhookUrl);
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
    await this.check(config);
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
    const since = last === 'new' ? undefined : had?.url === undefined ? last : had.since;
    // Naming the URL again enables an endpoint that had answered 410.
    const disabledAt = config.webhookUrl === undefined ? had?.disabledAt : undefined;
    return {
      ...endpoint,
      url,
      ...(since === undefined ? {} : { since }),
      ...(disabledAt === undefined ? {} : { disabledAt }),
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

  /** No more webhooks are sent to it, until it is configured again. One that is gone meanwhile is no error. */
  async disable(endpointId: string): Promise<void> {
    const had = endpointOf(this.#options.catalog, endpointId);
    if (had === undefined) return;
    const disabledAt = this.#now();
    await this.#write(endpointId, had.source.projectionId, (value) => value && { ...value, disabledAt });
  }

  /** Those of a projection that is deleted. */
  async removeOf(projection: ProjectionEntity): Promise<void> {
    const { catalog } = this.#options;
    await Promise.all(endpointIdsOf(catalog, projection).map((id) => catalog.remove('endpoint', id)));
  }

  /** Reads, changes and writes until no other write came between; undefined removes it. */
  async #write(
    endpointId: string,
    projectionId: string,
    change: (had: EndpointEntity | undefined) => EndpointEntity | undefined,
  ): Promise<EndpointEntity | undefined> {
    const { catalog } = this.#options;
    for (;;) {
      const entry = catalog.get('endpoint', endpointId);
      const value = change(endpointOf(catalog, endpointId));
      // What an older release stored in the projection goes: first where the endpoint goes too, or it would be back for a moment.
      if (value === undefined) await this.#forgetLegacy(projectionId);
      try {
        if (value !== undefined) await catalog.put('endpoint', endpointId, entry?.version ?? 0, value);
        else if (entry !== undefined) await catalog.delete('endpoint', endpointId, entry.version);
      } catch (error) {
        if (error instanceof StatefoldError && error.code === 'ALREADY_EXISTS') continue;
        throw error;
      }
      if (value === undefined) return undefined;
      await this.#forgetLegacy(projectionId);
      // Its deletion may not have seen the endpoint.
      if (catalog.get('projection', projectionId) === undefined) await catalog.remove('endpoint', endpointId);
      return value;
    }
  }

  async #forgetLegacy(projectionId: string): Promise<void> {
    const { catalog } = this.#options;
    if (catalog.get('projection', projectionId)?.value.webhook === undefined) return;
    await catalog
      .update('projection', projectionId, ({ webhook, ...kept }) => (webhook === undefined ? undefined : kept))
      .catch((error: unknown) => {
        if (!(error instanceof StatefoldError && error.code === 'NOT_FOUND')) throw error; // deleted meanwhile
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
    return new Date(this.#options.clock.now()).toISOString();
  }
}

/** With which the endpoint's webhooks are signed, sealed, newest first: its own, or the tenant's. */
export const secretsOf = (
  catalog: Pick<Catalog, 'get'>,
  tenantId: string,
  endpoint: EndpointEntity | undefined,
): EndpointEntity['secrets'] =>
  endpoint?.isolated === true ? endpoint.secrets : (catalog.get('tenant', tenantId)?.value.webhookSecrets ?? []);
