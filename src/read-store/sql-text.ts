const escaped = (text: string, quote: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll(quote, `\\${quote}`).replaceAll('\0', '\\0');

/** A literal of ClickHouse's SQL. */
export const quoted = (text: string): string => `'${escaped(text, "'")}'`;

/** A name of a database, table or column. */
export const identifier = (text: string): string => `\`${escaped(text, '`')}\``;
