import { join, relative } from 'node:path';
import type { Command } from 'commander';
import { interrupted } from '../interrupted.js';
import { CliError, CliExit, FAILED, NOT_COMPILED, type CliIo, type ProjectTools } from '../io.js';
import type { CommandContext } from '../context.js';
import { Deployment, NotCompiled } from './deploy.js';
import { historyOf, overview, rollback } from './history.js';
import { Remote } from './remote.js';
import { newDirectory, removeProject, writeProject, type TemplateKind } from './template.js';
import { runFixtures, watchFixtures } from './test-command.js';

const KINDS = ['reducer', 'projection', 'both'];

/** Commands of those who write reducers and projections: new, test, deploy, history, rollback. */
export function addProjectCommands(program: Command, context: CommandContext): void {
  const { io, show, json, server } = context;
  const remote = (): Remote => new Remote(server());
  /** What is going on is told here: the output itself is for the JSON, where that is wanted. */
  const output = (): CliIo['stdout'] => (json() ? io.stderr : io.stdout);
  program
    .command('new')
    .description('make a project of a reducer and a projection, that any IDE opens and builds')
    .argument('<folder>', 'a new or empty one')
    .option('--kind <kind>', 'reducer or projection alone', 'both')
    .action((folder: string, { kind }: { readonly kind: string }) => {
      if (!KINDS.includes(kind)) throw new CliError(`--kind is reducer or projection, not '${kind}'.`);
      const tools = toolsOf(io);
      const directory = newDirectory(folder);
      let files: readonly string[];
      try {
        files = writeProject(tools.templateDirectory, directory, kind as TemplateKind, tools.version);
        tools.copyPackages(join(directory, 'packages'));
      } catch (error) {
        removeProject(directory);
        if (error instanceof CliError) throw error;
        throw new CliError(
          `${directory} can't be written: ${(error as Error).message}. Nothing of the project was left.`,
        );
      }
      const shown = relative('', directory) || '.';
      show(
        { directory, files },
        () =>
          `${files.map((file) => `${join(shown, file)}\n`).join('')}\nNext: \`statefold test ${shown}\` runs its fixtures, \`statefold deploy ${shown}\` uploads it.\n`,
      );
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
          await watchFixtures(host, io, folder, { only, json: json() }, interrupted());
          return;
        }
        const code = await runFixtures(host, io, folder, { only, json: json() });
        if (code !== 0) throw new CliExit(code);
      } finally {
        await close();
      }
    });

  program
    .command('deploy')
    .description('show what a project would change at the service, ask, upload it, and wait until it is caught up')
    .argument('[folder]', 'the project (default: this folder)')
    .option('--yes', 'do not ask')
    .option('--plan', 'only show what would change')
    .option('--no-dry-run', 'do not try it over the stored history first')
    .option('--force', 'deploy although fixtures fail, or events of the history stop states')
    .option(
      '--projection <name>',
      'the projection to redeploy, by its id or class, where it has no class of the same name',
    )
    .addHelpText(
      'after',
      '\nExit codes: 0 deployed (or planned, or nothing to do), 1 not, 2 the project does not compile.',
    )
    .action(
      async (
        folder: string | undefined,
        {
          yes,
          plan,
          dryRun,
          force,
          projection,
        }: {
          readonly yes?: true;
          readonly plan?: true;
          readonly dryRun: boolean;
          readonly force?: true;
          readonly projection?: string;
        },
      ) => {
        const deployment = new Deployment(io, remote(), folder, json());
        const { host, close } = toolsOf(io).openCodeHost();
        try {
          const result = await deployment.run(host, {
            yes: yes === true,
            planOnly: plan === true,
            tryFirst: dryRun,
            force: force === true,
            projection,
          });
          show(result, () => '');
          if (result.blocked || (!result.deployed && !result.unchanged && plan !== true)) throw new CliExit(FAILED);
        } catch (error) {
          if (error instanceof NotCompiled) throw new CliExit(NOT_COMPILED);
          throw error;
        } finally {
          await close();
        }
      },
    );

  program
    .command('history')
    .description('show what is deployed, or what was bound to a type, or the revisions of a projection')
    .argument(
      '[name]',
      'an aggregate type, by its name or its reducer, or a projection; reducers and projections by their id or class',
    )
    .action(async (name: string | undefined) => {
      const { answer, lines } = await (name === undefined ? overview(remote()) : historyOf(remote(), name));
      show(answer, () => lines);
    });

  program
    .command('rollback')
    .description('go back to an earlier reducer of a type, or revision of a projection, and wait until it is caught up')
    .argument(
      '<name>',
      'an aggregate type, by its name or its reducer, or a projection; reducers and projections by their id or class',
    )
    .option('--to <id>', 'a reducer by its id or class, or the number of a revision (default: the one before)')
    .option('--yes', 'do not ask')
    .action(async (name: string, { to, yes }: { readonly to?: string; readonly yes?: true }) => {
      const done = await rollback(remote(), io, output(), name, { to, yes: yes === true });
      if (done === undefined) throw new CliError('It was not confirmed: nothing was changed.');
      show(done, () => '');
    });
}

export function toolsOf({ tools }: CliIo): ProjectTools {
  if (tools === undefined) throw new CliError('This command needs the whole program: run it as `statefold`.');
  return tools;
}
