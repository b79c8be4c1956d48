import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { TestContext } from 'node:test';

const PATH = process.env['PATH'] ?? '';
const DOTNET =
  PATH.split(delimiter)
    .map((folder) => join(folder, 'dotnet'))
    .find(existsSync) ?? 'dotnet';
const FORGED = join(import.meta.dirname, 'forged-runner.js');

/** A PATH whose `dotnet` is the real one, but for runners: those are `forged-runner.ts`. Not for a jail, which would refuse it. */
export function pathOfForgedRunners(t: Pick<TestContext, 'after'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'statefold-forged-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'dotnet');
  writeFileSync(
    path,
    `#!/bin/sh\ncase "$*" in *Statefold.Runner.dll*) exec ${process.execPath} ${FORGED};; esac\nexec ${DOTNET} "$@"\n`,
  );
  chmodSync(path, 0o755);
  return `${folder}${delimiter}${PATH}`;
}
