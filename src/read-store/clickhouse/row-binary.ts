import { UUID_TEXT_LENGTH, writeUuidText } from '../../core/ids.js';
import { nextTurnOfRows, overSlices } from '../../core/slices.js';
import {
  bytesOfRow,
  type AggregateStateRow,
  type Block,
  type EventRow,
  type NotificationRow,
  type ProjectionStateRow,
  type Row,
} from '../read-store.js';
import { hasLongDigits, wideAsFloats } from './wide-integers.js';

const SHORT = 256;

/** Builds ClickHouse's RowBinary, growing as needed. JSON goes in as the bytes it is: nothing is parsed or escaped. */
class RowBinaryWriter {
  #bytes: Buffer;
  #at = 0;

  constructor(estimate: number) {
    this.#bytes = Buffer.allocUnsafe(Math.max(estimate, 1024));
  }

  string(text: string): void {
    // At most three bytes a UTF-16 unit.
    this.#room(text.length * 3 + 5);
    if (text.length < 43) {
      // The length fits one byte whatever the text is, so it is written once.
      const written = this.#bytes.write(text, this.#at + 1, 'utf8');
      this.#bytes[this.#at] = written;
      this.#at += written + 1;
      return;
    }
    this.#varint(Buffer.byteLength(text));
    this.#at += this.#bytes.write(text, this.#at, 'utf8');
  }

  bytes(value: Buffer, start = 0, end = value.length): void {
    this.#room(end - start + 5);
    this.#varint(end - start);
    // To copy a part makes a view of it first.
    if (end - start > SHORT) this.#at += value.copy(this.#bytes, this.#at, start, end);
    else for (let from = start; from < end; from++) this.#bytes[this.#at++] = value[from] as number;
  }

  /** The text of the 16 bytes at the offset. */
  uuid(of: Buffer, offset: number): void {
    this.#room(UUID_TEXT_LENGTH + 1);
    this.#bytes[this.#at++] = UUID_TEXT_LENGTH;
    writeUuidText(this.#bytes, this.#at, of, offset);
    this.#at += UUID_TEXT_LENGTH;
  }

  nullable(value: Buffer | null): void {
    this.#room(1);
    this.#bytes[this.#at++] = value === null ? 1 : 0;
    if (value !== null) this.bytes(value);
  }

  /** UInt64 of a safe integer; also the ticks of a DateTime64(3) from 1970 on. */
  uint64(value: number): void {
    this.#room(8);
    this.#bytes.writeUInt32LE(value % 0x1_0000_0000, this.#at);
    this.#bytes.writeUInt32LE(Math.floor(value / 0x1_0000_0000), this.#at + 4);
    this.#at += 8;
  }

  finish(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }

  #varint(value: number): void {
    let rest = value;
    for (; rest >= 0x80; rest >>>= 7) this.#bytes[this.#at++] = (rest & 0x7f) | 0x80;
    this.#bytes[this.#at++] = rest;
  }

  #room(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#at + bytes));
    this.#bytes.copy(grown, 0, 0, this.#at);
    this.#bytes = grown;
  }
}

type Writer<Row> = (to: RowBinaryWriter, row: Row) => void;
/** The columns that are written, in their order. A JSON value is written to `<name>_raw`, from which ClickHouse derives `<name>` (`JSON_COLUMNS`). */
interface Table<Row> {
  readonly columns: readonly (readonly [name: string, write: Writer<Row>])[];
}

const text = <Row>(name: keyof Row & string): readonly [string, Writer<Row>] => [
  name,
  (to, row) => to.string(row[name] as string),
];
const integer = <Row>(name: keyof Row & string): readonly [string, Writer<Row>] => [
  name,
  (to, row) => to.uint64(row[name] as number),
];
const rawOrNull = <Row>(name: keyof Row & string): readonly [string, Writer<Row>] => [
  `${name}_raw`,
  (to, row) => to.nullable(row[name] as Buffer | null),
];

// Of thousands of events in a block no text is made, and no view.
const eventId: Writer<EventRow> = (to, row) => {
  const { span } = row;
  if (span === undefined) to.string(row.event_id);
  else to.uuid(span.bytes, span.idAt);
};
const eventData: Writer<EventRow> = (to, row) => {
  const { span } = row;
  if (span === undefined) to.bytes(row.data);
  else to.bytes(span.bytes, span.dataAt, span.dataEnd);
};

const EVENTS: Table<EventRow> = {
  columns: [
    text('tenant'),
    text('aggregate_type'),
    text('aggregate_id'),
    integer('version'),
    ['event_id', eventId],
    text('event_type'),
    integer('timestamp'),
    text('correlation_id'),
    text('causation_id'),
    ['data_raw', eventData],
    rawOrNull('metadata'),
    integer('log_offset'),
  ],
};
const AGGREGATE_STATES: Table<AggregateStateRow> = {
  columns: [
    text('tenant'),
    text('aggregate_type'),
    text('aggregate_id'),
    integer('version'),
    rawOrNull('state'),
    integer('last_modified'),
    integer('log_offset'),
  ],
};
const PROJECTION_STATES: Table<ProjectionStateRow> = {
  columns: [
    text('tenant'),
    text('projection_id'),
    text('class_name'),
    text('key'),
    rawOrNull('state'),
    integer('sequence'),
    integer('last_modified'),
  ],
};
const NOTIFICATIONS: Table<NotificationRow> = {
  columns: [
    ...(PROJECTION_STATES.columns as Table<NotificationRow>['columns']),
    text('aggregate_id'),
    text('aggregate_type'),
    integer('version'),
    text('event_id'),
    text('cause'),
  ],
};

