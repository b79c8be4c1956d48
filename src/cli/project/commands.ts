import { join, relative } from 'node:path';
import type { Command } from 'commander';
import { CliError, CliExit, type CliIo, type ProjectTools } from '../io.js';
import type { Server } from '../server.js';
import { removeProject, writeProject, type TemplateKind } from './template.js';
import { runFixtures, watchFixtures } from './test-command.js';

export interface CommandContext {
  readonly io: CliIo;
  readonly server: () => Server;
  /** Writes an answer as JSON, or as these lines. */
  readonly show: (answer: unknown, lines: () => string) => void;
}

const KINDS = ['reducer', 'projection', 'both'];

/** Commands of those who write reducers and projections: new, test. */
export function addProjectCommands(program: Command, context: CommandContext): void {
  const { io, show } = context;
  program
    .command('new')
    .description('make a project of a reducer and a projection, that any IDE opens and builds')
    .argument('<folder>', 'a new or empty one')
    .option('--kind <kind>', 'reducer or projection alone', 'both')
    .action(async (folder: string, { kind }: { readonly kind: string }) => {
      if (!KINDS.includes(kind)) throw new CliError(`--kind is reducer or projection, not '${kind}'.`);
      const tools = toolsOf(io);
      const { directory, files } = writeProject(tools.templateDirectory, folder, kind as TemplateKind, tools.version);
      try {
        await tools.packAbstractions(join(directory, 'packages'));
      } catch (error) {
        removeProject(directory);
        throw error;
      }
      const shown = relative('', directory) || '.';
      show({ directory, files }, () => `${files.map((file) => `${join(shown, file)}\n`).join('')}\nNext: \`statefold test ${shown}\` runs its fixtures, \`statefold deploy ${shown}\` uploads it.\n`);
    });

  program
    .command('test')
    .description('run the fixtures of a project as the service would, without one')
    .argument('[folder]', 'the project (default: this folder)')
    .option('--only <text>', 'those whose name or file has this in it')
    .option('--watch', 'run them again after each change')
    .addHelpText('after', '\nExit codes: 0 all passed, 1 some failed, 2 the project does not compile.')
    .action(async (folder: string | undefined, { only, watch }: { readonly only?: string; readonly watch?: true }) => {
      const { host, close } = toolsOf(io).openCodeHost();
      try {
        if (watch === true) {
          await watchFixtures(host, io, folder, only, interrupted());
          return;
        }
        const code = await runFixtures(host, io, folder, only);
        if (code !== 0) throw new CliExit(code);
      } finally {
        await close();
      }
    });
}

export function toolsOf({ tools }: CliIo): ProjectTools {
  if (tools === undefined) throw new CliError('This command needs the whole program: run it with `npx statefold`.');
  return tools;
}

/** Ctrl-C ends what goes on for ever, in order. */
function interrupted(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => controller.abort());
  return controller.signal;
}
