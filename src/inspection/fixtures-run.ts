import type { Diagnostic } from '../code-host/code-host.js';
import type { CompiledProject } from '../fixtures/compile.js';
import { FIXTURE_ARTEFACTS, FixtureRunner } from '../fixtures/fixture-run.js';
import type { Fixture } from '../fixtures/fixtures.js';
import type { DryRunFailed } from './dry-run.js';
import type { FixturesTally, ToldCase } from './fixtures-tally.js';
import type { Bench } from './scratch-runner.js';

export interface FixturesReport {
  readonly status: 'compiled';
  readonly diagnostics: readonly Diagnostic[];
  /** In the order of their files; where `cut` says why not all were run, those that were. */
  readonly cases: readonly ToldCase[];
  readonly cut: string | undefined;
  readonly seconds: number;
}
export type FixturesOutcome = FixturesReport | DryRunFailed;

/** Bytes of the states of one case: they are parsed and compared in one turn, with what a file of so many bytes expects. */
const MAX_STATES = 256 * 1024;

/** Runs the cases one by one. @throws DeadlinePassedError; then `tally` has those that had ended */
export async function runFixtures(
  bench: Bench,
  project: CompiledProject,
  fixtures: readonly Fixture[],
  tally: FixturesTally,
): Promise<void> {
  for (const kind of ['reducer', 'projection'] as const) {
    const code = project[kind];
    bench.unload(FIXTURE_ARTEFACTS[kind]);
    if (code !== undefined) await bench.load(FIXTURE_ARTEFACTS[kind], () => Promise.resolve(code.assembly));
  }
  const runner = new FixtureRunner(bench, project, MAX_STATES);
  for (const fixture of fixtures) {
    const outcome = await runner.run(fixture);
    // The code that did not come to an end was stopped by the deadline of all.
    await bench.breathe();
    tally.add(fixture, outcome);
  }
}
