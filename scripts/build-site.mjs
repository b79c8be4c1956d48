// `npm run site`: the documentation as a site, in dist/site: files for any web server that answers `/a` with `a.html`.
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fail, ROOT, run } from './setup.mjs';

const folder = join(ROOT, 'site');
const lock = join(folder, 'package-lock.json');
const installed = join(folder, 'node_modules', '.package-lock.json');

async function buildSite() {
  const versions = JSON.parse(readFileSync(lock, 'utf8')).packages;
  if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(lock).mtimeMs)
    await run(`Installing VitePress ${versions['node_modules/vitepress'].version}`, 'npm', ['ci', '--prefix', folder]);
  const program = join(folder, 'node_modules', 'vitepress', 'bin', 'vitepress.js');
  await run('Building the site', process.execPath, [program, 'build', folder]);
}

await buildSite().catch(fail);
