import type { Mark } from './lazy/editor';

/** The first place of the text that is no JSON; undefined: it is JSON, or is refused for something else. */
export function notJson(text: string, parse: (text: string) => unknown = JSON.parse): Mark | undefined {
  try {
    parse(text);
    return undefined;
  } catch (error) {
    if (!(error instanceof SyntaxError)) return undefined;
    // Browsers tell the place of some faults only, each in its own words.
    const before = text.slice(0, endOfJson(text)).split('\n');
    return {
      severity: 'error',
      message: error.message,
      line: before.length,
      column: (before.at(-1)?.length ?? 0) + 1,
    };
  }
}

const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\\n\r\t]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** How far it is the beginning of JSON. */
export function endOfJson(text: string): number {
  let at = 0;
  const takes = (token: RegExp | string): boolean => {
    if (typeof token === 'string') {
      if (!text.startsWith(token, at)) return false;
      at += token.length;
      return true;
    }
    token.lastIndex = at;
    if (!token.test(text)) return false;
    at = token.lastIndex;
    return true;
  };
  /** What ends the arrays and objects that are open. */
  const open: ('}' | ']')[] = [];
  let wants: 'value' | 'first' | 'key' | 'next' = 'value';
  for (;;) {
    takes(SPACE);
    const end = open.at(-1);
    if ((wants === 'first' || wants === 'next') && end !== undefined && takes(end)) {
      open.pop();
      wants = 'next';
    } else if (wants === 'next') {
      if (end === undefined || !takes(',')) return at;
      wants = end === '}' ? 'key' : 'value';
    } else if (wants === 'key' || (wants === 'first' && end === '}')) {
      if (!takes(STRING)) return at;
      takes(SPACE);
      if (!takes(':')) return at;
      wants = 'value';
    } else if (takes('{')) {
      open.push('}');
      wants = 'first';
    } else if (takes('[')) {
      open.push(']');
      wants = 'first';
    } else if (takes(STRING) || takes(SCALAR)) wants = 'next';
    else return at;
  }
}
