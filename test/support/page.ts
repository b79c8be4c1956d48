// A page of the documentation as a list of what its reader does, and what the page says is printed then. The conventions are in
// CONTRIBUTING.md, "Pages that are walked".
import { lexer, type Token, type Tokens } from 'marked';

export interface Answer {
  readonly text: string;
  /** `json` is compared without regard to whitespace between tokens, `text` line by line. */
  readonly format: 'json' | 'text';
}

export type Step = {
  /** Of the block, in the page. */
  readonly line: number;
  readonly text: string;
} & (
  | {
      /** `run` ends by itself, `serve` goes on in a terminal of its own until the page ends. */
      readonly kind: 'run' | 'serve';
      readonly answer: Answer | undefined;
      /** Exit code that the page announces. */
      readonly exit: number;
      /** It reads what follows a moment later, and is run again until it answers as shown. */
      readonly soon: boolean;
    }
  /** One statement for `statefold sql`; `soon` as above. */
  | { readonly kind: 'sql'; readonly answer: Answer | undefined; readonly soon: boolean }
  /** What the terminal that was opened last has printed by now, or prints soon. */
  | { readonly kind: 'seen'; readonly answer: Answer }
  /** Saved under the name that its first line has. */
  | { readonly kind: 'file'; readonly name: string }
);

export interface Page {
  readonly steps: readonly Step[];
  /** Blocks that the page marks with `<!-- walk: not run: reason -->`. */
  readonly notRun: readonly { readonly line: number; readonly reason: string }[];
}

const DIRECTIVE =
  /^<!-- walk: (?:(?<notRun>not run: .+)|(?<serve>another terminal)|(?<soon>soon)|(?<seen>the other terminal shows)|ends with (?<exit>\d+)) -->$/;
