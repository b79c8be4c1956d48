import { randomBytes } from 'node:crypto';
import { hasCode, StatefoldError, type FieldError } from '../core/errors.js';
import { isoTimestamp } from '../core/event.js';
import { uuidv7 } from '../core/ids.js';
import { artefactsOf, type Catalog, type EntityKind, type KeyEntity, type TenantEntity } from './catalog.js';
import type { UnshownKey } from './first-key.js';
import { hashApiKey, mintApiKey } from './keys.js';
import { chunksOf } from '../core/parts.js';
import type { Quotas } from '../core/quotas.js';
import { isScope, SCOPES } from '../core/scopes.js';

export const DEFAULT_TENANT = 'default';
const TENANT_ID = /^[a-z0-9][a-z0-9-]{0,63}$/;
const MAX_NAME = 256;
const MAX_PARTITIONS = 256;
const INCARNATION_BYTES = 4;
const REMOVED_AT_ONCE = 500;
const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/;

export interface CreateTenantOptions {
  /** 1 to 64 of `a-z0-9-`, not beginning with `-`; generated when omitted. */
  readonly tenantId?: string | undefined;
  /** 1 to 256 characters; the id when omitted. */
  readonly name?: string | undefined;
  /** Partitions of its events, frozen at creation. */
  readonly partitions?: number | undefined;
}

export interface CreateKeyOptions {
  /** 1 to 256 characters: what it is for, say. */
  readonly name?: string | undefined;
  /** Some of `SCOPES`; all unless given. */
  readonly scopes?: readonly string[] | undefined;
  /** ISO 8601 with the offset from UTC, and to come; the key is in force for good unless given. */
  readonly expiresAt?: string | undefined;
}

/** What of a tenant can be changed; what is not given stays. */
export interface TenantChange {
  readonly name?: string | undefined;
  readonly suspended?: boolean | undefined;
  /** Those named become the tenant's own; null: as the settings have it. */
  readonly quotas?: { readonly [Name in keyof Quotas]?: number | null | undefined } | undefined;
}

/** A new key: `apiKey` is in clear, and is not kept. */
export interface NewKey {
  readonly key: KeyEntity;
  readonly apiKey: string;
}

/** @throws StatefoldError INVALID_REQUEST | ALREADY_EXISTS | UNAVAILABLE */
export async function createTenant(
  catalog: Catalog,
  options: CreateTenantOptions,
): Promise<NewKey & { readonly tenant: TenantEntity }> {
  const tenant = await putTenant(catalog, options);
  return { tenant, ...(await createKey(catalog, tenant.tenantId)) };
}

async function putTenant(
  catalog: Catalog,
  { tenantId = uuidv7(), name = tenantId, partitions = 1 }: CreateTenantOptions,
): Promise<TenantEntity> {
  const errors: FieldError[] = [];
  if (!TENANT_ID.test(tenantId))
    errors.push({
      pointer: '/tenantId',
      message: 'must be 1 to 64 of a-z, 0-9 and -, and begin with a letter or digit',
    });
  errors.push(...nameErrors(name));
  if (!Number.isInteger(partitions) || partitions < 1 || partitions > MAX_PARTITIONS)
    errors.push({ pointer: '/partitions', message: `must be a whole number from 1 to ${MAX_PARTITIONS}` });
  if (errors.length > 0) throw new StatefoldError('INVALID_REQUEST', 'the tenant has invalid fields', { errors });
  for (;;) {
    if (catalog.get('tenant', tenantId) === undefined) {
      requireNoAccounts(catalog, tenantId);
      await removeOrphans(catalog, tenantId);
    }
    const exists = catalog.get('tenant', tenantId) !== undefined;
    const replaces = exists ? 0 : catalog.versionOf('tenant', tenantId);
    const tenant: TenantEntity = {
      tenantId,
      ...(replaces > 0 && { incarnation: randomBytes(INCARNATION_BYTES).toString('hex') }),
      name,
      createdAt: isoTimestamp(Date.now()),
      partitions,
      webhookSecrets: [],
    };
    try {
      await catalog.put('tenant', tenantId, replaces, tenant);
      return tenant;
    } catch (error) {
      if (!hasCode(error, 'ALREADY_EXISTS')) throw error;
      if (catalog.get('tenant', tenantId) !== undefined)
        throw new StatefoldError('ALREADY_EXISTS', `tenant ${tenantId} already exists`);
      // Another process made one of that id, and deleted it: this one must not be stored where that one was.
    }
  }
}

const nameErrors = (name: string): FieldError[] =>
  name.length < 1 || name.length > MAX_NAME || !name.isWellFormed()
    ? [{ pointer: '/name', message: `must be 1 to ${MAX_NAME} characters` }]
    : [];

