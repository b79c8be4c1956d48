// The package that C# programs take: what it holds, and that it brings nothing else along.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import yauzl from 'yauzl';
import { ROOT, temporaryDirectory } from '../support/service.js';

/** The texts of a zip by name; of a library only that it is there. */
async function entriesOf(file: string): Promise<ReadonlyMap<string, string>> {
  const open = promisify(yauzl.open) as unknown as (path: string, options: object) => Promise<yauzl.ZipFile>;
  const zip = await open(file, { lazyEntries: true });
  const entries = new Map<string, string>();
  return new Promise((resolve, reject) => {
    zip.on('entry', (entry: yauzl.Entry) => {
      zip.openReadStream(entry, (error, stream) => {
        if (error !== null) return reject(error);
        text(stream).then((content) => {
          entries.set(entry.fileName, content);
          zip.readEntry();
        }, reject);
      });
    });
    zip.on('end', () => resolve(entries)).on('error', reject);
    zip.readEntry();
  });
}

test('the package of the .NET client has its library, its comments and its page, and depends on nothing', async (t) => {
  const { version, scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    readonly version: string;
    readonly scripts: Readonly<Record<string, string>>;
  };
  const folder = temporaryDirectory(t);
  const command = (scripts['pack:dotnet'] ?? '').replace('-o dist/packages', `-o ${folder}`);
  assert.ok(command.includes(folder), 'npm run pack:dotnet packs into dist/packages');
  execFileSync('sh', ['-c', command], {
    cwd: ROOT,
    env: { ...process.env, npm_package_version: version },
    stdio: 'pipe',
  });
  assert.deepEqual(readdirSync(folder), [`Statefold.Client.${version}.nupkg`]);
  const entries = await entriesOf(join(folder, `Statefold.Client.${version}.nupkg`));
  for (const name of ['lib/net10.0/Statefold.Client.dll', 'lib/net10.0/Statefold.Client.xml', 'README.md'])
    assert.ok(entries.has(name), `${name} is not among ${[...entries.keys()].join(', ')}`);
  const nuspec = entries.get('Statefold.Client.nuspec') ?? '';
  assert.doesNotMatch(nuspec, /<dependency /);
  assert.match(nuspec, /<license type="expression">Apache-2\.0</);
});
