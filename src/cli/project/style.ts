/** Colours of a terminal; without one the text alone. */
export interface Style {
  readonly red: (text: string) => string;
  readonly green: (text: string) => string;
  readonly yellow: (text: string) => string;
  readonly bold: (text: string) => string;
  readonly dim: (text: string) => string;
}

const sgr =
  (on: number, off: number) =>
  (text: string): string =>
    `\u001b[${on}m${text}\u001b[${off}m`;
const plain = (text: string): string => text;

const COLOURED: Style = {
  red: sgr(31, 39),
  green: sgr(32, 39),
  yellow: sgr(33, 39),
  bold: sgr(1, 22),
  dim: sgr(2, 22),
};
const PLAIN: Style = { red: plain, green: plain, yellow: plain, bold: plain, dim: plain };

/** As https://no-color.org has it. */
export const styleFor = (
  output: { readonly isTTY?: boolean },
  env: Readonly<Record<string, string | undefined>>,
): Style => (output.isTTY === true && (env['NO_COLOR'] ?? '') === '' ? COLOURED : PLAIN);
