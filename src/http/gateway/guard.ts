import type { IncomingMessage } from 'node:http';
import type { Request, RequestHandler, Response, Router } from 'express';
import type { Catalog } from '../../catalog/catalog.js';
import { partitionKey } from '../../core/slots.js';
import { NotOwnerError, StatefoldError } from '../../core/errors.js';
import { partitionOf } from '../../core/murmur2.js';
import type { AggregateHomes } from '../../tenancy/tenant.js';
import type { Authenticator } from '../auth.js';
import { requestIdOfAnswer } from '../resource.js';
import { MAX_FORM_BYTES } from '../upload.js';
import type { ForwardedRequest, Gateway, ServedBy } from './gateway.js';
import { isForwarded, NOT_OWNER } from './headers.js';

export interface GuardOptions {
  readonly gateway: Gateway;
  readonly authenticator: Authenticator;
  /** @throws StatefoldError UNAUTHENTICATED */
  readonly requireAdmin: (request: IncomingMessage) => void;
  readonly catalog: Pick<Catalog, 'refresh' | 'onChange'>;
  readonly tenants: Pick<AggregateHomes, 'partitionsOf'>;
  readonly limits: { readonly maxBodyBytes: number; readonly maxUploadBytes: number };
}

/** What is served by the tenant's owner alone, or by who notifies of it. */
const OF_A_TENANT = /^\/(?:events|aggregates|aggregate-types|reducers|projections|webhooks)(?:\/|$)/;
/** The two appends find their owner themselves, with the id of the command. */
const APPENDS = /^\/events(?:\/batch)?$/;
/** Of one aggregate, which may be in a partition of its own owner. */
const OF_AN_AGGREGATE = /^\/(?:events\/([^/]+)|aggregate-types\/[^/]+\/([^/]+)\/(?:state|retry|skip))$/;
/** Answered wherever they arrive, from the catalog. */
const OF_A_KEY = /^\/auth\//;
const OF_THE_ADMIN = /^\/admin\//;
/** The deletion of a tenant stops its task. */
const A_TENANT = /^\/admin\/tenants\/([^/]+)$/;
/** What these answer as missing may be in the catalog by now. */
const OF_THE_CATALOG = /^\/(?:aggregate-types|reducers|projections)\//;
const LASTING = /^\/projections\/[^/]+\/(?:notifications|sse)$/;
/** Changes are asked for, by polling or as a stream. */
const servedBy = ({ path }: Request): ServedBy => (LASTING.test(path) ? 'notifier' : 'owner');
const METHODS: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'];

const isSafe = ({ method }: Request): boolean => method === 'GET' || method === 'HEAD';

/**
 * Puts routes behind the question of who is to serve a request. One of a tenant that another process owns is forwarded before
 * anything of it is read. What is served here rests on a catalog that several processes write: a key that isn't known, and an
 * entity that isn't there, are looked for again once this process has all that was written; a change is made on top of all
 * that, and the admin is answered from it.
 */
