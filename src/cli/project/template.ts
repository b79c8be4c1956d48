import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { makeFolder } from '../../core/private-folder.js';
import { CliError } from '../io.js';

export type TemplateKind = 'reducer' | 'projection' | 'both';

/** Files of the template that are for one kind alone. */
const OF_KIND: Readonly<Record<string, 'reducer' | 'projection'>> = {
  'OrderReducer.cs': 'reducer',
  'fixtures/order.json': 'reducer',
  'Customers.cs': 'projection',
  'fixtures/customers.json': 'projection',
  'statefold.json': 'projection',
};
/** In the template under another name, so that no tool takes it for its own there. */
const RENAMED: Readonly<Record<string, string>> = {
  'project.csproj': '__Name__.csproj',
  'solution.slnx': '__Name__.slnx',
  'tests/tests.csproj': 'tests/__Name__.Tests.csproj',
  gitignore: '.gitignore',
};

/** Where a project is to be made, absolute. @throws CliError when there is something in it */
export function newDirectory(given: string): string {
  const directory = resolve(given);
  if (existsSync(directory) && (!statSync(directory).isDirectory() || readdirSync(directory).length > 0))
    throw new CliError(`${directory} is not empty: name a new folder.`);
  return directory;
}

/**
 * Makes a project from the template. @param version of the packages of Statefold
 * @returns the paths of its files, relative to it @throws the error of the system when they can't be written
 */
export function writeProject(
  templateDirectory: string,
  directory: string,
  kind: TemplateKind,
  version: string,
): readonly string[] {
  const name = projectName(basename(directory));
  const files: string[] = [];
  for (const path of pathsBelow(templateDirectory)) {
    const only = OF_KIND[path];
    if (only !== undefined && kind !== 'both' && only !== kind) continue;
    const text = readFileSync(join(templateDirectory, path), 'utf8')
      .replaceAll('__Name__', name)
      .replaceAll('__Version__', version);
    const target = (RENAMED[path] ?? path).replaceAll('__Name__', name);
    makeFolder(dirname(join(directory, target)));
    writeFileSync(join(directory, target), onlyOf(text, kind));
    files.push(target);
  }
  return files.sort();
}

/** Takes what was made away again, after a failure behind it. */
export function removeProject(directory: string): void {
  rmSync(directory, { recursive: true, force: true });
}

/** Lines between `<!-- reducer -->` and `<!-- /reducer -->` are for projects with reducers. */
function onlyOf(text: string, kind: TemplateKind): string {
  return text.replaceAll(
    /^<!-- (reducer|projection) -->\n([\s\S]*?)^<!-- \/\1 -->\n/gm,
    (_, of: string, inner: string) => (kind === 'both' || kind === of ? inner : ''),
  );
}

/** A C# name: `my-orders` is MyOrders. */
function projectName(folder: string): string {
  const name = folder
    .split(/[^A-Za-z0-9]+/)
    .filter((part) => part !== '')
    .map((part) => part[0]?.toUpperCase() + part.slice(1))
    .join('');
  return /^[A-Za-z]/.test(name) ? name : `Project${name}`;
}

function* pathsBelow(folder: string, root: string = folder): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* pathsBelow(path, root);
    else yield relative(root, path).replaceAll('\\', '/');
  }
}
