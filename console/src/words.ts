const NUMBER = new Intl.NumberFormat();
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

export const count = (value: number): string => NUMBER.format(value);
export const plural = (value: number, one: string, many = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`;

/** In the viewer's zone; the day is left out of what is of today. */
export function timeOf(iso: string): string {
  const time = new Date(iso);
  return (time.toDateString() === new Date().toDateString() ? CLOCK : DAY).format(time);
}

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'] as const;
const SHORT = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });

/** In the unit in which it is a number below 1,024. */
export function bytes(value: number): string {
  const power = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), UNITS.length - 1);
  return value === 1 ? '1 byte' : `${SHORT.format(value / 1024 ** power)} ${UNITS[power]}`;
}

export const milliseconds = (value: number): string =>
  value >= 10_000 ? `${SHORT.format(value / 1000)} s` : `${SHORT.format(value)} ms`;

/** As much of JSON as fits into a cell. */
const SHORT_JSON = 300;
const shorts = new WeakMap<object, string>();

/** The first letters of a value's JSON. An object's are kept: a table is drawn again and again, and a state may be large. */
export function shortJson(value: unknown): string {
  const known = typeof value === 'object' && value !== null ? shorts.get(value) : undefined;
  if (known !== undefined) return known;
  const text = JSON.stringify(value) ?? '';
  const short = text.length <= SHORT_JSON ? text : `${text.slice(0, SHORT_JSON)}…`;
  if (typeof value === 'object' && value !== null) shorts.set(value, short);
  return short;
}

const sizes = new WeakMap<object, number>();

/** About as many bytes a value takes as JSON. */
export function jsonBytes(value: unknown): number {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)?.length ?? 0;
  const known = sizes.get(value) ?? JSON.stringify(value).length;
  sizes.set(value, known);
  return known;
}

/** How long ago it was, in seconds, and past two minutes in minutes or hours. */
export function ago(iso: string): string {
  const seconds = Math.max(Math.round((Date.now() - Date.parse(iso)) / 1000), 0);
  if (seconds < 120) return `${count(seconds)} s`;
  return seconds < 7_200 ? `${count(Math.round(seconds / 60))} min` : `${count(Math.round(seconds / 3_600))} h`;
}

/** How far states are behind the events. `events` is undefined where they are too many to be counted. */
export const behind = ({
  commits,
  events,
  since,
}: {
  readonly commits: number;
  readonly events?: number | undefined;
  readonly since: string;
}): string => `${events === undefined ? plural(commits, 'commit') : plural(events, 'event')}, ${ago(since)}`;

/** What uploaded code is called: its classes, or its id while it has none. */
export const classesOf = ({
  discovered,
  id,
}: {
  readonly discovered?: readonly { readonly className: string }[];
  readonly id: string;
}): string => discovered?.map(({ className }) => className).join(', ') ?? id;
