import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { QUOTA_NAMES, type QuotaName } from '../core/quotas.js';
import { SCOPES } from '../core/scopes.js';
import { confirm, confirmByTyping } from './ask.js';
import { addAssistantCommand } from './assistant.js';
import { addAuditCommand } from './audit.js';
import { addBackupCommands } from './backup.js';
import { CliError, CliExit, FAILED, notConfirmed, table, type CliIo, type ServeOptions } from './io.js';
import { addProjectCommands } from './project/commands.js';
import { Server } from './server.js';
import { runSql, runTenantSql, type ReadStoreAccess } from './sql.js';
import { addTopicCommands } from './topics.js';
import { addEraseCommand } from './erase.js';
import { addEventTypeCommands } from './event-types.js';
import { addTransferCommands } from './transfer.js';
import { addTypesCommand } from './types/command.js';
import { addVerifyCommand } from './verify.js';
import { addWebhookCommands } from './webhooks.js';

interface Global {
  readonly url?: string;
  readonly json?: true;
}
type Fields = Readonly<Record<string, unknown>>;

const TENANT_ID = /^[a-z0-9][a-z0-9-]{0,63}$/;

/** The tenant that the service makes at its first start: the one of most scripts. */
const DEFAULT_TENANT = 'default';

interface KeyOptions {
  readonly name?: string;
  readonly scopes?: string;
  readonly expires?: string;
}

interface UsageAnswer {
  readonly usage: Readonly<Record<QuotaName, number>>;
  readonly quotas: Readonly<Record<QuotaName, number | null>>;
}

/** `projections=5`, or `projections=default`. */
function quotaOf(given: string): [name: string, value: number | null] {
  const [, name = '', value = ''] = /^(\w+)=(\d{1,16}|default)$/.exec(given) ?? [];
  if (name === '') throw new CliError(`'${given}' is not like projections=5 or projections=default.`);
  return [name, value === 'default' ? null : Number(value)];
}

const scopesText = (scopes: unknown): string =>
  Array.isArray(scopes) && scopes.length < SCOPES.length ? scopes.join(',') : 'all';

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

const SERVE_HELP = `
Settings are environment variables; docs/reference/settings.md has all of them:
  PORT                where it listens (8080)
  HOST                the address it is bound to (127.0.0.1)
  STATEFOLD_DATA_DIR  where everything is kept (./data)
  STATEFOLD_API_KEY   a key of the tenant default; unset: the first start makes one, and prints it
  KAFKA_BROKERS       an Apache Kafka that keeps the log; unset: it is in the data directory`;

