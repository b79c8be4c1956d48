// What CONTRIBUTING.md and the page on architecture name is there: files, folders, classes, members, constants.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { ROOT } from '../support/service.js';

const PAGES = ['CONTRIBUTING.md', 'docs/architecture.md'];
/** Where what a page names may begin; a name goes on from a folder that its section names. */
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
const CODE = ['scripts', 'src', 'packages/client/src', 'test', 'dotnet/src'];

function* filesIn(folder: string): Generator<string> {
  for (const entry of readdirSync(join(ROOT, folder), { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) yield* filesIn(path);
    else if (/\.(ts|mjs|cs)$/.test(entry.name)) yield path;
  }
}
const source = CODE.flatMap((folder) => [...filesIn(folder)])
  .map((path) => readFileSync(join(ROOT, path), 'utf8'))
  .join('\n');
const words = new Set(source.match(/[A-Za-z_$][\w$]*/g));

/** What stands in backticks, section by section, blocks left out. */
const named = (page: string): { readonly line: string; readonly names: string[] }[] =>
  readFileSync(join(ROOT, page), 'utf8')
    .replaceAll(/^```[\s\S]*?^```/gm, '')
    .split(/^#+ /m)
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
      // Within a section `support/` may be followed by files in it.
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

test('the page on architecture names everyone who listens to the catalog and to the assignment', () => {
  const page = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
  const paragraph = (start: string): string => {
    const from = page.indexOf(start);
    assert.ok(from >= 0, start);
    return page.slice(from, page.indexOf('\n\n', from));
  };
  const places = { catalog: paragraph('Every process folds the catalog.'), ownership: paragraph('Who listens to the') };
  const left: string[] = [];
  let found = 0;
  for (const path of filesIn('src'))
    for (const [, of = ''] of readFileSync(join(ROOT, path), 'utf8').matchAll(/\b(#?catalog|ownership)\.onChange\(/g)) {
      found++;
      const text = places[of === 'ownership' ? 'ownership' : 'catalog'];
      const file = path.slice('src/'.length);
      if (!text.includes(file) && !text.includes(file.slice(file.lastIndexOf('/') + 1))) left.push(`${file} (${of})`);
    }
  assert.ok(found > 12, `${found}`);
  assert.deepEqual(left, []);
});
