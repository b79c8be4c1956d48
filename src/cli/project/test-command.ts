import { watch } from 'node:fs';
import type { CodeHost } from '../../code-host/code-host.js';
import { CliError, FAILED, NOT_COMPILED, type CliIo } from '../io.js';
import { CompileError, compileProject, type CompiledProject } from './compile.js';
import { formatDiagnostics } from './diagnostics.js';
import { FixtureRunner, type CaseOutcome } from './fixture-run.js';
import { readFixtures, type Fixture } from './fixtures.js';
import { exactText } from './json-text.js';
import { formatOutcome, formatSummary } from './report.js';
import { readProject, type Project } from './sources.js';
import { styleFor, type Style } from './style.js';

/** After the last of a burst of changes to files. */
const SETTLED_MS = 100;

/** What the fixtures of a project came to. */
export interface FixturesRun {
  readonly passed: number;
  readonly failed: number;
  readonly cases: readonly ({ readonly file: string; readonly name: string } & CaseOutcome)[];
}

export interface TestOptions {
  /** Part of the name or file of those to run; undefined: all. */
  readonly only: string | undefined;
  /** The answer is one JSON value. */
  readonly json: boolean;
}

/** Runs the fixtures of a project. @returns the exit code */
export async function runFixtures(
  host: CodeHost,
  io: CliIo,
  directory: string | undefined,
  { only, json }: TestOptions,
): Promise<number> {
  const style = styleFor(io.stdout, io.env);
  const project = readProject(directory);
  const fixtures = fixturesOf(project, only);
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
    const { diagnostics } = error;
    io.stdout.write(
      json
        ? `${JSON.stringify({ compiled: false, diagnostics })}\n`
        : formatDiagnostics(diagnostics, project.sources, style),
    );
    return NOT_COMPILED;
  }
  const { diagnostics } = compiled;
  if (!json) io.stdout.write(formatDiagnostics(diagnostics, project.sources, style));
  const run = await runCases(host, compiled, fixtures, project, json ? undefined : { output: io.stdout, style });
  // Numbers past what a double holds are in the states of failures as they were written.
  io.stdout.write(
    json ? `${exactText({ compiled: true, ...run, diagnostics })}\n` : formatSummary(run.passed, run.failed, style),
  );
  return run.failed === 0 ? 0 : FAILED;
}

export const fixturesOf = (project: Project, only: string | undefined): Fixture[] =>
  project.fixtures
    .flatMap(readFixtures)
    .filter(({ name, file }) => only === undefined || name.includes(only) || file.includes(only));

/** @param told where each case is told as it ends; undefined: nowhere */
export async function runCases(
  host: CodeHost,
  compiled: CompiledProject,
  fixtures: readonly Fixture[],
  project: Project,
  told: { readonly output: CliIo['stdout']; readonly style: Style } | undefined,
): Promise<FixturesRun> {
  const runner = new FixtureRunner(host, compiled);
  const cases: FixturesRun['cases'][number][] = [];
  for (const [file, ofFile] of byFile(fixtures)) {
    told?.output.write(`${told.style.bold(file)}\n`);
    for (const fixture of ofFile) {
      const outcome = await runner.run(fixture);
      cases.push({ file, name: fixture.name, ...outcome });
      told?.output.write(formatOutcome(fixture, outcome, project.sources, told.style));
    }
  }
  const passed = cases.filter(({ status }) => status === 'passed').length;
  return { passed, failed: cases.length - passed, cases };
}

/** Runs them again after each change below the folder, until it is aborted. */
export async function watchFixtures(
  host: CodeHost,
  io: CliIo,
  directory: string | undefined,
  options: TestOptions,
  signal: AbortSignal,
): Promise<void> {
  const { directory: folder } = readProject(directory);
  const round = async (): Promise<void> => {
    // A file that is being written is no reason to stop: the next change runs again.
    await runFixtures(host, io, folder, options).catch((error: unknown) => {
      if (!(error instanceof CliError)) throw error;
      (options.json ? io.stderr : io.stdout).write(`${error.message}\n`);
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
