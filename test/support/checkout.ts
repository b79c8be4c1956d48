// Copies of the checkout that the tests run in, for what writes into the folder that it works in.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { ROOT, temporaryDirectory } from './service.js';

/** For `{ skip: needsGit }`: why there is nothing to clone, or false. */
export const needsGit: string | false = existsSync(join(ROOT, '.git')) ? false : 'the tests run in no git checkout';

const git = (...args: string[]): string =>
  execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
const list = (...args: string[]): string[] =>
  git(...args)
    .split('\0')
    .filter(Boolean);

/** `npx statefold` in a checkout makes npm note it in its cache, for good. */
function forget(t: Pick<TestContext, 'after'>, clone: string): void {
  t.after(() => {
    const notes = join(process.env['npm_config_cache'] ?? join(homedir(), '.npm'), '_npx');
    for (const note of existsSync(notes) ? readdirSync(notes) : []) {
      const file = join(notes, note, 'package.json');
      if (existsSync(file) && readFileSync(file, 'utf8').includes(`"${clone}"`))
        rmSync(join(notes, note), { recursive: true, force: true });
    }
  });
}

/** A fresh clone with the changes that are not committed yet: nothing is installed or built in it. */
export function freshClone(t: Pick<TestContext, 'after'>): string {
  const clone = join(temporaryDirectory(t), 'statefold');
  forget(t, clone);
  git('clone', '--quiet', '--no-tags', ROOT, clone);
  copy(
    [
      ...list('diff', '--name-only', '--no-renames', '-z', 'HEAD'),
      ...list('ls-files', '--others', '--exclude-standard', '-z'),
    ],
    clone,
  );
  return clone;
}

/** A checkout that is installed and built already. */
export function builtCheckout(t: Pick<TestContext, 'after'>): string {
  const clone = join(temporaryDirectory(t), 'statefold');
  forget(t, clone);
  mkdirSync(clone);
  copy(
    [...list('ls-files', '--cached', '--others', '--exclude-standard', '-z'), 'dist', 'packages/client/dist'],
    clone,
  );
  symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
  return clone;
}

/** Copies paths of the checkout with their times, to the nanosecond: they say whether what was built is fresh. What is gone here goes there. */
function copy(paths: readonly string[], to: string): void {
  const there = paths.filter((path) => existsSync(join(ROOT, path)));
  for (const path of paths.filter((one) => !there.includes(one))) rmSync(join(to, path), { force: true });
  for (let at = 0; at < there.length; at += 500)
    execFileSync('cp', ['-a', '--parents', '--', ...there.slice(at, at + 500), to], { cwd: ROOT });
}