/** The command line. Commands throw CliError and CommanderError, and `serve` StartupError. */
export function buildProgram(io: CliIo): Command {
  const program = new Command('statefold')
    .description(
      'Commands for a running Statefold service: for its owner (the admin key is read from the data directory), and for those who write code for it (STATEFOLD_API_KEY is a key of their tenant).',
    )
    .option('--url <url>', 'where the service is (STATEFOLD_URL; default: on this machine, at PORT)')
    .option('--json', 'answer in JSON')
    .exitOverride()
    .configureOutput({
      writeOut: (line) => void io.stdout.write(line),
      writeErr: (line) => void io.stderr.write(line),
    });

  const server = (): Server => new Server(io, program.opts<Global>().url);
  const show = (answer: unknown, lines: () => string): void => {
    io.stdout.write(program.opts<Global>().json === true ? `${JSON.stringify(answer)}\n` : lines());
  };

  if (io.tools !== undefined) program.version(io.tools.version);
  /** Lines that can be pasted: every other command, and the pages of the docs, read these variables. */
  const exported = (answer: Fields): string => {
    const { url } = program.opts<Global>();
    return `${url === undefined ? '' : `export STATEFOLD_URL=${url}\n`}export STATEFOLD_API_KEY=${text(answer['apiKey'])}\n`;
  };
  /** Throws where a destructive command is not confirmed. */
  const confirmed = async (yes: true | undefined, what: string): Promise<void> => {
    if (yes !== true && !(await confirm(`${what} Go on?`, io, what))) throw notConfirmed();
  };

  program
    .command('serve')
    .description('run the service in the foreground, as npm start does')
    .option(
      '--unsafe-no-sandbox',
      'run uploaded code without a jail, with all that this user may do (UNSAFE_NO_SANDBOX=true)',
    )
    .addHelpText('after', SERVE_HELP)
    .action(async (options: ServeOptions) => {
      if (io.serve === undefined)
        throw new CliError('Start the service with `npx statefold serve`, `serve` before all else.');
      await io.serve(options);
    });

  program
    .command('health')
    .description('tell whether the service and its parts work')
    .action(async () => {
      const answer = (await server().open('/health/ready')) as { readonly checks?: Readonly<Record<string, string>> };
      show(answer, () => table(['PART', 'STATE'], Object.entries(answer.checks ?? {}), 'ready'));
    });

  const tenants = program.command('tenants').description('create, list and delete tenants');
  tenants
    .command('create')
    .description('make a tenant and its first API key, which is shown only now')
    .argument('[name]', 'its name; also its id, where it can be one')
    .option('--name <name>', 'the same')
    .option('--id <id>', 'its id: 1 to 64 of a-z, 0-9 and -')
    .option('--partitions <n>', 'of how many partitions its events are, for good; 1 unless given')
    .action(
      async (
        argument: string | undefined,
        options: { readonly name?: string; readonly id?: string; readonly partitions?: string },
      ) => {
        const name = argument ?? options.name;
        const id = options.id ?? (name !== undefined && TENANT_ID.test(name) ? name : undefined);
        if (name === undefined && id === undefined)
          throw new CliError('Give the tenant a name, or an id with --id, or both.');
        const partitions = options.partitions === undefined ? undefined : Number(options.partitions);
        if (Number.isNaN(partitions)) throw new CliError(`--partitions is a number, not '${options.partitions}'.`);
        const answer = (await server().admin('POST', '/admin/tenants', { name, tenantId: id, partitions })) as Fields;
        show(
          answer,
          () => `tenantId  ${text(answer['tenantId'])}\napiKey    ${text(answer['apiKey'])}\n\n${exported(answer)}`,
        );
      },
    );
  tenants
    .command('list')
    .description('list all tenants')
    .action(async () => {
      const list = await server().list('/admin/tenants', 'tenants');
      show(list, () =>
        table(
          ['TENANT', 'NAME', 'CREATED'],
          list.map((tenant) => ['tenantId', 'name', 'createdAt'].map((field) => text(tenant[field]))),
          'There are no tenants.',
        ),
      );
    });
  tenants
    .command('delete')
    .description('delete a tenant with its keys, events, states and code, for good')
    .argument('<tenantId>')
    .option('--yes', 'do not ask')
    .option(
      '--confirm <tenantId>',
      `its id once more, in place of typing it; the tenant ${DEFAULT_TENANT} needs it beside --yes`,
    )
    .action(async (tenantId: string, { yes, confirm: typed }: { readonly yes?: true; readonly confirm?: string }) => {
      const path = `/admin/tenants/${encodeURIComponent(tenantId)}`;
      // A name that is none is told before anything is asked.
      const { name } = (await server().admin('GET', path)) as Fields;
      const what = `This deletes the tenant ${tenantId}${name === tenantId ? '' : ` (${text(name)})`} with its keys, events, states and code, for good.`;
      if (typed !== undefined && typed !== tenantId)
        throw new CliError(`--confirm names ${typed}, and the tenant to delete is ${tenantId}: nothing was deleted.`);
      if (yes === true && tenantId === DEFAULT_TENANT && typed === undefined)
        throw new CliError(`${what} For this one --yes is not enough: add --confirm ${tenantId}.`);
      if (yes !== true && typed === undefined && !(await confirmByTyping(what, tenantId, io, what)))
        throw notConfirmed();
      await server().admin('DELETE', path);
      show({ tenantId, deleted: true }, () => `Tenant ${tenantId} is deleted.\n`);
    });

  const change = (tenantId: string, body: object): Promise<unknown> =>
    server().admin('PATCH', `/admin/tenants/${encodeURIComponent(tenantId)}`, body);
  tenants
    .command('suspend')
    .description('answer nothing of a tenant, end its streams, and fold and send nothing of it, until it is resumed')
    .argument('<tenantId>')
    .option('--yes', 'do not ask')
    .action(async (tenantId: string, { yes }: { readonly yes?: true }) => {
      await confirmed(yes, `This suspends the tenant ${tenantId}: its clients are answered 403, its streams end.`);
      show(await change(tenantId, { suspended: true }), () => `Tenant ${tenantId} is suspended.\n`);
    });
  tenants
    .command('resume')
    .description('take a suspension back: all goes on where it was')
    .argument('<tenantId>')
    .action(async (tenantId: string) =>
      show(await change(tenantId, { suspended: false }), () => `Tenant ${tenantId} is served again.\n`),
    );
  tenants
    .command('quotas')
    .description('show what a tenant has and may have, or set what it may have')
    .argument('<tenantId>')
    .argument('[quotas...]', `name=number, or name=default: ${QUOTA_NAMES.join(', ')}`)
    .action(async (tenantId: string, given: readonly string[]) => {
      if (given.length > 0) await change(tenantId, { quotas: Object.fromEntries(given.map(quotaOf)) });
      const path = `/admin/tenants/${encodeURIComponent(tenantId)}/usage`;
      const answer = (await server().admin('GET', path)) as UsageAnswer;
      show(answer, () =>
        table(
          ['QUOTA', 'USED', 'MAY BE'],
          QUOTA_NAMES.map((name) => [name, String(answer.usage[name]), String(answer.quotas[name] ?? 'unlimited')]),
          '',
        ),
      );
    });

  const keys = program.command('keys').description('create, list and revoke the API keys of a tenant');
  const keysOf = (tenantId: string): string => `/admin/tenants/${encodeURIComponent(tenantId)}/keys`;
  keys
    .command('create')
    .description('make another API key, which is shown only now')
    .argument('<tenantId>')
    .option('--name <name>', 'what it is for')
    .option('--scopes <scopes>', `what it may be used for, separated by commas: ${SCOPES.join(', ')}; all unless given`)
    .option('--expires <time>', 'it is in force until then, like 2030-01-31T00:00:00Z; for good unless given')
    .action(async (tenantId: string, options: KeyOptions) => {
      const answer = (await server().admin('POST', keysOf(tenantId), {
        name: options.name,
        scopes: options.scopes?.split(',').map((scope) => scope.trim()),
        expiresAt: options.expires,
      })) as Fields;
      show(answer, () => `keyId   ${text(answer['keyId'])}\napiKey  ${text(answer['apiKey'])}\n\n${exported(answer)}`);
    });
  keys
    .command('list')
    .description('list the keys of a tenant, revoked ones too')
    .argument('<tenantId>')
    .action(async (tenantId: string) => {
      const list = await server().list(keysOf(tenantId), 'keys');
      const row = (key: Fields): string[] => [
        text(key['keyId']),
        text(key['prefix']),
        text(key['name']) || '-',
        scopesText(key['scopes']),
        text(key['createdAt']),
        text(key['expiresAt']) || '-',
        text(key['revokedAt']) || '-',
      ];
      const head = ['KEY', 'BEGINS WITH', 'NAME', 'SCOPES', 'CREATED', 'EXPIRES', 'REVOKED'];
      show(list, () => table(head, list.map(row), 'The tenant has no keys.'));
    });
  keys
    .command('revoke')
    .description('revoke a key, at once and for good')
    .argument('<tenantId>')
    .argument('<keyId>')
    .option('--yes', 'do not ask')
    .action(async (tenantId: string, keyId: string, { yes }: { readonly yes?: true }) => {
      await confirmed(
        yes,
        `This ends the key ${keyId} of the tenant ${tenantId} at once and for good: who uses it is answered 401.`,
      );
      await server().admin('DELETE', `${keysOf(tenantId)}/${encodeURIComponent(keyId)}`);
      show({ tenantId, keyId, revoked: true }, () => `Key ${keyId} is revoked.\n`);
    });

  program
    .command('sql')
    .description("run one statement on the service's ClickHouse: over all tenants' rows, or over those of one")
    .argument('[statement]', 'the statement (default: from standard input)')
    .option('--tenant', "with the key in STATEFOLD_API_KEY, over its tenant's rows alone")
    .option('--file <path>', 'a file that holds the statement')
    .option(
      '--parameter <name=value>',
      'a value of the placeholder {name:Type}; may be repeated (with --tenant)',
      (given: string, before: readonly string[]) => [...before, given],
      [] as readonly string[],
    )
    .option(
      '--format <format>',
      "one of ClickHouse's formats (default: PrettyCompact on a terminal, else TabSeparatedWithNames; JSONEachRow with --json)",
    )
    .action(async (given: string | undefined, options: SqlOptions) => {
      const usual = io.stdout.isTTY === true ? 'PrettyCompact' : 'TabSeparatedWithNames';
      const format = options.format ?? (program.opts<Global>().json === true ? 'JSONEachRow' : usual);
      if (given !== undefined && options.file !== undefined)
        throw new CliError('Give the statement as an argument or with --file, not both.');
      const parameters = parametersOf(options.parameter);
      if (options.tenant !== true && options.parameter.length > 0) throw new CliError('--parameter is for --tenant.');
      const query = given ?? (options.file === undefined ? await readAll(io.stdin) : readStatementFile(options.file));
      if (options.tenant === true)
        return runTenantSql(server().tenantAccess('/sql'), { query, format, parameters }, io.stdout);
      const access = (await server().admin('GET', '/admin/read-store')) as ReadStoreAccess;
      await runSql(access, query, format, io.stdout);
    });
  program
    .command('rebuild-read-store')
    .description("drop the rows of the service's ClickHouse and fill it again from the log")
    .option('--tenant <id>', 'of this tenant alone')
    .option('--yes', 'do not ask')
    .action(async ({ tenant, yes }: { readonly tenant?: string; readonly yes?: true }) => {
      await confirmed(
        yes,
        `This drops the rows${tenant === undefined ? '' : ` of the tenant ${tenant}`} in ClickHouse and fills them in again from the log: until then queries find some of them only.`,
      );
      const query = tenant === undefined ? '' : `?tenantId=${encodeURIComponent(tenant)}`;
      const answer = await server().admin('POST', `/admin/read-store/rebuild${query}`);
      show(answer, () => 'The read store is being rebuilt from the log; queries see its rows as they come.\n');
    });
  const context = { io, server, show, json: () => program.opts<Global>().json === true };
  addProjectCommands(program, context);
  addVerifyCommand(program, context);
  addWebhookCommands(program, context);
  addEventTypeCommands(program, context);
  addEraseCommand(program, context);
  addAuditCommand(program, context);
  addTypesCommand(program, context);
  addAssistantCommand(program, context);
  addTopicCommands(program, context);
  addBackupCommands(program, context);
  addTransferCommands(program, context);
  showUsageAfterErrors(program, 'statefold');
  return program;
}

