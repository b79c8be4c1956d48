// What CONTRIBUTING.md and the page on architecture name is there: files, folders, classes, members, constants.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { ROOT } from '../support/service.js';

const PAGES = ['CONTRIBUTING.md', 'docs/architecture.md'];
/** Where what a page names may begin; a name in a row goes on from the folder of the one before it. */
const BEGIN = [
  '',
  'src',
  'test',
  'docs',
  'packages/client/src',
  'console/src',
  'src/http',
  'schemas',
  'dotnet/src/Statefold.Client',
];
/** Of others, and what code puts together of parts. */
const FOREIGN = new Set(['toJson', 'SOAK_PROCESSES']);
const CODE = ['scripts', 'src', 'packages/client/src', 'test'];

function* filesIn(folder: string): Generator<string> {
  for (const entry of readdirSync(join(ROOT, folder), { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) yield* filesIn(path);
    else if (/\.(ts|mjs)$/.test(entry.name)) yield path;
  }
}
const source = CODE.flatMap((folder) => [...filesIn(folder)])
  .map((path) => readFileSync(join(ROOT, path), 'utf8'))
  .join('\n');
const words = new Set(source.match(/[A-Za-z_$][\w$]*/g));

/** What stands in backticks, line by line, blocks left out. */
const named = (page: string): { readonly line: string; readonly names: string[] }[] =>
  readFileSync(join(ROOT, page), 'utf8')
    .replaceAll(/^```[\s\S]*?^```/gm, '')
    .split('\n')
    .map((line) => ({ line, names: [...line.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name) }));

const isFile = (name: string): boolean =>
  /^[\w./@-]+\.(ts|tsx|mjs|js|md|json|avsc|yml|cs)$/.test(name) && !/^[./]/.test(name);
const isFolder = (name: string): boolean => /^[\w.-]+(\/[\w.-]+)*\/$/.test(name);
const isSymbol = (name: string): boolean =>
  /^[A-Za-z_]+(\.[a-zA-Z]+)?(<T>)?$/.test(name) && /[a-z][A-Z]|^[A-Z][a-z]+[.<]|^[A-Z]+(_[A-Z]+)+$/.test(name);

for (const page of PAGES)
  test(`what ${page} names is there`, () => {
    const lacking: string[] = [];
    let found = 0;
    for (const { line, names } of named(page)) {
      // Within a row `support/` may be followed by files in it.
      const before = names.filter((name) => name.includes('/')).flatMap((name) => [name, name.replace(/\/[^/]*$/, '')]);
      const places = [...BEGIN, ...before.flatMap((folder) => BEGIN.map((root) => join(root, folder)))];
      for (const name of names) {
        const path = isFile(name) || isFolder(name);
        if ((!path && !isSymbol(name)) || FOREIGN.has(name)) continue;
        found++;
        const there = path
          ? places.some((place) => existsSync(join(ROOT, place, name)))
          : name
              .replace('<T>', '')
              .split('.')
              .every((word) => words.has(word));
        if (!there) lacking.push(`${name}: ${line.slice(0, 80)}`);
      }
    }
    assert.ok(found > 20, `${found}`);
    assert.deepEqual(lacking, []);
  });
