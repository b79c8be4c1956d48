/** What of the options is left out, or undefined, is as it is usually. */
export function withDefaults<T extends object>(
  defaults: T,
  options: { readonly [K in keyof T]?: T[K] | undefined } = {},
): T {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...defaults, ...(Object.fromEntries(given) as Partial<T>) };
}
