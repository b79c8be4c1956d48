import { createInterface } from 'node:readline/promises';
import { CliError, CliExit, INTERRUPTED, type CliIo } from './io.js';

/** Questions go to standard error, so that the answer of a command stays clean. @throws CliError where nobody can be asked @throws CliExit on Ctrl-C */
async function ask(question: string, { stdin, stderr }: CliIo, what = ''): Promise<string> {
  if ((stdin as { readonly isTTY?: boolean }).isTTY !== true)
    throw new CliError(`${what === '' ? '' : `${what} `}Nobody is here to be asked: say --yes.`);
  const lines = createInterface({ input: stdin, output: stderr });
  const ended = new AbortController();
  let interrupted = false;
  lines.once('SIGINT', () => {
    interrupted = true;
    lines.close();
  });
  lines.once('close', () => ended.abort());
  try {
    return (await lines.question(question, { signal: ended.signal })).trim();
  } catch (error) {
    if (!ended.signal.aborted) throw error;
    stderr.write('\n');
    if (interrupted) throw new CliExit(INTERRUPTED);
    // The end of the input is an answer too: no.
    return '';
  } finally {
    lines.close();
  }
}

/** @param what it is about, told where nobody can be asked */
export async function confirm(question: string, io: CliIo, what?: string): Promise<boolean> {
  return /^y(es)?$/i.test(await ask(`${question} [y/N] `, io, what));
}

/** For what can't be undone: the word itself is to be typed. @param what is about to be done; told also where nobody can be asked */
export async function confirmByTyping(what: string, word: string, io: CliIo): Promise<boolean> {
  return (await ask(`${what} Type ${word} to go on: `, io, what)) === word;
}