/** The JSON columns that ClickHouse derives from `<name>_raw` unless they are given. */
const JSON_COLUMNS: Readonly<Record<Block['table'], readonly string[]>> = {
  events: ['data', 'metadata'],
  aggregate_states: ['state'],
  projection_states: ['state'],
  notifications: ['state'],
};

export interface EncodedBlock {
  readonly columns: readonly string[];
  readonly bytes: Buffer;
}

/** Of rows that have integers past 64 bits in the JSON of these columns: by column, the text in which they are floats. */
export interface WideTexts {
  readonly columns: readonly string[];
  readonly of: ReadonlyMap<Row, ReadonlyMap<string, Buffer>>;
}

/**
 * What the JSON columns hold: what ClickHouse derives, which is `{}` where it can't read the text; in some columns texts with integers
 * past 64 bits as floats, and what it derives in the others; or `{}` in all, for a row that the engine refuses to derive them for.
 */
export type JsonColumns = 'derived' | WideTexts | 'empty';

/** Rows of a block, and what their JSON columns hold. */
export interface Portion {
  readonly block: Block;
  readonly json: Exclude<JsonColumns, 'empty'>;
}

/** What rows that the engine refuses are written with instead, the most first: one column that it can't read takes no other one with it. */
export function lesserThan(json: Portion['json']): readonly JsonColumns[] {
  if (json === 'derived') return ['empty'];
  const apart = json.columns.length > 1 ? json.columns.map((column) => ({ ...json, columns: [column] })) : [];
  return [...apart, 'derived', 'empty'];
}

/** A few milliseconds at a time. */
export function encodeBlock(block: Block, json: JsonColumns = 'derived'): Promise<EncodedBlock> {
  let estimate = block.rows.length * 128;
  for (const row of block.rows) estimate += bytesOfRow(row);
  switch (block.table) {
    case 'events':
      return encode(EVENTS, block, block.rows, json, estimate);
    case 'aggregate_states':
      return encode(AGGREGATE_STATES, block, block.rows, json, estimate);
    case 'projection_states':
      return encode(PROJECTION_STATES, block, block.rows, json, estimate);
    case 'notifications':
      return encode(NOTIFICATIONS, block, block.rows, json, estimate);
  }
}

/** The rows of a block by the columns in which they have integers past 64 bits, those without any first. A few milliseconds at a time. */
export async function byWidth(block: Block): Promise<readonly Portion[]> {
  const usual: Row[] = [];
  const wide = new Map<string, { readonly columns: readonly string[]; readonly of: Map<Row, Map<string, Buffer>> }>();
  const sort = (row: Row): void => {
    let texts: Map<string, Buffer> | undefined;
    for (const name of JSON_COLUMNS[block.table]) {
      const text = mayBeWide(row, name) ? wideAsFloats(valueOf(row, name) ?? NOTHING) : undefined;
      if (text !== undefined) texts = (texts ?? new Map<string, Buffer>()).set(name, text);
    }
    if (texts === undefined) return void usual.push(row);
    const columns = [...texts.keys()];
    const alike = wide.get(columns.join()) ?? { columns, of: new Map() };
    wide.set(columns.join(), alike);
    alike.of.set(row, texts);
  };
  await overSlices('read_store', block.rows as readonly Row[], sort, nextTurnOfRows);
  if (wide.size === 0) return [{ block, json: 'derived' }];
  const portions: Portion[] = [...wide.values()].map((json) => ({
    block: { ...block, rows: [...json.of.keys()] } as Block,
    json,
  }));
  return usual.length === 0 ? portions : [{ block: { ...block, rows: usual } as Block, json: 'derived' }, ...portions];
}

/** False: it is known to have no integer that is long enough, without a view of it. */
function mayBeWide(row: Row, name: string): boolean {
  const span = name === 'data' && 'span' in row ? row.span : undefined;
  return span === undefined || hasLongDigits(span.bytes, span.dataAt, span.dataEnd);
}

const valueOf = (row: Row, name: string): Buffer | null =>
  (row as unknown as Readonly<Record<string, Buffer | null>>)[name] ?? null;

async function encode<R extends Row>(
  table: Table<R>,
  { table: name }: Block,
  rows: readonly R[],
  json: JsonColumns,
  estimate: number,
): Promise<EncodedBlock> {
  const writer = new RowBinaryWriter(estimate);
  const given = json === 'derived' ? [] : json === 'empty' ? JSON_COLUMNS[name] : json.columns;
  const texts = typeof json === 'string' ? undefined : json.of;
  const write = (row: R): void => {
    for (const [, column] of table.columns) column(writer, row);
    for (const column of given) writer.bytes(texts?.get(row)?.get(column) ?? EMPTY);
  };
  await overSlices('read_store', rows, write, nextTurnOfRows);
  return { columns: [...table.columns.map(([column]) => column), ...given], bytes: writer.finish() };
}

const EMPTY = Buffer.from('{}');
const NOTHING = Buffer.alloc(0);
