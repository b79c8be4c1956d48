import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

export interface Sources {
  /** By path within the folder, with `/`. */
  readonly files: ReadonlyMap<string, string>;
  readonly hasReducers: boolean;
  readonly hasProjections: boolean;
}

/** What builds leave behind, tests, and what is not the project's own: what `statefold deploy` passes over, too. */
const SKIPPED = /^(?:bin|obj|packages|node_modules|tests?|\..*)$/i;

/** The C# of a folder. @throws Error where there is none, or nothing of it can be deployed */
export function readSources(folder: string): Sources {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new Error(`There is no folder ${folder}: \`code\` names the folder of your reducers and projections.`);
  const files = new Map(
    [...filesOf(folder, '')].map((path) => [path, readFileSync(join(folder, path), 'utf8').replace(/^\uFEFF/, '')]),
  );
  // Comments and texts may name them too.
  const code = [...files.values()].join('\n').replace(/\/\*[^]*?\*\/|\/\/.*|"(?:[^"\\\n]|\\.)*"/g, ' ');
  const hasReducers = /\bIReducer\s*</.test(code);
  const hasProjections = /\bI(?:MultiKey)?Projection\s*</.test(code);
  if (!hasReducers && !hasProjections)
    throw new Error(
      `No .cs file in ${folder} has a class that implements IReducer<T>, IProjection<T> or IMultiKeyProjection<T>.`,
    );
  return { files, hasReducers, hasProjections };
}

function* filesOf(root: string, within: string): Generator<string> {
  const entries = readdirSync(join(root, within), { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  // A folder with a project file is compiled on its own.
  if (within !== '' && entries.some(({ name }) => name.endsWith('.csproj'))) return;
  for (const entry of entries) {
    const path = within === '' ? entry.name : `${within}/${entry.name}`;
    if (entry.isDirectory()) {
      if (!SKIPPED.test(entry.name)) yield* filesOf(root, path);
    } else if (entry.isFile() && entry.name.endsWith('.cs')) yield path;
  }
}
