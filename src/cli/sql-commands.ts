import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { requireConfirmed, type CommandContext } from './context.js';
import { CliError, type CliIo } from './io.js';
import { runSql, runTenantSql, type ReadStoreAccess } from './sql.js';

/** The rows of the read store: asked, and filled in again. */
export function addSqlCommands(program: Command, { io, server, show, json }: CommandContext): void {
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
      const format = options.format ?? (json() ? 'JSONEachRow' : usual);
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
    .description("write the rows of the service's ClickHouse anew from the log")
    .option('--tenant <id>', 'of this tenant alone')
    .option('--cancel', 'call off the one that is under way: SQL finds the rows of before')
    .option('--yes', 'do not ask')
    .action(async ({ tenant, cancel, yes }: RebuildCommandOptions) => {
      if (cancel === true) {
        if (tenant !== undefined) throw new CliError('A rebuild is called off as a whole: leave --tenant out.');
        await requireConfirmed(
          io,
          yes,
          'This calls off the rebuild of the rows in ClickHouse, which has to begin again to be had after all. Queries see those of before, as they do now.',
        );
        await server().admin('DELETE', '/admin/read-store/rebuild');
        return show({ cancelled: true }, () => 'The rebuild is called off.\n');
      }
      await requireConfirmed(
        io,
        yes,
        `This writes the rows${tenant === undefined ? '' : ` of the tenant ${tenant}`} in ClickHouse anew from the log; queries see those of before until all are there. Where several processes write to one ClickHouse server, or to a cluster of servers, rows are dropped first: until they are filled in again queries find some of them only.`,
      );
      const query = tenant === undefined ? '' : `?tenantId=${encodeURIComponent(tenant)}`;
      const answer = await server().admin('POST', `/admin/read-store/rebuild${query}`);
      show(answer, () => 'The read store is being rebuilt from the log.\n');
    });
}

async function readAll(input: CliIo['stdin']): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of input) chunks.push(Buffer.from(chunk as Uint8Array));
  return Buffer.concat(chunks).toString();
}

interface RebuildCommandOptions {
  readonly tenant?: string;
  readonly cancel?: true;
  readonly yes?: true;
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
