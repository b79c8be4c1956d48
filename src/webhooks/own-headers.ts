import type { FieldError } from '../core/errors.js';

export const MAX_OWN_HEADERS = 20;
const MAX_NAME = 64;
const MAX_VALUE = 1_024;

/** A token of RFC 9110. */
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Visible ASCII, and spaces and tabs within: no line break, so that no header can be smuggled in behind it. */
const VALUE = /^[!-~]([\t -~]*[!-~])?$/;

/** What we say of a message ourselves: a receiver must not be told it by anybody else. */
const OURS = new Set(['content-type', 'user-agent', 'date']);
/** Of the connection and of the framing of the request, not of the message (RFC 9110, 7.6.1; RFC 9112). */
const OF_THE_CONNECTION = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'max-forwards',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'via',
]);

/** What may not be sent of the headers that an owner gives to an endpoint; none: all may. A null takes a header away. */
export function ownHeaderErrors(headers: Readonly<Record<string, string | null>>, pointer = '/headers'): FieldError[] {
  const names = Object.keys(headers);
  const errors: FieldError[] = [];
  if (names.length > MAX_OWN_HEADERS) errors.push({ pointer, message: `must have at most ${MAX_OWN_HEADERS} headers` });
  const seen = new Set<string>();
  for (const [name, value] of Object.entries(headers)) {
    const problem = nameProblem(name) ?? (seen.has(name.toLowerCase()) ? 'is given twice' : valueProblem(value));
    seen.add(name.toLowerCase());
    if (problem !== undefined)
      errors.push({ pointer: `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`, message: problem });
  }
  return errors;
}

/**
 * The headers of an attempt: the owner's go with ours, and ours count, in whatever case a name of theirs is stored: a `traceparent` of theirs
 * goes where the service sends none. Names of ours are in lower case.
 */
export const besideOurs = (
  own: Readonly<Record<string, string>>,
  ours: Readonly<Record<string, string>>,
): Record<string, string> => ({
  ...Object.fromEntries(Object.entries(own).filter(([name]) => !Object.hasOwn(ours, name.toLowerCase()))),
  ...ours,
});

function nameProblem(given: string): string | undefined {
  const name = given.toLowerCase();
  if (!NAME.test(name) || name.length > MAX_NAME)
    return `is not the name of a header: letters, digits and -, at most ${MAX_NAME}`;
  // Some receivers read _ as -.
  const read = name.replaceAll('_', '-');
  if (OURS.has(read) || read.startsWith('webhook-'))
    return 'is a header that the service itself sends: choose another name';
  if (OF_THE_CONNECTION.has(read) || read.startsWith('proxy-'))
    return 'is a header of the connection, which only the service may set';
  return undefined;
}

const valueProblem = (value: string | null): string | undefined =>
  value === null || (value.length <= MAX_VALUE && VALUE.test(value))
    ? undefined
    : `must be 1 to ${MAX_VALUE} visible ASCII characters, spaces only within`;
