import type { CaseOutcome, Failure } from '../../fixtures/fixture-run.js';
import type { Fixture, ProjectFile } from '../../fixtures/fixtures.js';
import { canonicalLines, diffLines } from './json-diff.js';
import { lineOf } from './diagnostics.js';
import type { Style } from './style.js';

/** Lines that stay the same are shown this far from one that differs. */
const CONTEXT = 3;

/** One line a case, and under it what was expected and what came. */
export function formatOutcome(
  { name }: Pick<Fixture, 'name'>,
  outcome: CaseOutcome,
  sources: readonly ProjectFile[],
  style: Style,
): string {
  const time = style.dim(`(${outcome.milliseconds.toFixed(1)} ms)`);
  if (outcome.status === 'passed') return `  ${style.green('✔')} ${name} ${time}\n`;
  return `  ${style.red('✖')} ${name} ${time}\n${outcome.failures.map((failure) => indent(formatFailure(failure, sources, style), 6)).join('')}`;
}

export function formatSummary(passed: number, failed: number, style: Style): string {
  const counts = [
    passed > 0 || failed === 0 ? style.green(`${passed} passed`) : '',
    failed > 0 ? style.red(`${failed} failed`) : '',
  ].filter((part) => part !== '');
  return `\n${counts.join(', ')}\n`;
}

function formatFailure(failure: Failure, sources: readonly ProjectFile[], style: Style): string {
  switch (failure.kind) {
    case 'case':
      return `${failure.message}\n`;
    case 'fault': {
      const { expected, fault, given, key } = failure;
      if (fault === undefined) return `${named(key)}was to stop with ${JSON.stringify(expected)}, and did not\n`;
      const head = `${named(key)}stopped at version ${fault.version}${given ? ', which is one of the given events' : ''}${expected === undefined || given ? '' : `, but not with ${JSON.stringify(expected)}`}:\n`;
      const place = fault.file === null ? '' : `${fault.file}${fault.line === null ? '' : `(${fault.line})`}: `;
      return `${head}${style.bold(place)}${style.red(`error in ${fault.className}`)}: ${fault.message}\n${sourceLine(fault, sources, style)}`;
    }
    case 'state': {
      const { key, expected, actual } = failure;
      if (expected === undefined)
        return `${named(key)}is not in then.states, and when changes it to\n${indent(canonicalLines(actual).join('\n'), 2)}`;
      return `${named(key)}${style.red('- expected')} ${style.green('+ actual')}\n${formatDiff(canonicalLines(expected), canonicalLines(actual ?? null), style)}`;
    }
  }
}

const named = (key: string): string => (key === '' ? '' : `${key}: `);

/** A fault has a line and no column: the whole line is marked. */
function sourceLine(
  { file, line }: { readonly file: string | null; readonly line: number | null },
  sources: readonly ProjectFile[],
  style: Style,
): string {
  const text = lineOf(sources, file, line);
  return text === undefined ? '' : `${style.dim(`${String(line).padStart(5)} |`)} ${text.trimEnd()}\n`;
}

export function formatDiff(expected: readonly string[], actual: readonly string[], style: Style): string {
  const lines = diffLines(expected, actual);
  const near = lines.map((_, index) =>
    lines.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(({ kind }) => kind !== 'same'),
  );
  let text = '';
  lines.forEach(({ kind, text: line }, index) => {
    if (near[index] !== true) text += near[index - 1] === true || index === 0 ? style.dim('  …\n') : '';
    else
      text +=
        kind === 'expected' ? style.red(`- ${line}\n`) : kind === 'actual' ? style.green(`+ ${line}\n`) : `  ${line}\n`;
  });
  return text;
}

function indent(text: string, columns: number): string {
  return (
    text
      .split('\n')
      .map((line) => (line === '' ? line : ' '.repeat(columns) + line))
      .join('\n') + (text.endsWith('\n') ? '' : '\n')
  );
}
