import { copyFileSync, existsSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CliError, type BackupTools, type CliIo, type ProjectTools, type TopicTools } from '../cli/io.js';
import { runProgram } from '../cli/program.js';
import { DotnetCodeHost } from '../code-host/dotnet/dotnet-code-host.js';
import { jailOf } from '../jail/launch.js';
import { logIsLocal } from './log-setup.js';
import { assembliesOf, codeHostOptions } from './open-code-host.js';
import { findProjectRoot, versionOf } from '../config/project-root.js';
import { readSettings } from '../config/settings.js';
import { silentLogger } from '../core/logger.js';
import { makeFolder } from '../core/private-folder.js';

/** The command line with what its commands on projects need. @returns the exit code */
export const runCommandLine = (args: readonly string[], io: CliIo): Promise<number> =>
  runProgram(args, {
    ...io,
    tools: projectTools(io),
    backups: backupTools(io.env),
    openTopics: () => openTopics(io.env),
  });

function projectTools({ env }: Pick<CliIo, 'env'>): ProjectTools {
  const root = findProjectRoot();
  const version = versionOf(root);
  return {
    version,
    templateDirectory: join(root, 'templates', 'project'),
    openCodeHost: () => openCodeHost(root, env),
    copyPackages: (folder) => copyPackages(root, folder, version),
  };
}

/** As the service has it. On a machine without a jail the code runs without one: it is its owner who runs it. */
function openCodeHost(root: string, env: CliIo['env']): ReturnType<ProjectTools['openCodeHost']> {
  const options = codeHostOptions(readSettings(env), root);
  if (!existsSync(join(options.assembliesDir, 'compiler')))
    throw new CliError('The compiler is not built yet: run `npm run build` once, with the .NET SDK 10.');
  const jail = jailOf(options);
  const host = new DotnetCodeHost({
    ...options,
    // Nothing is kept there: one of its own would be left behind by Ctrl-C.
    workDir: tmpdir(),
    logger: silentLogger,
    jail: jail.kind === 'refused' ? { kind: 'none' } : jail,
  });
  return { host, close: () => host.close() };
}

async function openTopics(env: CliIo['env']): Promise<TopicTools> {
  const settings = readSettings(env);
  if (settings.kafkaBrokers === undefined)
    throw new CliError('KAFKA_BROKERS is not set: the log is in the data directory, and has no topics on Kafka.');
  // Other commands do without Kafka's client.
  const { kafkaLog } = await import('./open-kafka-log.js');
  const log = kafkaLog(settings, settings.kafkaBrokers, silentLogger);
  return {
    look: () => log.replication.look(),
    raise: (progress) => log.replication.raise(progress),
    close: () => log.close(),
  };
}

function backupTools(env: CliIo['env']): BackupTools {
  const dataDirectory = (): string => {
    const settings = readSettings(env);
    if (!logIsLocal(settings))
      throw new CliError(
        'KAFKA_BROKERS is set: the log is on Kafka, and is backed up as Kafka is (docs/how-to/run-on-kafka.md says what to keep).',
      );
    return settings.dataDirectory;
  };
  return {
    backUp: async (folder) => {
      const { backUp } = await import('./backup.js');
      return backUp(dataDirectory(), folder, versionOf(findProjectRoot()));
    },
    restore: async (folder) => {
      const directory = dataDirectory();
      const { restore } = await import('./backup.js');
      return { dataDirectory: directory, ...(await restore(folder, directory)) };
    },
  };
}

/** What projects refer to: what tenants' code is compiled against, with the checks of the compiler, and what runs fixtures in tests. */
function copyPackages(root: string, folder: string, version: string): void {
  const from = join(assembliesOf(root), 'packages');
  const names = existsSync(from) ? readdirSync(from).filter((name) => name.endsWith(`.${version}.nupkg`)) : [];
  if (names.length === 0)
    throw new CliError(
      'The packages that projects refer to are not built yet: run `npm run build` once, with the .NET SDK 10.',
    );
  makeFolder(folder);
  for (const name of names) copyFileSync(join(from, name), join(folder, name));
}
