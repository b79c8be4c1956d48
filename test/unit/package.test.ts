// What package.json says of the project, held against what the project does.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { ROOT } from '../support/service.js';

interface PackageJson {
  readonly license: string;
  readonly engines: { readonly node: string };
  readonly dependencies: Readonly<Record<string, string>>;
}

const text = (...path: string[]): string => readFileSync(join(ROOT, ...path), 'utf8');
const manifest = JSON.parse(text('package.json')) as PackageJson;
const files = (folder: string, end: string): string[] =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith(end))
    .map((path) => join(folder, path));

describe('package.json', () => {
  it('asks for the version of Node.js that every page and the image name', () => {
    const [, wanted = ''] = /^>=(\d+\.\d+)$/.exec(manifest.engines.node) ?? [];
    const named = [
      'README.md',
      'CONTRIBUTING.md',
      'Dockerfile',
      ...files('docs', '.md').filter((path) => !path.startsWith(join('docs', 'decisions'))),
    ].flatMap((path) =>
      [...text(path).matchAll(/(?:\bNode(?:\.js)? |^FROM node:)v?(\d+(?:\.\d+)*)/gm)].map(
        ([, version]) => `${path}: ${version}`,
      ),
    );
    for (const path of ['README.md', 'CONTRIBUTING.md', 'Dockerfile'])
      assert.ok(
        named.some((one) => one.startsWith(path)),
        `${path} names no version of Node.js`,
      );
    assert.deepEqual(
      named.filter((one) => !one.endsWith(`: ${wanted}`)),
      [],
    );
  });

  it('installs with the service what the service imports, and nothing more', () => {
    const imported = new Set(
      files('src', '.ts')
        .filter((path) => !path.endsWith('.d.ts'))
        .flatMap((path) =>
          [
            ...text(path).matchAll(
              /(?:from |import\(|import |createRequire\(import\.meta\.url\)\()'((?:@[^/']+\/)?[^./'][^/']*)/g,
            ),
          ].map(([, name = '']) => name),
        )
        .filter((name) => !name.startsWith('node:') && name !== 'pino-pretty'),
    );
    assert.deepEqual([...imported].sort(), Object.keys(manifest.dependencies).sort());
  });

  it('is under the licence of the file LICENSE', () => {
    assert.equal(manifest.license, 'Apache-2.0');
    assert.match(
      text('LICENSE'),
      /^\s+Apache License\s+Version 2\.0, January 2004\n[^]*END OF TERMS AND CONDITIONS[^]*limitations under the License\.\n$/,
    );
    assert.match(
      text('dotnet', 'src', 'Statefold.Abstractions', 'Statefold.Abstractions.csproj'),
      /<PackageLicenseExpression>Apache-2\.0</,
    );
  });

  it('is locked without the name of a registry', () => assert.doesNotMatch(text('package-lock.json'), /"resolved"/));
});
