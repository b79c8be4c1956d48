// docs/reference/cli.md has every command, argument, option and exit code, and no other.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { Command } from 'commander';
import { EXIT_CODES } from '../../src/cli/io.js';
import { buildProgram } from '../../src/cli/program.js';
import { ROOT } from '../support/service.js';

const page = readFileSync(join(ROOT, 'docs', 'reference', 'cli.md'), 'utf8');

/** Rows of the tables in a part of the page, without those of the headings. */
const rows = (text: string): [first: string, second: string][] =>
  [...text.matchAll(/^\| `?([^|]*?)`? \| (.*) \|$/gm)]
    .map(([, first = '', second = '']) => [first, second] as [string, string])
    .filter(([first]) => !['option', 'code', 'variable', '---'].includes(first));
const optionsOf = (command: Command): [string, string][] =>
  command.options.map(({ flags, description }) => [flags, description]);

interface Documented {
  readonly line: string;
  readonly description: string;
  readonly options: readonly [string, string][];
}

function* commands(command: Command, path: string): Generator<Documented> {
  for (const one of command.commands) {
    if (one.commands.length > 0) yield* commands(one, `${path} ${one.name()}`);
    else {
      const args = one.registeredArguments.map((argument) =>
        argument.required ? `<${argument.name()}>` : `[${argument.name()}${argument.variadic ? '...' : ''}]`,
      );
      yield { line: [path, one.name(), ...args].join(' '), description: one.description(), options: optionsOf(one) };
    }
  }
}

test('the reference of the command line is the program', async () => {
  const program = await buildProgram({
    env: {},
    stdin: new PassThrough(),
    stdout: new PassThrough(),
    stderr: new PassThrough(),
  });
  const [head = '', ...sections] = page.split(/^### /m);
  assert.deepEqual(rows(head.slice(head.indexOf('## Commands'))), optionsOf(program));
  const documented = sections.map((section): Documented => {
    const [, line = '', first = ''] = /^`(.*)`\n\n(.*?)\.(?: |\n)/.exec(section) ?? [];
    return { line, description: first[0]?.toLowerCase() + first.slice(1), options: rows(section) };
  });
  assert.deepEqual(documented, [...commands(program, 'statefold')]);
});

test('the exit codes of the reference are those of the program', () => {
  const part = page.slice(page.indexOf('## Exit codes'), page.indexOf('## What asks first'));
  assert.deepEqual(
    rows(part),
    EXIT_CODES.map(([code, meaning]) => [String(code), meaning]),
  );
});
