import { createInterface } from 'node:readline/promises';
import { CliError, type CliIo } from '../io.js';

/** @throws CliError where nobody can be asked */
export async function confirm(question: string, { stdin, stdout }: CliIo): Promise<boolean> {
  if ((stdin as { readonly isTTY?: boolean }).isTTY !== true)
    throw new CliError('Nobody is here to be asked: say --yes.');
  const lines = createInterface({ input: stdin, output: stdout });
  try {
    return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `)).trim());
  } finally {
    lines.close();
  }
}