/** @throws StatefoldError INVALID_REQUEST | NOT_FOUND | UNAVAILABLE */
export async function changeTenant(
  catalog: Catalog,
  tenantId: string,
  { name, suspended, quotas = {} }: TenantChange,
): Promise<TenantEntity> {
  mustExist(catalog, tenantId);
  const errors = name === undefined ? [] : nameErrors(name);
  if (errors.length > 0) throw new StatefoldError('INVALID_REQUEST', 'the tenant has invalid fields', { errors });
  return catalog.update('tenant', tenantId, ({ suspendedAt, quotas: own, ...tenant }) => {
    const since = suspended === false ? undefined : suspended ? (suspendedAt ?? isoTimestamp(Date.now())) : suspendedAt;
    const changed = Object.entries({ ...own, ...quotas }).filter(([, value]) => typeof value === 'number');
    return {
      ...tenant,
      ...(name !== undefined && { name }),
      ...(since !== undefined && { suspendedAt: since }),
      ...(changed.length > 0 && { quotas: Object.fromEntries(changed) }),
    };
  });
}

/** Adds a key; the tenant's other keys stay valid. @throws StatefoldError INVALID_REQUEST | NOT_FOUND | UNAVAILABLE */
export async function createKey(catalog: Catalog, tenantId: string, options: CreateKeyOptions = {}): Promise<NewKey> {
  mustExist(catalog, tenantId);
  const limits = limitsOf(options);
  const { key: apiKey, hash, prefix } = mintApiKey();
  return { key: await putKey(catalog, tenantId, hash, prefix, limits), apiKey };
}

type KeyLimits = Pick<KeyEntity, 'name' | 'scopes' | 'expiresAt'>;

/** @throws StatefoldError INVALID_REQUEST */
function limitsOf({ name, scopes, expiresAt }: CreateKeyOptions): KeyLimits {
  const errors = name === undefined ? [] : nameErrors(name);
  const known = `must be some of ${SCOPES.join(', ')}`;
  if (scopes?.length === 0) errors.push({ pointer: '/scopes', message: `${known}; leave it out for all` });
  scopes?.forEach((scope, i) => {
    if (!isScope(scope)) errors.push({ pointer: `/scopes/${i}`, message: known });
  });
  const until = expiresAt === undefined ? undefined : ISO_TIME.test(expiresAt) ? Date.parse(expiresAt) : Number.NaN;
  if (until !== undefined && !(until > Date.now()))
    errors.push({ pointer: '/expiresAt', message: 'must be a time to come, like 2030-01-31T00:00:00Z' });
  if (errors.length > 0) throw new StatefoldError('INVALID_REQUEST', 'the key has invalid fields', { errors });
  return {
    ...(name !== undefined && { name }),
    ...(scopes !== undefined && { scopes: SCOPES.filter((scope) => scopes.includes(scope)) }),
    ...(until !== undefined && { expiresAt: isoTimestamp(until) }),
  };
}

async function putKey(
  catalog: Catalog,
  tenantId: string,
  hash: string,
  prefix: string,
  limits: KeyLimits = {},
): Promise<KeyEntity> {
  const key: KeyEntity = { keyId: uuidv7(), tenantId, hash, prefix, createdAt: isoTimestamp(Date.now()), ...limits };
  await catalog.put('key', key.keyId, 0, key);
  return key;
}

/** Takes effect at once, and for good; a revoked key can be revoked again. @throws StatefoldError NOT_FOUND | UNAVAILABLE */
export async function revokeKey(catalog: Catalog, tenantId: string, keyId: string): Promise<KeyEntity> {
  if (catalog.get('key', keyId)?.value.tenantId !== tenantId)
    throw new StatefoldError('NOT_FOUND', `tenant ${tenantId} has no key ${keyId}`);
  return catalog.update('key', keyId, (key) =>
    key.revokedAt === undefined ? { ...key, revokedAt: isoTimestamp(Date.now()) } : undefined,
  );
}

/**
 * Removes the tenant with all that it has. Its keys go first and its own record last, so that a deletion that was cut off is
 * ended by repeating it. `removeData` drops the tenant's accounts for SQL, stops its tasks and drops its topics and rows; it may be called again.
 * @throws StatefoldError NOT_FOUND | UNAVAILABLE
 */
export async function deleteTenant(
  catalog: Catalog,
  tenantId: string,
  removeData: (tenant: TenantEntity) => Promise<void>,
): Promise<void> {
  mustExist(catalog, tenantId);
  await removeAll(catalog, 'key', tenantId);
  await removeArtefacts(catalog, tenantId);
  for (const kind of OWNED) await removeAll(catalog, kind, tenantId);
  await removeData(mustExist(catalog, tenantId));
  await removeAll(catalog, 'tenant', tenantId);
}

/** All that a tenant owns in the catalog but its keys, and accounts for SQL, which stay until the server has them no more. */
const OWNED = ['binding', 'projection', 'eventType', 'endpoint', 'reducer', 'artefact'] as const;

async function removeArtefacts(catalog: Catalog, tenantId: string): Promise<void> {
  const artefacts = [...catalog.list('reducer', tenantId), ...catalog.list('projection', tenantId)].flatMap(
    ({ value }) => artefactsOf(value),
  );
  await removedInTurn([...new Set(artefacts)], (artefactId) => catalog.artefacts.delete(artefactId));
}

