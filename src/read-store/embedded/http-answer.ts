import { EngineError } from './engine-error.js';

/** ClickHouse's own codes that the HTTP interface itself raises. */
export const CODE = {
  unknownFunction: 46,
  notImplemented: 48,
  syntaxError: 62,
  unknownException: 1002,
  tooManyQueries: 202,
  requestTooLarge: 307,
  authenticationFailed: 516,
  requiredPassword: 194,
  badRequest: 36,
  cannotDecompress: 271,
} as const;

const BAD_REQUEST = new Set([
  6, 26, 27, 38, 41, 43, 53, 62, 72, 117, 132, 167, 168, 169, 321, 322, 36, 456, 457, 69, 271,
]);
const NOT_FOUND = new Set([46, 47, 50, 56, 60, 63, 73, 81, 115, 152, 186]);

/** The status that a ClickHouse server answers for one of its error codes. */
export function statusOf(code: number): number {
  if (code === CODE.requiredPassword) return 401;
  if (code === CODE.authenticationFailed || code === 192 || code === 193 || code === 497) return 403;
  if (BAD_REQUEST.has(code)) return 400;
  if (NOT_FOUND.has(code)) return 404;
  if (code === 159) return 408;
  if (code === CODE.requestTooLarge) return 413;
  if (code === CODE.notImplemented) return 501;
  if (code === CODE.tooManyQueries || code === 439 || code === 209 || code === 76) return 503;
  return 500;
}

export const exception = (code: number, message: string, name: string): EngineError =>
  new EngineError(code, `Code: ${code}. DB::Exception: ${message}. (${name})`);

const TYPES: readonly (readonly [RegExp, string])[] = [
  [/^JSON(?:Compact)?(?:Strings)?EachRow|^NDJSON$|^JSONLines$/i, 'application/x-ndjson; charset=UTF-8'],
  [/^JSON/i, 'application/json; charset=UTF-8'],
  [/^CSVWithNames/i, 'text/csv; charset=UTF-8; header=present'],
  [/^CSV/i, 'text/csv; charset=UTF-8; header=absent'],
  [/^(?:TSV|TabSeparated)/i, 'text/tab-separated-values; charset=UTF-8'],
  [/^(?:Native|RowBinary|Parquet|ORC|Arrow|Avro|Protobuf|MsgPack|BSON|Npy|CapnProto)/i, 'application/octet-stream'],
  [/^XML$/i, 'application/xml; charset=UTF-8'],
];

export const contentTypeOf = (format: string): string =>
  TYPES.find(([pattern]) => pattern.test(format))?.[1] ?? 'text/plain; charset=UTF-8';