/** A wrong command line is answered with the right order of its arguments. */
function showUsageAfterErrors(command: Command, path: string): void {
  command.showHelpAfterError(`Usage: ${path} ${command.usage()}\n\`${path} --help\` says more.`);
  for (const one of command.commands) showUsageAfterErrors(one, `${path} ${one.name()}`);
}

/** Runs the command line. @returns the exit code */
export async function runProgram(args: readonly string[], io: CliIo): Promise<number> {
  try {
    await buildProgram(io).parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    // Commander has said what was wrong already, or shown the help that was asked for.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : FAILED;
    if (error instanceof CliExit) return error.code;
    if (!(error instanceof CliError)) throw error;
    io.stderr.write(`${error.message}\n`);
    return FAILED;
  }
}

async function readAll(input: CliIo['stdin']): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of input) chunks.push(Buffer.from(chunk as Uint8Array));
  return Buffer.concat(chunks).toString();
}

interface SqlOptions {
  readonly tenant?: true;
  readonly file?: string;
  readonly parameter: readonly string[];
  readonly format?: string;
}

/** @throws CliError where one is not `name=value` */
function parametersOf(given: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    given.map((one) => {
      const at = one.indexOf('=');
      if (at < 1) throw new CliError(`--parameter takes name=value, and this is ${one}.`);
      return [one.slice(0, at), one.slice(at + 1)];
    }),
  );
}

/** @throws CliError where the file can't be read */
function readStatementFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new CliError(`${path} can't be read: ${error instanceof Error ? error.message : String(error)}.`);
  }
}