export function guarded(
  routes: Router,
  { gateway, authenticator, requireAdmin, catalog, tenants, limits }: GuardOptions,
): RequestHandler {
  let changes = 0;
  catalog.onChange(() => void changes++);

  /** Who owns it serves the request. */
  const slotOf = ({ path, method }: Request, tenantId: string): string => {
    const partitions = tenants.partitionsOf(tenantId);
    const [, listed, stated] = (partitions > 1 && method !== 'DELETE' ? OF_AN_AGGREGATE.exec(path) : undefined) ?? [];
    const aggregateId = listed ?? stated;
    return aggregateId === undefined ? tenantId : partitionKey(tenantId, partitionOf(decoded(aggregateId), partitions));
  };

  const asked = (request: Request, response: Response, slotKey: string): ForwardedRequest => ({
    slotKey,
    by: servedBy(request),
    requestId: requestIdOfAnswer(response),
    bodyLimit:
      isSafe(request) || request.method === 'DELETE'
        ? undefined
        : /^multipart\//i.test(request.headers['content-type'] ?? '')
          ? limits.maxUploadBytes + MAX_FORM_BYTES
          : limits.maxBodyBytes,
    repeatable: isSafe(request),
    whole: false,
    lasting: LASTING.test(request.path),
  });

  /** True when it is answered. */
  const forward = async (request: Request, response: Response, slotKey: string): Promise<boolean> => {
    const call = asked(request, response, slotKey);
    if (await gateway.forward(request, response, call)) return true;
    // This process became the owner while the request was on its way, and the routes read a body from its connection only.
    if (call.body !== undefined)
      throw new StatefoldError(
        'UNAVAILABLE',
        'the tenant is changing its owner; nothing was done, send the request again',
      );
    return false;
  };

  const admit = async (request: Request, response: Response): Promise<boolean> => {
    let tenantId: string | undefined;
    try {
      tenantId = (await authenticator.admit(request)).tenantId;
    } catch (error) {
      // The route tells it, where there is one.
      if (error instanceof StatefoldError && error.code === 'UNAUTHENTICATED') return false;
      throw error;
    }
    const slotKey = slotOf(request, tenantId);
    if (
      OF_A_TENANT.test(request.path) &&
      !gateway.serves(slotKey, servedBy(request)) &&
      (await forward(request, response, slotKey))
    )
      return true;
    if (!isSafe(request)) await catalog.refresh();
    return false;
  };

  const admitAdmin = async (request: Request, response: Response): Promise<boolean> => {
    try {
      requireAdmin(request);
    } catch {
      return false;
    }
    const tenant = request.method === 'DELETE' ? A_TENANT.exec(request.path)?.[1] : undefined;
    if (tenant !== undefined && (await forward(request, response, decoded(tenant)))) return true;
    await catalog.refresh();
    return false;
  };

  /** Undefined: the request may be served here at once. */
  const admittance = (request: Request, response: Response): Promise<boolean> | undefined => {
    const { path, method } = request;
    if (!METHODS.includes(method) || (method === 'POST' && APPENDS.test(path))) return undefined;
    if (OF_THE_ADMIN.test(path)) return admitAdmin(request, response);
    if (!OF_A_TENANT.test(path) && !OF_A_KEY.test(path)) return undefined;
    const tenantId = isSafe(request) ? authenticator.find(request)?.tenantId : undefined;
    return tenantId !== undefined && gateway.serves(slotOf(request, tenantId), servedBy(request))
      ? undefined
      : admit(request, response);
  };

  const serve: RequestHandler = (request, response, next) => {
    const before = changes;
    routes(request, response, (thrown?: unknown) => {
      if (!(thrown instanceof StatefoldError) || !isSafe(request) || response.headersSent) next(thrown);
      else
        again(request, response, thrown, before).then((what) => {
          if (what === 'look again') routes(request, response, next);
          else if (what === 'told') next(thrown);
        }, next);
    });
  };

  /** What becomes of a read that was refused here. */
  const again = async (
    request: Request,
    response: Response,
    thrown: StatefoldError,
    before: number,
  ): Promise<'answered' | 'told' | 'look again'> => {
    const { code } = thrown;
    if ((code === 'NOT_FOUND' || code === 'NO_REDUCER_BOUND') && OF_THE_CATALOG.test(request.path)) {
      await catalog.refresh();
      return changes === before ? 'told' : 'look again';
    }
    const tenantId = OF_A_TENANT.test(request.path) ? authenticator.find(request)?.tenantId : undefined;
    if (code !== 'UNAVAILABLE' || tenantId === undefined) return 'told';
    if (isForwarded(request)) {
      if (thrown instanceof NotOwnerError) response.setHeader(NOT_OWNER, '1');
      return 'told';
    }
    const slotKey = slotOf(request, tenantId);
    return (await gateway.movedAway(slotKey, thrown, servedBy(request))) && (await forward(request, response, slotKey))
      ? 'answered'
      : 'told';
  };

  return (request, response, next) => {
    const admitted = admittance(request, response);
    if (admitted === undefined) void serve(request, response, next);
    else
      admitted.then((answered) => {
        if (!answered) void serve(request, response, next);
      }, next);
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
