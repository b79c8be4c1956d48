import { identifier, quoted } from '../sql-text.js';
import { settingsOf, type SqlLimits } from '../tenant-sql.js';

/** What a tenant sees of the database. */
const TABLES = ['events', 'aggregate_states', 'projection_states', 'notifications'] as const;
const POLICIES = ['PERMISSIVE', 'RESTRICTIVE'] as const;

/** A user of the server that sees one tenant's rows. */
export interface TenantUser {
  readonly name: string;
  readonly tenantId: string;
  /** `passwordHash`: hex SHA-256. */
  readonly secret: { readonly password: string } | { readonly passwordHash: string };
}

export interface AccountTarget {
  readonly database: string;
  /** A cluster of the server's configuration: users are made on all its servers. */
  readonly cluster?: string | undefined;
}

/** A setting that the user can't change, or within bounds only. */
type Bounds = 'CONST' | `MIN ${number} MAX ${number}`;
export type UserSettings = Readonly<Record<string, readonly [value: number | string, bounds: Bounds]>>;

/** The user that `POST /sql` of the tenant is asked as. One server may hold the databases of several services. */
export const statementUserOf = (database: string, tenantId: string): string => `${database}_tenant_${tenantId}`;

/** None of the limits, and no other setting, can be changed. */
export const fixedSettings = (limits: SqlLimits): UserSettings =>
  Object.fromEntries(Object.entries(settingsOf(limits)).map(([name, value]) => [name, [value, 'CONST']]));

/**
 * Tools send settings with their statements, which `readonly = 1` would refuse, above all a time limit: theirs may be shorter than
 * the service's. What would make more of a statement than the service allows can't be changed.
 */
export const settingsOfTools = (limits: SqlLimits): UserSettings => ({
  ...fixedSettings(limits),
  max_execution_time: [limits.seconds, `MIN 1 MAX ${limits.seconds}`],
  // No file of its own for what doesn't fit into memory, of joins neither.
  max_temporary_data_on_disk_size_for_user: [1, 'CONST'],
  readonly: [2, 'CONST'],
});

/**
 * Makes a user that sees one tenant's rows, or brings one up to date: first it is one that nobody can connect as, then come its
 * policies, then the right to read, then whoever knows the password may connect. A permissive policy gives it the rows, a restrictive
 * one holds whatever other policies of the server would give it besides.
 */
export function openStatements(target: AccountTarget, user: TenantUser, settings: UserSettings): string[] {
  const { database } = target;
  const name = identifier(user.name);
  const on = onCluster(target);
  const bounds = Object.entries(settings)
    .map(([setting, [value, bound]]) => `${setting} = ${typeof value === 'number' ? value : quoted(value)} ${bound}`)
    .join(', ');
  return [
    createStatement(target, user),
    ...TABLES.flatMap((table) =>
      POLICIES.map(
        (kind) =>
          `CREATE ROW POLICY OR REPLACE ${policyOf(user.name, kind)}${on} ON ${identifier(database)}.${table} FOR SELECT USING tenant = ${quoted(user.tenantId)} AS ${kind} TO ${name}`,
      ),
    ),
    // In one statement: rights that it has beside these go, and it is never without these.
    `GRANT${on} ${TABLES.map((table) => `SELECT ON ${identifier(database)}.${table}`).join(', ')} TO ${name} WITH REPLACE OPTION`,
    `ALTER USER ${name}${on} ${identified(user)} HOST ANY DEFAULT DATABASE ${identifier(database)} SETTINGS ${bounds}`,
  ];
}

/** Nobody connects as the user, and who is connected reads nothing more. It is made where it isn't there. */
export function suspendStatements(target: AccountTarget, user: TenantUser): string[] {
  const name = identifier(user.name);
  const on = onCluster(target);
  return [createStatement(target, user), `ALTER USER ${name}${on} HOST NONE`, `REVOKE${on} ALL ON *.* FROM ${name}`];
}

/** The user goes before its policies: without them it might read all rows. */
export function dropStatements(target: AccountTarget, name: string): string[] {
  const on = onCluster(target);
  return [
    `DROP USER IF EXISTS ${identifier(name)}${on}`,
    ...TABLES.flatMap((table) =>
      POLICIES.map(
        (kind) => `DROP ROW POLICY IF EXISTS ${policyOf(name, kind)}${on} ON ${identifier(target.database)}.${table}`,
      ),
    ),
  ];
}

/** A row with what follows the prefix for each name, of a user or of one whose policies are left, that begins with it. */
export const namesStatement = (prefix: string): string =>
  `SELECT DISTINCT substring(name, length(${quoted(prefix)}) + 1) FROM (SELECT name FROM system.users UNION ALL SELECT replaceRegexpOne(short_name, '_(permissive|restrictive)$', '') AS name FROM system.row_policies) WHERE startsWith(name, ${quoted(prefix)}) FORMAT TSV`;

const createStatement = (target: AccountTarget, user: TenantUser): string =>
  `CREATE USER IF NOT EXISTS ${identifier(user.name)}${onCluster(target)} ${identified(user)} HOST NONE`;

const identified = ({ secret }: TenantUser): string =>
  'password' in secret
    ? `IDENTIFIED WITH sha256_password BY ${quoted(secret.password)}`
    : `IDENTIFIED WITH sha256_hash BY ${quoted(secret.passwordHash)}`;

const policyOf = (user: string, kind: string): string => identifier(`${user}_${kind.toLowerCase()}`);
const onCluster = ({ cluster }: AccountTarget): string =>
  cluster === undefined ? '' : ` ON CLUSTER ${identifier(cluster)}`;
