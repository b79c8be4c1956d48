// JSON whose numbers stay as they are written: a state or an event may have integers past 2⁵³, and decimals of any length.

/** A number as its text, which `JSON.stringify` writes as it is. */
interface RawNumber {
  readonly rawJSON: string;
}

/** Of browsers that know of it (ES2025's `JSON.parse` source text access); in others such numbers are rounded. */
const { rawJSON, isRawJSON } = JSON as unknown as {
  readonly rawJSON?: (text: string) => RawNumber;
  readonly isRawJSON?: (value: unknown) => boolean;
};

/** Only texts that have such a piece can have a number that a double can't hold. */
const MAY_BE_LONG = /[\d.]{16}|\d[eE]\+?\d{3}/;
/** As many digits a double always has. */
const SURE_DIGITS = 15;

type Reviver = (this: unknown, key: string, value: unknown, context?: { readonly source?: string }) => unknown;

const keep: Reviver = (_key, value, context) => {
  const source = context?.source;
  return typeof value === 'number' && source !== undefined && !isHeld(value, source)
    ? (rawJSON?.(source) ?? value)
    : value;
};

/** The double says what the text says. */
function isHeld(value: number, source: string): boolean {
  if (!Number.isFinite(value)) return false;
  const digits = source
    .replace(/[eE].*$/, '')
    .replaceAll(/\D/g, '')
    .replace(/^0+/, '');
  return digits.length <= SURE_DIGITS || String(value) === source;
}

/** @throws SyntaxError */
export const parseJson = (text: string): unknown =>
  (MAY_BE_LONG.test(text) ? JSON.parse(text, keep) : JSON.parse(text)) as unknown;

export const isRawNumber = (value: unknown): value is RawNumber => isRawJSON?.(value) === true;
