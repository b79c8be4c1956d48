import { InvalidArgumentError, type Command } from 'commander';
import { table } from './io.js';
import type { CommandContext } from './context.js';
import type { Fields } from './server.js';

/** Of which entries, by the names that the service has for them. */
type Filters = Readonly<Partial<Record<'action' | 'key' | 'object' | 'outcome' | 'from' | 'to', string>>>;

interface AuditOptions extends Filters {
  readonly admin?: true;
  readonly tenant?: string;
  readonly limit: number;
  readonly cursor?: string;
}
interface AuditAnswer {
  readonly entries: readonly Fields[];
  readonly nextCursor?: string;
}

const USUAL = 50;
const MOST = 1_000;

function limitOf(given: string): number {
  const limit = /^\d{1,4}$/.test(given) ? Number(given) : 0;
  if (limit < 1 || limit > MOST) throw new InvalidArgumentError(`It is a whole number from 1 to ${MOST}.`);
  return limit;
}

const text = (value: unknown): string => (typeof value === 'string' || typeof value === 'number' ? String(value) : '-');

const row = ({ at, tenantId, keyName, keyId, action, object, outcome, status, remoteAddress }: Fields): string[] => [
  text(at),
  text(tenantId),
  text(keyName ?? keyId),
  text(action),
  Object.values(object as Readonly<Record<string, string>>).join(' ') || '-',
  status === undefined ? text(outcome) : `${text(outcome)} (${text(status)})`,
  text(remoteAddress),
];
const HEADS = ['TIME', 'TENANT', 'KEY', 'ACTION', 'OBJECT', 'OUTCOME', 'FROM'];

/** `statefold audit`: what was changed, and by which key. */
export function addAuditCommand(program: Command, { io, server, show }: CommandContext): void {
  program
    .command('audit')
    .description('tell what was changed and by which key, the newest first')
    .option('--admin', 'of all tenants, with the admin key')
    .option('--tenant <tenantId>', 'of this tenant, with the admin key; also of one that was deleted')
    .option('--action <action>', 'of this action, as projection.rollback, or of all of a kind, as projection')
    .option('--key <keyId>', 'that this key asked for; admin: the admin key; service: the service, by itself')
    .option('--object <id>', 'whose object has this id')
    .option('--outcome <outcome>', 'done, refused, failed or unknown')
    .option('--from <time>', 'that began then or later, as 2026-03-01T12:00:00Z')
    .option('--to <time>', 'that began before then')
    .option('--limit <n>', 'how many, up to 1000 (50)', limitOf, USUAL)
    .option('--cursor <cursor>', 'older ones: what the answer before gave')
    .action(async ({ admin, tenant, limit, cursor, ...filters }: AuditOptions) => {
      const asAdmin = admin === true || tenant !== undefined;
      const entries: Fields[] = [];
      let next = cursor;
      // A page may be short where the entries of others lie between.
      do {
        const query = new URLSearchParams({
          limit: String(limit - entries.length),
          ...(next === undefined ? {} : { cursor: next }),
          ...(tenant === undefined ? {} : { tenant }),
          ...filters,
        }).toString();
        const answer = (await (asAdmin
          ? server().admin('GET', `/admin/audit?${query}`)
          : server().tenant('GET', `/audit?${query}`))) as AuditAnswer;
        entries.push(...answer.entries);
        next = answer.nextCursor;
      } while (next !== undefined && entries.length < limit);
      show({ entries, nextCursor: next }, () => table(HEADS, entries.map(row), 'Nothing was changed.'));
      if (next !== undefined) io.stderr.write(`There are older ones: --cursor ${next}\n`);
    });
}
