// `npm run bench [pattern…]`: runs dist/test/bench/*.bench.js one after the other. Ratios are of figures measured side by side in
// one run; nothing else should use the machine meanwhile.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fail, ROOT, run, setup } from './setup.mjs';

await setup().catch(fail);
const folder = join(ROOT, 'dist', 'test', 'bench');
const patterns = process.argv.slice(2);
const names = readdirSync(folder).filter(
  (name) => name.endsWith('.bench.js') && (patterns.length === 0 || patterns.some((pattern) => name.includes(pattern))),
);
for (const name of names) await run(name, process.execPath, [join(folder, name)]).catch(fail);