/**
 * What was written to a tenant while it was being deleted, by a process that ended before it saw that. A new tenant of the id must not have it: a
 * key would open it to the former owner. Whoever made the tenant meanwhile has it in versions of its own, which stay.
 */
async function removeOrphans(catalog: Catalog, tenantId: string): Promise<void> {
  const orphans = (['key', ...OWNED] as const).flatMap((kind) =>
    catalog.list(kind, tenantId).map(({ id, version }) => ({ kind, id, version })),
  );
  if (orphans.length === 0) return;
  await removeArtefacts(catalog, tenantId);
  for (const { kind, id, version } of orphans)
    await catalog.delete(kind, id, version).catch((error: unknown) => {
      if (!hasCode(error, 'ALREADY_EXISTS')) throw error;
    });
}

/** Accounts of a former tenant of the id would read the rows of the new one: they go from the server first, which their keeper sees to. */
function requireNoAccounts(catalog: Catalog, tenantId: string): void {
  if (catalog.count('sqlAccount', tenantId) > 0)
    throw new StatefoldError(
      'UNAVAILABLE',
      `accounts for SQL of a former tenant ${tenantId} are still being dropped on the ClickHouse server; send the request again`,
    );
}

async function removeAll(catalog: Catalog, kind: EntityKind, tenantId: string): Promise<void> {
  await removedInTurn(catalog.list(kind, tenantId), ({ id }) => catalog.remove(kind, id));
}

/** So many wait for the log at once: whatever else is written has its turn between them. */
async function removedInTurn<T>(all: readonly T[], remove: (one: T) => Promise<void>): Promise<void> {
  for (const some of chunksOf(all, REMOVED_AT_ONCE)) await Promise.all(some.map(remove));
}

/** What the start of the service says about the tenant `default`. */
export interface DefaultTenant {
  /** False where it was deleted, or others are used instead. */
  readonly exists: boolean;
  /** In clear, to be shown: made by this call, or by a start that ended before it was shown. */
  readonly apiKey: string | undefined;
  /** What is known of the key of the settings; undefined where none is set. */
  readonly fixedKey: 'in force' | 'revoked' | 'of another tenant' | undefined;
}

/**
 * Makes the tenant `default` and its key at the first start (a catalog without tenants), or when a key is given for it.
 * `fixedKey` is any text of 20 characters or more; it is added beside the keys that are there, and those stay valid. A key of another
 * tenant is left as it is: who has set it for the command line may start a service in the same terminal.
 * @throws StatefoldError UNAVAILABLE
 */
export async function ensureDefaultTenant(
  catalog: Catalog,
  unshown: Pick<UnshownKey, 'read' | 'keep' | 'forget'>,
  fixedKey?: string,
): Promise<DefaultTenant> {
  const known = fixedKey === undefined ? undefined : catalog.keyByHash(hashApiKey(fixedKey));
  const foreign = known !== undefined && known.tenantId !== DEFAULT_TENANT;
  const missing = catalog.get('tenant', DEFAULT_TENANT) === undefined;
  if (missing && ((fixedKey !== undefined && !foreign) || catalog.count('tenant', undefined) === 0)) {
    await putTenant(catalog, { tenantId: DEFAULT_TENANT }).catch((error: unknown) => {
      // Another process, which starts too, was first.
      if (!hasCode(error, 'ALREADY_EXISTS')) throw error;
    });
  }
  if (fixedKey !== undefined && known === undefined)
    await putKey(catalog, DEFAULT_TENANT, hashApiKey(fixedKey), `${fixedKey.slice(0, 4)}…`);
  const exists = catalog.get('tenant', DEFAULT_TENANT) !== undefined;
  const fixed =
    fixedKey === undefined
      ? undefined
      : foreign
        ? 'of another tenant'
        : known?.revokedAt === undefined
          ? 'in force'
          : 'revoked';
  return { exists, apiKey: exists ? await keyToShow(catalog, unshown) : undefined, fixedKey: fixed };
}

async function keyToShow(
  catalog: Catalog,
  unshown: Pick<UnshownKey, 'read' | 'keep' | 'forget'>,
): Promise<string | undefined> {
  const left = unshown.read();
  if (left !== undefined) {
    const known = catalog.keyByHash(hashApiKey(left));
    if (known?.tenantId === DEFAULT_TENANT && known.revokedAt === undefined) return left;
    unshown.forget();
  }
  // Without any key, revoked ones included, the first start was cut off between the two records.
  if (catalog.count('key', DEFAULT_TENANT) > 0) return undefined;
  const { key, hash, prefix } = mintApiKey();
  unshown.keep(key);
  await putKey(catalog, DEFAULT_TENANT, hash, prefix);
  return key;
}

function mustExist(catalog: Catalog, tenantId: string): TenantEntity {
  const entry = catalog.get('tenant', tenantId);
  if (entry === undefined) throw new StatefoldError('NOT_FOUND', `there is no tenant ${tenantId}`);
  return entry.value;
}
