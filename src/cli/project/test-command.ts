import { watch } from 'node:fs';
import type { CodeHost } from '../../code-host/code-host.js';
import { CliError, type CliIo } from '../io.js';
import { CompileError, compileProject } from './compile.js';
import { formatDiagnostics } from './diagnostics.js';
import { FixtureRunner } from './fixture-run.js';
import { readFixtures, type Fixture } from './fixtures.js';
import { formatOutcome, formatSummary } from './report.js';
import { readProject } from './sources.js';
import { styleFor } from './style.js';

/** Exit codes of `statefold test`. */
export const TEST_FAILED = 1;
export const NOT_COMPILED = 2;

/** After the last of a burst of changes to files. */
const SETTLED_MS = 100;

/** Runs the fixtures of a project whose part of a name is `only`. @returns the exit code */
export async function runFixtures(
  host: CodeHost,
  io: CliIo,
  directory: string | undefined,
  only: string | undefined,
): Promise<number> {
  const style = styleFor(io.stdout, io.env);
  const project = readProject(directory);
  const fixtures = project.fixtures
    .flatMap(readFixtures)
    .filter(({ name, file }) => only === undefined || name.includes(only) || file.includes(only));
  if (fixtures.length === 0)
    throw new CliError(
      only === undefined
        ? `${project.directory} has no fixtures: put JSON files with given, when and then into its folder fixtures.`
        : `No fixture's name or file has '${only}' in it.`,
    );
  let compiled;
  try {
    compiled = await compileProject(host, project);
  } catch (error) {
    if (!(error instanceof CompileError)) throw error;
    io.stdout.write(formatDiagnostics(error.diagnostics, project.sources, style));
    return NOT_COMPILED;
  }
  io.stdout.write(formatDiagnostics(compiled.diagnostics, project.sources, style));
  const runner = new FixtureRunner(host, compiled);
  let [passed, failed] = [0, 0];
  for (const [file, cases] of byFile(fixtures)) {
    io.stdout.write(`${style.bold(file)}\n`);
    for (const fixture of cases) {
      const outcome = await runner.run(fixture);
      if (outcome.status === 'passed') passed++;
      else failed++;
      io.stdout.write(formatOutcome(fixture, outcome, project.sources, style));
    }
  }
  io.stdout.write(formatSummary(passed, failed, style));
  return failed === 0 ? 0 : TEST_FAILED;
}

/** Runs them again after each change below the folder, until it is aborted. */
export async function watchFixtures(
  host: CodeHost,
  io: CliIo,
  directory: string | undefined,
  only: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { directory: folder } = readProject(directory);
  const round = async (): Promise<void> => {
    // A file that is being written is no reason to stop: the next change runs again.
    await runFixtures(host, io, folder, only).catch((error: unknown) => {
      if (!(error instanceof CliError)) throw error;
      io.stdout.write(`${error.message}\n`);
    });
  };
  let wake: (() => void) | undefined;
  let changed = false;
  const watcher = watch(folder, { recursive: true, signal }, (_, file) => {
    if (file === null || !/\.(cs|json)$/.test(file) || /(^|\/)(bin|obj)\//.test(file)) return;
    changed = true;
    setTimeout(() => wake?.(), SETTLED_MS);
  });
  const closed = new Promise<void>((resolve) => watcher.once('close', resolve));
  try {
    while (!signal.aborted) {
      changed = false;
      await round();
      if (!changed) await Promise.race([new Promise<void>((resolve) => (wake = resolve)), closed]);
    }
  } finally {
    watcher.close();
  }
}

function byFile(fixtures: readonly Fixture[]): Map<string, Fixture[]> {
  const files = new Map<string, Fixture[]>();
  for (const fixture of fixtures) files.set(fixture.file, [...(files.get(fixture.file) ?? []), fixture]);
  return files;
}