/** What a reader would run as well, in a form that is not walked. */
const FOREIGN_SHELLS = ['bash', 'shell', 'console', 'zsh', 'shell-session'];
const SHOWS = /^\s*# → ?/;
const SHOWS_MORE = /^\s*#\s{3}/;
const FILE_NAME = /^(?:\/\/|#) ([\w./-]+\.\w+)$/;

interface Block {
  readonly line: number;
  readonly code: Tokens.Code;
  readonly directive: RegExpExecArray['groups'];
  /** Nothing but its directive stands between it and the block before. */
  readonly follows: boolean;
}

/** @throws {Error} naming the line, where a block breaks the conventions */
export function parsePage(markdown: string): Page {
  const steps: Step[] = [];
  const notRun: { line: number; reason: string }[] = [];
  let answered: Answer | undefined;
  const all = blocks(markdown);
  for (const [at, { line, code, directive }] of all.entries()) {
    const language = code.lang?.trim() ?? '';
    const fail = (reason: string): never => {
      throw new Error(`line ${line}: ${reason}`);
    };
    if (FOREIGN_SHELLS.includes(language) || (language === '' && /^\s*\$ /m.test(code.text)))
      fail('what a reader runs is in a block of `sh`, without a prompt');
    if (directive?.['notRun'] !== undefined) {
      notRun.push({ line, reason: directive['notRun'].slice('not run: '.length) });
      continue;
    }
    const next = all[at + 1];
    answered =
      next?.follows === true && next.directive === undefined && ['json', 'text'].includes(next.code.lang ?? '')
        ? { text: next.code.text, format: next.code.lang === 'json' ? 'json' : 'text' }
        : undefined;
    if (directive?.['seen'] !== undefined && language !== 'text')
      fail('what another terminal shows is in a block of `text`');
    if (language === 'sh') steps.push(...commands(line, code.text, directive, answered));
    else if (language === 'sql')
      steps.push({ kind: 'sql', line, text: code.text, answer: answered, soon: directive?.['soon'] !== undefined });
    else if (directive?.['seen'] !== undefined && language === 'text')
      steps.push({ kind: 'seen', line, text: code.text, answer: { text: code.text, format: 'text' } });
    else if (directive !== undefined) fail('only what is run takes this directive');
    else {
      const name = FILE_NAME.exec(code.text.split('\n')[0] ?? '')?.[1];
      if (name !== undefined) steps.push({ kind: 'file', line, name, text: `${code.text}\n` });
    }
  }
  return { steps, notRun };
}

/** All code of a page, also that in lists, in order. */
function blocks(markdown: string): Block[] {
  const found: Block[] = [];
  let from = 0;
  let directive: { groups: RegExpExecArray['groups']; text: string } | undefined;
  let adjacent = false;
  const visit = (tokens: readonly Token[]): void => {
    for (const token of tokens) {
      if (token.type === 'space') continue;
      if (token.type === 'html') {
        const text = token.raw.trim();
        if (!text.startsWith('<!-- walk:')) continue;
        const groups = DIRECTIVE.exec(text)?.groups;
        if (groups === undefined) throw new Error(`${text} is none of the directives: ${DIRECTIVE.source}`);
        directive = { groups, text };
        continue;
      }
      if (token.type === 'code') {
        const code = token as Tokens.Code;
        const at = markdown.indexOf(code.raw.split('\n')[0] ?? '', from);
        from = at + code.raw.split('\n').length;
        found.push({
          line: markdown.slice(0, at).split('\n').length,
          code,
          directive: directive?.groups,
          follows: adjacent,
        });
        directive = undefined;
        adjacent = true;
        continue;
      }
      if (directive !== undefined) throw new Error(`${directive.text} stands before no block of code`);
      adjacent = false;
      if (token.type === 'list') for (const item of (token as Tokens.List).items) visit(item.tokens);
    }
  };
  visit(lexer(markdown));
  if (directive !== undefined) throw new Error(`${directive.text} stands before no block of code`);
  return found;
}

/** A block is cut behind each answer that it shows itself; the block behind it answers to the last part. */
function commands(
  line: number,
  text: string,
  directive: RegExpExecArray['groups'],
  answered: Answer | undefined,
): Step[] {
  const parts: { text: string[]; shows: string[] }[] = [{ text: [], shows: [] }];
  for (const one of text.split('\n')) {
    const part = parts.at(-1) ?? fail(line);
    if (SHOWS.test(one)) part.shows.push(one.replace(SHOWS, ''));
    else if (part.shows.length > 0 && SHOWS_MORE.test(one)) part.shows.push(one.replace(SHOWS_MORE, ''));
    else if (part.shows.length > 0) parts.push({ text: [one], shows: [] });
    else part.text.push(one);
  }
  if (parts.at(-1)?.text.every((one) => one.trim() === '') === true) parts.pop();
  return parts.map((part, at): Step => {
    const last = at === parts.length - 1;
    const shows = part.shows.join('\n');
    if (last && shows !== '' && answered !== undefined)
      throw new Error(`line ${line}: two answers are shown to one command`);
    const own: Answer | undefined =
      shows === '' ? undefined : { text: shows, format: /^[[{]/.test(shows) ? 'json' : 'text' };
    return {
      kind: directive?.['serve'] === undefined ? 'run' : 'serve',
      line,
      text: part.text.join('\n'),
      answer: own ?? (last ? answered : undefined),
      exit: last ? Number(directive?.['exit'] ?? 0) : 0,
      soon: directive?.['soon'] !== undefined,
    };
  });
}

function fail(line: number): never {
  throw new Error(`line ${line}: a block without a command`);
}

const ESCAPED = /[.*+?^${}()|[\]\\/]/g;
const literal = (text: string): string => text.replace(ESCAPED, '\\$&');

/** What an answer of a page matches. `…` stands for what differs from reader to reader, or was left out. */
export function answerPattern({ text, format }: Answer): RegExp {
  return new RegExp(`^${format === 'json' ? jsonPattern(text) : textPattern(text)}$`);
}

/** Whether what was printed is what the page shows. */
export function answers(answer: Answer, printed: string): boolean {
  return answerPattern(answer).test(answer.format === 'json' ? compactJson(printed) : tidy(printed).join('\n'));
}

/** Within a string `…` stands for text of that string, elsewhere for any number of members or elements, with the comma that they would need. */
function jsonPattern(text: string): string {
  const compact = compactJson(text);
  let pattern = '';
  let within = false;
  for (let at = 0; at < compact.length; at++) {
    const one = compact[at] ?? '';
    const before = compact[at - 1] ?? '';
    const after = compact[at + 1] ?? '';
    if (one === '\\') pattern += literal(one + (compact[++at] ?? ''));
    else if (within && one === '…') pattern += '(?:[^"\\\\]|\\\\.)*';
    else if (!within && one === ',' && after === '…' && /[}\]]/.test(compact[at + 2] ?? '')) {
      pattern += '(?:,[^]*?)?';
      at++;
    } else if (one === '…' && after === ',' && /[{[,]/.test(before)) {
      pattern += '(?:[^]*?,)?';
      at++;
    } else if (one === '…') pattern += '[^]*?';
    else {
      if (one === '"') within = !within;
      pattern += literal(one);
    }
  }
  return pattern;
}

/** Without the whitespace between tokens. */
export function compactJson(text: string): string {
  return text.trim().replace(/("(?:[^"\\]|\\.)*")|\s+/g, (_, quoted: string | undefined) => quoted ?? '');
}

/** A line that is `…` stands for any number of lines, elsewhere it is part of one. Columns may be as wide as they are. */
function textPattern(text: string): string {
  const lines = tidy(text);
  if (lines.join('') === '…') return '[^]*';
  return lines
    .map((line, at) => {
      const last = at === lines.length - 1;
      if (line === '…') return last ? '(?:\\n[^]*)?' : '(?:[^\\n]*\\n)*?';
      const ends = last || (lines[at + 1] === '…' && at + 1 === lines.length - 1);
      return line.split('…').map(literal).join('[^\\n]*?') + (ends ? '' : '\\n');
    })
    .join('');
}

function tidy(text: string): string[] {
  return text
    .trim()
    .split('\n')
    .map((line) => line.trim().replace(/\s+/g, ' '));
}
