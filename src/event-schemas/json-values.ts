/** What JSON can say, as `JSON.parse` gives it. */
export type JsonObject = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The value of the own member: a name may be `__proto__`, or `constructor`. */
export const own = (object: JsonObject, name: string): unknown =>
  Object.hasOwn(object, name) ? object[name] : undefined;

/** One text for all JSON texts of the same value, whatever the order of members. `spend` is told of each value. */
export function canonical(value: unknown, spend: (steps: number) => void): string {
  spend(1);
  if (Array.isArray(value)) return `[${value.map((one) => canonical(one, spend)).join(',')}]`;
  if (!isObject(value)) {
    if (typeof value === 'string') spend(value.length / 64);
    return JSON.stringify(value) ?? 'null';
  }
  const names = Object.keys(value);
  // Before they are sorted.
  spend(names.length * Math.ceil(1 + Math.log2(names.length + 1) / 2));
  for (const name of names) spend(name.length / 64);
  names.sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name], spend)}`).join(',')}}`;
}

/** Characters of the text as JSON Schema counts them: code points. */
export function codePoints(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0xd800 || unit > 0xdbff) continue;
    const next = text.charCodeAt(i + 1);
    if (next >= 0xdc00 && next <= 0xdfff) {
      count--;
      i++;
    }
  }
  return count;
}

/** `value` is a whole multiple, by the decimal digits that both are written with. */
export function isMultiple(value: number, of: number): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(of)) return value % of === 0;
  // A number past those that JavaScript has, which is none of the multiples that can be told.
  if (!Number.isFinite(value)) return false;
  const [a, b] = [decimal(value), decimal(of)];
  const exponent = Math.min(a.exponent, b.exponent);
  const scaled = (one: Decimal): bigint => one.digits * 10n ** BigInt(one.exponent - exponent);
  return scaled(a) % scaled(b) === 0n;
}

interface Decimal {
  readonly digits: bigint;
  readonly exponent: number;
}
function decimal(value: number): Decimal {
  const [mantissa = '0', exponent = '0'] = value.toExponential().split('e');
  const [whole = '0', fraction = ''] = mantissa.split('.');
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length };
}
