/** The values of a text that has one a line. */
export const jsonLines = <T>(text: string): T[] =>
  text === ''
    ? []
    : text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as T);
