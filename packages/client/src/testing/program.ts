import { existsSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROGRAM = join('dist', 'program', 'main.js');

/**
 * The program of the service: of `home`, else of STATEFOLD_HOME, else of the checkout that this package lies in, else of the `statefold` on
 * the PATH. @throws Error which says what to do
 */
export function programOf(home: string | undefined): string {
  const { STATEFOLD_HOME } = process.env;
  const named = home ?? (STATEFOLD_HOME === '' ? undefined : STATEFOLD_HOME);
  if (named !== undefined) {
    const program = join(named, PROGRAM);
    if (existsSync(program)) return program;
    throw new Error(
      `There is no built Statefold in ${named}: it has no ${PROGRAM}. Run \`npm run build\` there, or name another checkout.`,
    );
  }
  for (const root of [...above(fileURLToPath(import.meta.url)), ...installed()]) {
    const program = join(root, PROGRAM);
    if (existsSync(program) && existsSync(join(root, 'samples'))) return program;
  }
  throw new Error(
    'No built Statefold was found: set STATEFOLD_HOME to a checkout in which `npm run build` has run, or give it as `home`.',
  );
}

function* above(path: string): Generator<string> {
  for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) yield folder;
}

/** `npm install -g .` in a checkout leaves a link to its scripts/statefold.mjs. */
function* installed(): Generator<string> {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    const link = join(folder, 'statefold');
    if (folder !== '' && existsSync(link)) yield dirname(dirname(realpathSync(link)));
  }
}
