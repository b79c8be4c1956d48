import { Command, CommanderError } from 'commander';
import { CliError, CliExit, table, type CliIo, type ServeOptions } from './io.js';
import { addProjectCommands } from './project/commands.js';
import { Server } from './server.js';
import { runSql, type ReadStoreAccess } from './sql.js';
import { addVerifyCommand } from './verify.js';

interface Global {
  readonly url?: string;
  readonly json?: true;
}
type Fields = Readonly<Record<string, unknown>>;

const TENANT_ID = /^[a-z0-9][a-z0-9-]{0,63}$/;

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
        show(answer, () => `tenantId  ${text(answer['tenantId'])}\napiKey    ${text(answer['apiKey'])}\n`);
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
    .action(async (tenantId: string) => {
      await server().admin('DELETE', `/admin/tenants/${encodeURIComponent(tenantId)}`);
      show({ tenantId, deleted: true }, () => `Tenant ${tenantId} is deleted.\n`);
    });

  const keys = program.command('keys').description('create, list and revoke the API keys of a tenant');
  const keysOf = (tenantId: string): string => `/admin/tenants/${encodeURIComponent(tenantId)}/keys`;
  keys
    .command('create')
    .description('make another API key, which is shown only now')
    .argument('<tenantId>')
    .action(async (tenantId: string) => {
      const answer = (await server().admin('POST', keysOf(tenantId))) as Fields;
      show(answer, () => `keyId   ${text(answer['keyId'])}\napiKey  ${text(answer['apiKey'])}\n`);
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
        text(key['createdAt']),
        text(key['revokedAt']) || '-',
      ];
      show(list, () => table(['KEY', 'BEGINS WITH', 'CREATED', 'REVOKED'], list.map(row), 'The tenant has no keys.'));
    });
  keys
    .command('revoke')
    .description('revoke a key, at once and for good')
    .argument('<tenantId>')
    .argument('<keyId>')
    .action(async (tenantId: string, keyId: string) => {
      await server().admin('DELETE', `${keysOf(tenantId)}/${encodeURIComponent(keyId)}`);
      show({ tenantId, keyId, revoked: true }, () => `Key ${keyId} is revoked.\n`);
    });

  program
    .command('sql')
    .description("run one statement on the service's ClickHouse")
    .argument('[statement]', 'the statement (default: from standard input)')
    .option(
      '--format <format>',
      "one of ClickHouse's formats (default: PrettyCompact on a terminal, else TabSeparatedWithNames; JSONEachRow with --json)",
    )
    .action(async (statement: string | undefined, { format }: { readonly format?: string }) => {
      const access = (await server().admin('GET', '/admin/read-store')) as ReadStoreAccess;
      const usual = io.stdout.isTTY === true ? 'PrettyCompact' : 'TabSeparatedWithNames';
      await runSql(
        access,
        statement ?? (await readAll(io.stdin)),
        format ?? (program.opts<Global>().json === true ? 'JSONEachRow' : usual),
        io.stdout,
      );
    });
  program
    .command('rebuild-read-store')
    .description("drop the rows of the service's ClickHouse and fill it again from the log")
    .option('--tenant <id>', 'of this tenant alone')
    .action(async ({ tenant }: { readonly tenant?: string }) => {
      const query = tenant === undefined ? '' : `?tenantId=${encodeURIComponent(tenant)}`;
      const answer = await server().admin('POST', `/admin/read-store/rebuild${query}`);
      show(answer, () => 'The read store is being rebuilt from the log; queries see its rows as they come.\n');
    });
  const context = { io, server, show, json: () => program.opts<Global>().json === true };
  addProjectCommands(program, context);
  addVerifyCommand(program, context);
  return program;
}

/** Runs the command line. @returns the exit code */
export async function runProgram(args: readonly string[], io: CliIo): Promise<number> {
  try {
    await buildProgram(io).parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    // Commander has said what was wrong already, or shown the help that was asked for.
    if (error instanceof CommanderError) return error.exitCode;
    if (error instanceof CliExit) return error.code;
    if (!(error instanceof CliError)) throw error;
    io.stderr.write(`${error.message}\n`);
    return 1;
  }
}

async function readAll(input: CliIo['stdin']): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of input) chunks.push(Buffer.from(chunk as Uint8Array));
  return Buffer.concat(chunks).toString();
}
