import { Command, CommanderError } from 'commander';
import { addAssistantCommand } from './assistant.js';
import { addAuditCommand } from './audit.js';
import { addBackupCommands } from './backup.js';
import { CliError, CliExit, FAILED, table, type CliIo, type ServeOptions } from './io.js';
import { addProjectCommands } from './project/commands.js';
import { Server } from './server.js';
import { addKeyCommands } from './keys.js';
import { addSqlAccountCommands } from './sql-accounts.js';
import { addSqlCommands } from './sql-commands.js';
import { addTenantCommands } from './tenants.js';
import type { CommandContext } from './context.js';
import { addTopicCommands } from './topics.js';
import { addEraseCommand } from './erase.js';
import { addEventTypeCommands } from './event-types.js';
import { addTransferCommands } from './transfer.js';
import { addTypesCommand } from './types/command.js';
import { addVerifyCommand } from './verify.js';
import { addWebhookCommands } from './webhooks.js';
import { unwritableOutput } from './writer.js';

interface Global {
  readonly url?: string;
  readonly json?: true;
}
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

  const context: CommandContext = {
    io,
    server,
    show,
    json: () => program.opts<Global>().json === true,
    exported: (apiKey) => {
      const { url } = program.opts<Global>();
      return `${url === undefined ? '' : `export STATEFOLD_URL=${url}\n`}export STATEFOLD_API_KEY=${apiKey}\n`;
    },
  };
  addTenantCommands(program, context);
  addKeyCommands(program, context);
  addSqlCommands(program, context);
  addSqlAccountCommands(program, context);
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
  // A failure is looked for behind each command; one that writes much listens itself.
  const ignore = (): void => undefined;
  io.stdout.on('error', ignore);
  try {
    await buildProgram(io).parseAsync(args, { from: 'user' });
    mustBeWritten(io);
    return 0;
  } catch (error) {
    // Commander has said what was wrong already, or shown the help that was asked for.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : FAILED;
    if (error instanceof CliExit) return error.code;
    if (!(error instanceof CliError)) throw error;
    io.stderr.write(`${error.message}\n`);
    return FAILED;
  } finally {
    setImmediate(() => io.stdout.off('error', ignore));
  }
}

/** A reader of a pipe that has enough (`| head`) is an end like another. */
function mustBeWritten({ stdout }: Pick<CliIo, 'stdout'>): void {
  const failure: NodeJS.ErrnoException | null = stdout.errored;
  if (failure !== null && failure.code !== 'EPIPE') throw unwritableOutput(failure);
}
