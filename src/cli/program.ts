import { Command, CommanderError } from 'commander';
import { CliError, CliExit, FAILED, type CliIo, type ServeOptions } from './io.js';
import { unwritableOutput } from './writer.js';
import { StartupError } from '../core/startup-error.js';

const SERVE_HELP = `
Settings are environment variables; docs/reference/settings.md has all of them:
  PORT                where it listens (8080)
  HOST                the address it is bound to (127.0.0.1)
  STATEFOLD_DATA_DIR  where everything is kept (./data)
  STATEFOLD_API_KEY   a key of the tenant default; unset: the first start makes one, and prints it
  KAFKA_BROKERS       an Apache Kafka that keeps the log; unset: it is in the data directory`;

/**
 * The command line. Commands throw CliError and CommanderError, and StartupError where settings are wrong. `asked`: the first argument; where that is
 * `serve` there are no others, since the code of them all would be a tenth of what the service's start takes.
 */
export async function buildProgram(io: CliIo, asked?: string): Promise<Command> {
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

  if (asked !== 'serve') (await import('./commands.js')).addCommands(program, io);
  showUsageAfterErrors(program, 'statefold');
  return program;
}

/** A wrong command line is answered with the right order of its arguments. */
function showUsageAfterErrors(command: Command, path: string): void {
  command.showHelpAfterError(`Usage: ${path} ${command.usage()}\n\`${path} --help\` says more.`);
  for (const one of command.commands) showUsageAfterErrors(one, `${path} ${one.name()}`);
}

/** Runs the command line, and says on standard error what went wrong. @returns the exit code */
export async function runProgram(args: readonly string[], io: CliIo): Promise<number> {
  const { stdout, stderr } = io;
  // A failure is looked for behind each command; one that writes much listens itself.
  const ignore = (): void => undefined;
  for (const output of [stdout, stderr]) output.on('error', ignore);
  try {
    return await ran(args, io);
  } finally {
    for (const output of [stdout, stderr]) await taken(output);
    setImmediate(() => [stdout, stderr].forEach((output) => output.off('error', ignore)));
  }
}

async function ran(args: readonly string[], io: CliIo): Promise<number> {
  try {
    await (await buildProgram(io, args[0])).parseAsync(args, { from: 'user' });
    await taken(io.stdout);
    mustBeWritten(io);
    return 0;
  } catch (error) {
    // Commander has said what was wrong already, or shown the help that was asked for.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : FAILED;
    if (error instanceof CliExit) return error.code;
    io.stderr.write(`${described(error, io.env)}\n`);
    return FAILED;
  }
}

/** Resolves when what was written is taken, or never is: of a pipe the rest is, or fails, once its reader comes to it. */
const taken = (output: CliIo['stdout']): Promise<void> =>
  output.writableLength === 0 ? Promise.resolve() : new Promise((resolve) => output.write('', () => resolve()));

/** What its user can put right is one sentence; all else is a fault of ours, which says how to find its place. */
function described(error: unknown, env: CliIo['env']): string {
  if (error instanceof CliError || error instanceof StartupError) return error.message;
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  if (env['LOG_LEVEL'] === 'debug') return stack ?? message;
  return `The command failed, and does not know of this failure: ${message.replace(/\.$/, '')}. LOG_LEVEL=debug shows where it happened.`;
}

/** A reader of a pipe that has enough (`| head`) is an end like another. */
function mustBeWritten({ stdout }: Pick<CliIo, 'stdout'>): void {
  const failure: NodeJS.ErrnoException | null = stdout.errored;
  if (failure !== null && failure.code !== 'EPIPE') throw unwritableOutput(failure);
}
