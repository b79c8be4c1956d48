/** Limits of ids and names, in UTF-16 code units. */
export const MAX_AGGREGATE_ID = 256;
export const MAX_EVENT_TYPE = 256;
export const MAX_STATE_KEY = 256;

/** Not `.` or `..`: in a path of a URL they are none, however they are written. */
export const isAddressable = (text: string): boolean => text !== '.' && text !== '..';

const AGGREGATE_TYPE = /^[A-Za-z0-9_.-]{1,128}$/;
// eslint-disable-next-line no-control-regex -- control characters are what it refuses
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

export const isAggregateType = (text: string): boolean => AGGREGATE_TYPE.test(text);

/** Ids, event types and state keys: 1 to `max` characters, no control characters, no lone surrogates. */
export const isName = (text: string, max: number): boolean =>
  text.length >= 1 && text.length <= max && !CONTROL.test(text) && text.isWellFormed();

/** The type of an aggregate whose append named none: the text before the first `-`, `_`, `:` or `/` of its id when that is a name, else `default`. */
export function inferAggregateType(aggregateId: string): string {
  const end = aggregateId.search(/[-_:/]/);
  const prefix = end > 0 ? aggregateId.slice(0, end) : '';
  return isAggregateType(prefix) && isAddressable(prefix) ? prefix : 'default';
}
