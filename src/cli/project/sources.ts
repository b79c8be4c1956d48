import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join, relative, resolve, sep } from 'node:path';
import { z } from 'zod';
import { describeIssue, type ProjectFile } from '../../fixtures/fixtures.js';
import { CliError } from '../io.js';

/** A folder of reducers and projections, as `statefold new` makes one. */
export interface Project {
  readonly directory: string;
  /** Of the folder. */
  readonly name: string;
  /** Sorted by path. */
  readonly sources: readonly ProjectFile[];
  /** Fixtures: the JSON files below `fixtures/`, sorted. */
  readonly fixtures: readonly ProjectFile[];
  /** The notification configuration of its projection, as `config` of an upload; undefined: none. */
  readonly notifications: Readonly<Record<string, unknown>> | undefined;
}

/** The optional settings of a project. */
export const MANIFEST = 'statefold.json';
const FIXTURES = 'fixtures';
/** What builds leave behind, and what is not the project's own. */
const SKIPPED = new Set(['bin', 'obj', 'packages', 'node_modules']);
/** Tests of the project's own are not uploaded with it. */
const TESTS = /^tests?$/i;

const SETTINGS = z.strictObject({ notifications: z.record(z.string(), z.unknown()).optional() });

/** @throws CliError naming what is missing or malformed */
export function readProject(given: string | undefined): Project {
  const directory = resolve(given ?? '.');
  if (!existsSync(directory) || !statSync(directory).isDirectory())
    throw new CliError(`There is no folder ${directory}. \`statefold new <folder>\` makes a project.`);
  const files = [...filesOf(directory, directory)].sort((a, b) => (a < b ? -1 : 1));
  const read = (path: string): ProjectFile => ({
    path,
    text: readFileSync(join(directory, path), 'utf8').replace(/^\uFEFF/, ''),
  });
  const sources = files.filter((path) => path.endsWith('.cs')).map(read);
  if (sources.length === 0)
    throw new CliError(
      `${directory} has no .cs file outside its tests. Say where the project is, or make one with \`statefold new <folder>\`.`,
    );
  const fixtures = files.filter((path) => path.startsWith(`${FIXTURES}/`) && path.endsWith('.json')).map(read);
  return {
    directory,
    name: basename(directory),
    sources,
    fixtures,
    notifications: settingsOf(directory).notifications,
  };
}

function* filesOf(root: string, folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      if (!SKIPPED.has(entry.name) && !entry.name.startsWith('.') && !TESTS.test(entry.name) && !isProject(path))
        yield* filesOf(root, path);
    } else if (entry.isFile()) yield relative(root, path).split(sep).join('/');
  }
}

/** A folder with a project file is compiled on its own. */
const isProject = (folder: string): boolean => readdirSync(folder).some((name) => name.endsWith('.csproj'));

function settingsOf(directory: string): z.infer<typeof SETTINGS> {
  const path = join(directory, MANIFEST);
  if (!existsSync(path)) return {};
  const parsed = SETTINGS.safeParse(parseJson(readFileSync(path, 'utf8'), path));
  if (parsed.success) return parsed.data;
  throw new CliError(`${path}: ${describeIssue(parsed.error)}`);
}

/** @throws CliError with the parser's reason */
function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new CliError(`${path} is not JSON: ${(error as Error).message}.`);
  }
}
