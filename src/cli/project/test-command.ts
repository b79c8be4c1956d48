import { watch } from 'node:fs';
import type { CodeHost } from '../../code-host/code-host.js';
import { CompileError, compileProject, type CompiledProject } from '../../fixtures/compile.js';
import { exactText } from '../../core/exact-json.js';
import {
  FIXTURE_ARTEFACTS,
  FixtureRunner,
  summaryOf,
  type FixtureCase,
  type FixturesRun,
} from '../../fixtures/fixture-run.js';
import { FixtureError, readFixtures, type Fixture } from '../../fixtures/fixtures.js';
import { CliError, FAILED, NOT_COMPILED, type CliIo } from '../io.js';
import { formatDiagnostics } from './diagnostics.js';
import { formatOutcome, formatSummary } from './report.js';
import { readProject, type Project } from './sources.js';
import { styleFor, type Style } from './style.js';

/** After the last of a burst of changes to files. */
const SETTLED_MS = 100;
/** Of the runner. */
const TENANT = 'fixtures';

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
    compiled = await compileProject(host, project.sources);
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

/** @throws CliError naming file, case and member */
export function fixturesOf(project: Project, only: string | undefined): Fixture[] {
  let all: Fixture[];
  try {
    all = project.fixtures.flatMap(readFixtures);
  } catch (error) {
    throw error instanceof FixtureError ? new CliError(error.message) : error;
  }
  return all.filter(({ name, file }) => only === undefined || name.includes(only) || file.includes(only));
}

/** @param told where each case is told as it ends; undefined: nowhere */
export async function runCases(
  host: CodeHost,
  compiled: CompiledProject,
  fixtures: readonly Fixture[],
  project: Project,
  told: { readonly output: CliIo['stdout']; readonly style: Style } | undefined,
): Promise<FixturesRun> {
  const runner = host.runner(TENANT);
  for (const kind of ['reducer', 'projection'] as const) {
    const code = compiled[kind];
    if (code !== undefined) runner.load(FIXTURE_ARTEFACTS[kind], code.assembly);
  }
  const fixtureRunner = new FixtureRunner(runner, compiled);
  const cases: FixtureCase[] = [];
  for (const [file, ofFile] of byFile(fixtures)) {
    told?.output.write(`${told.style.bold(file)}\n`);
    for (const fixture of ofFile) {
      const outcome = await fixtureRunner.run(fixture);
      cases.push({ file, name: fixture.name, ...outcome });
      told?.output.write(formatOutcome(fixture, outcome, project.sources, told.style));
    }
  }
  return summaryOf(cases);
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
