import { z } from 'zod';
import type { AuditEntry, AuditFilter } from '../../audit/audit-entry.js';
import { StatefoldError } from '../../core/errors.js';
import { answerItems, type ListCall } from '../list-answer.js';
import { anyText, badCursor, described, only, paging, time, type Values } from '../parameters.js';
import { memoryOf, turnsOf } from '../request-memory.js';
import { anyObject, component, integer, listOf, text, timestamp } from '../schema.js';
import { route, type RouteDependencies } from './dependencies.js';

// What was changed, and by which key.

export const AuditRecord = component(
  'AuditRecord',
  z.strictObject({
    id: text,
    at: timestamp.describe('When it began.'),
    endedAt: timestamp.optional(),
    tenantId: text.describe('Absent of what is done to no one tenant.').optional(),
    keyId: text.describe('Of the key that asked for it; admin: the admin key; service: the service, by itself.'),
    keyName: text.describe('As the key was called then.').optional(),
    action: text.describe('What is done to what, for example projection.rollback.'),
    object: z.record(z.string(), text).describe('What it was done to, and what it made, by the names of their ids.'),
    details: anyObject.describe('What was asked for, without secrets.').optional(),
    outcome: z
      .enum(['done', 'refused', 'failed', 'unknown'])
      .describe('unknown: it is under way, or its process ended before it was recorded; it may have been made.'),
    status: integer.describe('The HTTP status of the answer.').optional(),
    code: text
      .describe('Of the error that was answered; ABORTED: the caller went away with the body half sent.')
      .optional(),
    requestId: text.describe('X-Request-Id; of what the service did by itself, an id of its own.'),
    remoteAddress: text.describe('Of who connected; a tenant is not told the address of the admin.').optional(),
  }),
);
export type AuditRecord = z.infer<typeof AuditRecord>;

const FILTERS = {
  action: described(anyText, 'Of this action, as projection.rollback, or of all of a kind, as projection.'),
  key: described(
    anyText,
    'That the key with this keyId asked for; admin: the admin key; service: the service, by itself.',
  ),
  outcome: only('done', 'refused', 'failed', 'unknown'),
  object: described(anyText, 'Whose object has this id.'),
  from: described(time, 'That began at this time or later.'),
  to: described(time, 'That began before this time.'),
};

const answers = { 200: listOf('entries', AuditRecord) };

async function answerPage(
  { audit }: RouteDependencies,
  call: ListCall,
  { cursor, limit, key, object, ...wanted }: Values<typeof FILTERS & typeof paging>,
  tenant: Pick<AuditFilter, 'tenantId' | 'tenantCreatedAt'>,
  shown: (entry: AuditEntry) => AuditEntry = (entry) => entry,
): Promise<void> {
  const before = cursor === undefined ? undefined : placeOf(cursor);
  const { entries, next } = await audit.list(
    { ...wanted, ...tenant, keyId: key, objectId: object, before, limit },
    turnsOf(call),
    (entry) => recordOf(shown(entry)),
  );
  const nextCursor = next === undefined ? undefined : Buffer.from(String(next)).toString('base64url');
  return answerItems(call, 'entries', { items: entries, nextCursor }, (some) => some);
}

function placeOf(cursor: string): number {
  const place = Buffer.from(cursor, 'base64url').toString('utf8');
  if (!/^\d{1,15}$/.test(place) || Buffer.from(place).toString('base64url') !== cursor) throw badCursor();
  return Number(place);
}

const recordOf = ({ tenantCreatedAt: _, ...entry }: AuditEntry): object => entry;

/** Where the operator sits is no tenant's concern. */
const forTenant = (entry: AuditEntry): AuditEntry =>
  entry.keyId === 'admin' ? { ...entry, remoteAddress: undefined } : entry;

const listAudit = route({
  method: 'GET',
  path: '/audit',
  operationId: 'listAudit',
  tag: 'System',
  summary: 'What was changed of the tenant and by which key, the newest first',
  servedBy: 'any',
  credentials: 'tenant',
  scope: 'audit',
  query: { ...paging, ...FILTERS },
  // A misspelt name would tell of everything.
  strictQuery: true,
  answers,
  serve: async (dependencies, call) => {
    const { tenantId } = call;
    // One of the same id that was deleted before has entries of its own.
    const tenantCreatedAt = dependencies.catalog.get('tenant', tenantId)?.value.createdAt;
    if (tenantCreatedAt === undefined) throw new StatefoldError('NOT_FOUND', 'the tenant was deleted');
    await memoryOf(call.request)?.pageOf(call.response);
    return answerPage(dependencies, call, call.query(), { tenantId, tenantCreatedAt }, forTenant);
  },
});

const listAllAudit = route({
  method: 'GET',
  path: '/admin/audit',
  operationId: 'listAllAudit',
  tag: 'Admin',
  summary: 'What was changed and by which key, of one tenant or of all, the newest first',
  servedBy: 'any',
  credentials: 'admin',
  query: {
    ...paging,
    ...FILTERS,
    tenant: described(anyText, 'Of this tenant alone, also of one that was deleted.'),
  },
  strictQuery: true,
  answers,
  serve: async (dependencies, call) => {
    const { tenant, ...page } = call.query();
    return answerPage(dependencies, call, page, { tenantId: tenant });
  },
});

export const AUDIT = [listAudit, listAllAudit];
