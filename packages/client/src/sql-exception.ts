import { RefusedError } from './errors.js';

/**
 * What ClickHouse said where it refused a statement after its answer had begun (most often a limit): the service ends such an answer with
 * ClickHouse's own block, and breaks the connection. Undefined where the answer has none.
 */
export function refusedMidway(headers: Headers, text: string): RefusedError | undefined {
  const tag = headers.get('x-clickhouse-exception-tag');
  if (tag === null) return undefined;
  const head = `\r\n__exception__\r\n${tag}\r\n`;
  const begin = text.lastIndexOf(head);
  if (begin < 0) return undefined;
  const block = text.slice(begin + head.length);
  const end = block.lastIndexOf(` ${tag}\r\n__exception__`);
  const detail = (end < 0 ? block : block.slice(0, end).replace(/\n\d+$/, '')).trim();
  const code = /^Code: (\d+)\./.exec(detail)?.[1];
  return new RefusedError({
    type: '/problems/sql-refused',
    title: 'ClickHouse refuses the statement',
    status: 400,
    detail,
    code: 'SQL_REFUSED',
    requestId: headers.get('x-request-id') ?? '',
    ...(code === undefined ? {} : { clickhouseCode: Number(code) }),
  });
}
