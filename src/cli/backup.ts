import type { Command } from 'commander';
import { CliError, type BackupSummary, type BackupTools, type CliIo } from './io.js';
import type { CommandContext } from './context.js';

const MIB = 1024 * 1024;

/** Backup and restore of the embedded log: without a request to the service, so that they work where it doesn't. */
export function addBackupCommands(program: Command, { io, show }: Pick<CommandContext, 'io' | 'show'>): void {
  program
    .command('backup')
    .description(
      'copy the log and keys of the data directory (STATEFOLD_DATA_DIR) into a new folder, while the service runs',
    )
    .argument('<folder>', 'is made; must be empty where it is there')
    .action(async (folder: string) => {
      const made = await toolsOf(io).backUp(folder);
      show(made, () => `${folder}: ${size(made)}, of all that was acknowledged until ${made.takenAt}\n`);
      if (made.notNoted !== undefined)
        io.stderr.write(
          `The backup is whole, but the data directory could not be told of it (${made.notNoted}): the metric of the last backup stays as it was.\n`,
        );
      if (!made.hasMasterKey)
        io.stderr.write(
          'The master key is not in it, since STATEFOLD_MASTER_KEY sets it: keep that key elsewhere. Without it webhook secrets are of no use.\n',
        );
    });
  program
    .command('restore')
    .description('make a new data directory (STATEFOLD_DATA_DIR) of a backup; then start the service there')
    .argument('<folder>', 'that `backup` made')
    .action(async (folder: string) => {
      const { dataDirectory, ...made } = await toolsOf(io).restore(folder);
      show({ dataDirectory, ...made }, () => `${dataDirectory}: ${size(made)}, as of ${made.takenAt}\n`);
    });
}

const size = ({ bytes }: BackupSummary): string => `${(bytes / MIB).toFixed(1)} MiB`;

function toolsOf({ backups }: CliIo): BackupTools {
  if (backups === undefined) throw new CliError('Run this with the program itself: `statefold backup`.');
  return backups;
}
