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
