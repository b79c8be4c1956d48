import { z } from 'zod';
import { StatefoldError } from '../../core/errors.js';
import { JsonError, scanJson } from '../../core/json-scanner.js';
import { inSlices } from '../../core/slices.js';
import type { SourceFile } from '../../deployments/source-file.js';
import { summaryOf } from '../../fixtures/fixture-run.js';
import {
  FixtureError,
  fixturesIn,
  FixtureTooLargeError,
  type Fixture,
  type ProjectFile,
} from '../../fixtures/fixtures.js';
import type { FixturesReport } from '../../inspection/fixtures-run.js';
import { upload } from '../bodies.js';
import { JsonWriter } from '../json-writer.js';
import { anyText } from '../parameters.js';
import { Diagnostic, Fault, integer, seconds, text } from '../schema.js';
import { route } from './dependencies.js';
import { NOT_COMPILED } from './upload-checks.js';

/** Bytes of one file of fixtures, which is parsed in one turn, and of all of an upload. */
const MAX_FILE = 256 * 1024;
const MAX_ALL = 1024 * 1024;
/** Cases that are run at once, and events of one, given and when together. */
const MAX_CASES = 1_000;
const MAX_EVENTS = 1_000;

const state = z.unknown().describe('A state as its code shapes it; null where there is none.');
const key = text.describe('The key of a projection’s state, or the id of an aggregate.');
const FixtureFailure = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('state'),
    key,
    expected: state.describe('Absent where the case does not name the key, and its events change it.').optional(),
    actual: state.optional(),
    shown: z.literal(false).describe('The answer has no room for the two states.').optional(),
  }),
  z.strictObject({
    kind: z.literal('fault'),
    key,
    expected: text.describe('Part of the message; absent where it was not to stop.').optional(),
    fault: Fault.describe('Absent where it did not stop.').optional(),
    given: z.boolean().describe('It stopped at an event that the case gives as what came before.'),
  }),
  z.strictObject({ kind: z.literal('case'), message: text.describe('Why the case can’t be run.') }),
]);
const FixtureOutcome = z.strictObject({
  file: text,
  name: text,
  status: z.enum(['passed', 'failed']),
  milliseconds: z.number().meta({ minimum: 0 }),
  failures: z.array(FixtureFailure).optional(),
  omitted: integer.describe('Further failures, which the answer has no room for.').optional(),
});

const runFixtures = route({
  method: 'POST',
  path: '/fixtures/run',
  operationId: 'runFixtures',
  tag: 'Fixtures',
  summary: 'Run the fixtures of an upload that is not kept',
  servedBy: 'owner',
  credentials: 'tenant',
  scope: 'deploy',
  body: upload({ only: anyText }, { withFixtures: true }),
  answers: {
    200: z.discriminatedUnion('status', [
      z.strictObject({
        status: z.literal('compiled'),
        passed: integer,
        failed: integer,
        cut: text.describe('Why not all cases were run, and how many were.').optional(),
        cases: z.array(FixtureOutcome),
        diagnostics: z.array(Diagnostic),
        seconds,
      }),
      NOT_COMPILED,
    ]),
  },
  errors: ['INVALID_ARCHIVE'],
  serve: async ({ inspections, settings }, call) => {
    const { sources, fixtures: files, fields } = await call.body();
    const fixtures = await fixturesOf(files, fields.only, settings.maxJsonDepth);
    const outcome = await inspections.runFixtures(call.tenantId, sources, fixtures);
    call.answer(200, outcome.status === 'failed' ? outcome : reported(outcome));
  },
});

/** @throws StatefoldError INVALID_REQUEST naming file, case and member; PAYLOAD_TOO_LARGE */
async function fixturesOf(
  files: readonly SourceFile[],
  only: string | undefined,
  maxDepth: number,
): Promise<Fixture[]> {
  const fixtures: Fixture[] = [];
  let all = 0;
  for (const file of files) {
    const text = [file.text].flat().join('');
    const bytes = Buffer.from(text);
    all += bytes.length;
    if (bytes.length > MAX_FILE || all > MAX_ALL)
      throw new StatefoldError(
        'PAYLOAD_TOO_LARGE',
        `Fixtures may have ${MAX_FILE} bytes a file and ${MAX_ALL} in all, and ${file.path} goes past it. Send fewer, or smaller ones.`,
      );
    fixtures.push(...(await casesOf({ path: file.path, text }, bytes, maxDepth)));
  }
  const chosen = fixtures.filter(({ name, file }) => only === undefined || name.includes(only) || file.includes(only));
  if (chosen.length === 0)
    throw new StatefoldError(
      'INVALID_REQUEST',
      only === undefined
        ? 'The upload has no fixture. Put JSON files with given, when and then beside the sources: in a zip, into its folder fixtures.'
        : `No fixture's name or file has ${JSON.stringify(only)} in it.`,
    );
  if (chosen.length > MAX_CASES)
    throw new StatefoldError(
      'PAYLOAD_TOO_LARGE',
      `The upload has ${chosen.length} cases to run, and may have ${MAX_CASES}. Send fewer, or choose some with only.`,
    );
  return chosen;
}

async function casesOf(file: ProjectFile, bytes: Buffer, maxDepth: number): Promise<Fixture[]> {
  try {
    scanJson(bytes, { maxDepth });
    return await inSlices(fixturesIn(file, MAX_EVENTS));
  } catch (error) {
    if (error instanceof FixtureError) {
      const code = error instanceof FixtureTooLargeError ? 'PAYLOAD_TOO_LARGE' : 'INVALID_REQUEST';
      throw new StatefoldError(code, error.message, { cause: error });
    }
    if (error instanceof JsonError)
      throw new StatefoldError('INVALID_REQUEST', `${file.path}: ${error.message}.`, { cause: error });
    throw error;
  }
}

function reported({ cases, cut, diagnostics, seconds }: FixturesReport): Buffer {
  const { passed, failed } = summaryOf(cases);
  const writer = new JsonWriter().text('{').member('status', 'compiled', true);
  writer.member('passed', passed).member('failed', failed);
  if (cut !== undefined) writer.member('cut', cut);
  writer.text(',"cases":[').list(cases, ({ failures, omitted, ...one }) => {
    writer.text('{').member('file', one.file, true).member('name', one.name).member('status', one.status);
    writer.member('milliseconds', one.milliseconds);
    if (failures !== undefined) writer.text(`,"failures":[${failures.join()}]`);
    if (omitted !== undefined) writer.member('omitted', omitted);
    writer.text('}');
  });
  return writer.text(']').member('diagnostics', diagnostics).member('seconds', seconds).text('}').end();
}

export const FIXTURES = [runFixtures];
