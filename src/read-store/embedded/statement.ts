/**
 * The little of ClickHouse's grammar that its HTTP interface needs: where a statement's data begins, what format it asks
 * for, and whether it answers rows. Everything else is left to the engine. Offsets are characters of the text, so that
 * a caller who decodes bytes as latin1 gets byte offsets.
 */
export type Statement =
  | {
      readonly kind: 'insert';
      /** Up to the format clause. */ readonly head: string;
      /** `SETTINGS …` before the format, or empty. */ readonly settings: string;
      readonly format: string;
      /** Where the rows begin. */ readonly dataAt: number;
    }
  | {
      readonly kind: 'rows';
      readonly body: string;
      readonly format: string | undefined;
      /** What follows the format's name. */ readonly tail: string;
    }
  | {
      readonly kind: 'other';
      readonly body: string;
      /** Leaves something behind in the session that ran it. */ readonly changesSession: boolean;
    }
  | { readonly kind: 'empty' }
  | { readonly kind: 'incomplete' }
  | { readonly kind: 'multiple' };

interface Token {
  readonly type: 'word' | 'literal' | 'symbol';
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

const SKIP = /(?:\s+|--[^\n]*|#[ !][^\n]*|\/\*[\s\S]*?(?:\*\/|$))+/y;
const WORD = /[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*/y;
const NUMBER = /[0-9][0-9A-Za-z_.]*/y;
/** One that isn't closed is the rest of the text: to look for its end at each quote in it would take as long as the text is, each time. */
const QUOTED = /'(?:[^'\\]|\\[\s\S]?|'')*(?:'|$)|"(?:[^"\\]|\\[\s\S]?|"")*(?:"|$)|`(?:[^`\\]|\\[\s\S]?|``)*(?:`|$)/y;
const HEREDOC = /\$(\w*)\$/y;

function* tokens(text: string): Generator<Token> {
  let at = 0;
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(text)?.[0];
  };
  /** Where each mark stands last: of one that is opened and never closed the text isn't searched. */
  let last: Map<string, number> | undefined;
  const heredoc = (mark: string | undefined): string | undefined => {
    if (mark === undefined) return undefined;
    last ??= new Map([...text.matchAll(/\$(?=(\w*\$))/g)].map(({ index, 1: rest = '' }) => [`$${rest}`, index]));
    const from = at + mark.length;
    if ((last.get(mark) ?? -1) < from) return undefined;
    return text.slice(at, text.indexOf(mark, from) + mark.length);
  };
  for (;;) {
    at += match(SKIP)?.length ?? 0;
    if (at >= text.length) return;
    const start = at;
    const word = match(WORD);
    const found = word ?? match(NUMBER) ?? match(QUOTED) ?? heredoc(match(HEREDOC)) ?? text.slice(at, at + 1);
    at += found.length;
    const type = word !== undefined ? 'word' : found.length > 1 || /[0-9]/.test(found) ? 'literal' : 'symbol';
    yield { type, text: type === 'word' ? found.toUpperCase() : found, start, end: at };
  }
}

const ROWS = new Set(['SELECT', 'WITH', 'FROM', 'SHOW', 'DESCRIBE', 'DESC', 'EXPLAIN', 'EXISTS', 'CHECK']);
const KEEPS_STATE = new Set(['SET', 'USE', 'CREATE', 'ATTACH']);

/** @param complete false while more of the text may come: an INSERT whose data hasn't begun is then `incomplete`. */
export function readStatement(text: string, complete = true): Statement {
  const iterator = tokens(text);
  let first = iterator.next();
  while (first.done !== true && (first.value.text === '(' || first.value.text === ';')) first = iterator.next();
  if (first.done === true) return complete ? { kind: 'empty' } : { kind: 'incomplete' };
  if (first.value.text === 'INSERT') {
    const insert = readInsert(text, iterator, complete);
    if (insert !== undefined) return insert;
  }
  return readQuery(text, first.value.text);
}

function readInsert(text: string, rest: Generator<Token>, complete: boolean): Statement | undefined {
  let depth = 0;
  let settingsAt: number | undefined;
  let previous = '';
  for (const token of rest) {
    if (token.text === '(') depth++;
    else if (token.text === ')') depth--;
    // A name after a dot or as the target itself is no keyword.
    else if (token.type === 'word' && depth === 0 && previous !== '.' && previous !== 'INTO' && previous !== 'TABLE') {
      if (token.text === 'SELECT' || token.text === 'WITH' || token.text === 'FROM' || token.text === 'WATCH')
        return undefined;
      if (token.text === 'SETTINGS') settingsAt = token.start;
      const headEnd = settingsAt ?? token.start;
      const settings = settingsAt === undefined ? '' : text.slice(settingsAt, token.start);
      if (token.text === 'VALUES')
        return { kind: 'insert', head: text.slice(0, headEnd), settings, format: 'Values', dataAt: token.end };
      if (token.text === 'FORMAT') {
        const name = rest.next();
        if (name.done === true || (!complete && name.value.end === text.length)) break;
        const gap = /^[ \t\r]*(?:\n|;[ \t\r]*\n?)?/.exec(text.slice(name.value.end));
        const format = text.slice(name.value.start, name.value.end);
        return {
          kind: 'insert',
          head: text.slice(0, headEnd),
          settings,
          format,
          dataAt: name.value.end + (gap?.[0].length ?? 0),
        };
      }
    }
    previous = token.text;
  }
  return complete ? undefined : { kind: 'incomplete' };
}

function readQuery(text: string, keyword: string): Statement {
  let depth = 0;
  let end: number | undefined;
  let formatAt: number | undefined;
  let name: Token | undefined;
  let tailAt: number | undefined;
  for (const token of tokens(text)) {
    if (end !== undefined && token.text !== ';') return { kind: 'multiple' };
    if (token.text === '(' || token.text === '[') depth++;
    else if (token.text === ')' || token.text === ']') depth--;
    if (token.text === ';') end ??= token.start;
    else if (depth === 0 && token.text === 'FORMAT') {
      formatAt = token.start;
      name = tailAt = undefined;
    } else if (formatAt !== undefined && name === undefined) {
      if (token.type === 'word') name = token;
      else formatAt = undefined;
    } else if (formatAt !== undefined && tailAt === undefined) {
      // Only SETTINGS may follow the name: else FORMAT was a column or a function.
      if (token.text === 'SETTINGS') tailAt = token.start;
      else formatAt = name = undefined;
    }
  }
  const body = text.slice(0, end);
  if (!ROWS.has(keyword)) return { kind: 'other', body, changesSession: KEEPS_STATE.has(keyword) };
  if (formatAt === undefined || name === undefined) return { kind: 'rows', body, format: undefined, tail: '' };
  return {
    kind: 'rows',
    body: text.slice(0, formatAt),
    format: text.slice(name.start, name.end),
    tail: tailAt === undefined ? '' : text.slice(tailAt, end),
  };
}
