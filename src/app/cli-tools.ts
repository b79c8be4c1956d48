import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CliError, type CliIo, type ProjectTools } from '../cli/io.js';
import { runProgram } from '../cli/program.js';
import { DotnetCodeHost } from '../code-host/dotnet/dotnet-code-host.js';
import { jailOf } from '../code-host/dotnet/launch.js';
import { codeHostOptions } from './open-code-host.js';
import { findProjectRoot, versionOf } from '../config/project-root.js';
import { readSettings } from '../config/settings.js';
import { silentLogger } from '../core/logger.js';

/** The command line with what its commands on projects need. @returns the exit code */
export const runCommandLine = (args: readonly string[], io: CliIo): Promise<number> =>
  runProgram(args, { ...io, tools: projectTools(io) });

function projectTools({ env }: Pick<CliIo, 'env'>): ProjectTools {
  const root = findProjectRoot();
  const version = versionOf(root);
  return {
    version,
    templateDirectory: join(root, 'templates', 'project'),
    openCodeHost: () => openCodeHost(root, env),
    packAbstractions: (folder) => packAbstractions(root, folder, version, env),
  };
}

/** As the service has it, in a folder of its own. On a machine without a jail the code runs without one: it is its owner who runs it. */
function openCodeHost(root: string, env: CliIo['env']): ReturnType<ProjectTools['openCodeHost']> {
  const options = codeHostOptions(readSettings(env), root);
  if (!existsSync(join(options.assembliesDir, 'compiler')))
    throw new CliError('The compiler is not built yet: run `npm run build` once, with the .NET SDK 10.');
  const workDir = mkdtempSync(join(tmpdir(), 'statefold-'));
  const jail = jailOf(options);
  const host = new DotnetCodeHost({
    ...options,
    workDir,
    logger: silentLogger,
    jail: jail.kind === 'refused' ? { kind: 'none' } : jail,
  });
  const close = async (): Promise<void> => {
    await host.close();
    rmSync(workDir, { recursive: true, force: true });
  };
  return { host, close };
}

/** Packs what tenants' code is compiled against. Nothing is downloaded. */
async function packAbstractions(root: string, folder: string, version: string, env: CliIo['env']): Promise<void> {
  const artefacts = mkdtempSync(join(tmpdir(), 'statefold-pack-'));
  try {
    const project = join(root, 'dotnet', 'src', 'Statefold.Abstractions');
    const args = [
      'pack',
      project,
      '--configuration',
      'Release',
      '--output',
      folder,
      '--artifacts-path',
      artefacts,
      `-p:Version=${version}`,
      '--nologo',
      '--verbosity',
      'quiet',
      '-nodeReuse:false',
      '-p:UseSharedCompilation=false',
    ];
    const child = spawn('dotnet', args, {
      env: { ...env, DOTNET_CLI_TELEMETRY_OPTOUT: '1', DOTNET_NOLOGO: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const said: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => said.push(chunk));
    const failed = once(child, 'error').then(([error]) => (error as Error).message);
    const ended = once(child, 'close').then(([code]) =>
      code === 0 ? undefined : Buffer.concat(said).toString().trim(),
    );
    const problem = await Promise.race([ended, failed]);
    if (problem !== undefined)
      throw new CliError(`The package Statefold.Abstractions could not be made; it needs the .NET SDK 10.\n${problem}`);
  } finally {
    rmSync(artefacts, { recursive: true, force: true });
  }
}
