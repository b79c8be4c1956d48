// Builds the pages of the console into dist/console, compressed beforehand: the service gives them out as they are.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { build } from 'vite';
import { fail, ROOT, run } from './setup.mjs';

const folder = join(ROOT, 'console');
const made = join(ROOT, 'dist', 'console');

async function buildConsole() {
  const types = run('Checking the types of the console', process.execPath, [
    join(ROOT, 'node_modules', 'typescript-native', 'bin', 'tsc'),
    '-p',
    folder,
  ]);
  await Promise.all([types, build({ configFile: join(folder, 'vite.config.mjs'), root: folder, logLevel: 'warn' })]);
  for (const entry of readdirSync(made, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    const plain = readFileSync(file);
    const brotli = brotliCompressSync(plain);
    if (brotli.length < plain.length) writeFileSync(`${file}.br`, brotli);
  }
}

await buildConsole().catch(fail);
