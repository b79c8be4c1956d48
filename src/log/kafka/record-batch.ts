import { crc32c } from '@node-rs/crc32';
import { codecOf } from '../../kafka/protocol.js';
import { InvariantError } from '../../core/errors.js';
import type { LogRecord, NewRecord } from '../log.js';

/*
 * Kafka's record batch, magic 2, big endian:
 * base offset i64 | length i32 (of what follows) | leader epoch i32 | magic i8 | crc32c u32 (of what follows) | attributes i16 |
 * last offset delta i32 | first timestamp i64 | max timestamp i64 | producer id i64, epoch i16, sequence i32 | count i32 | records
 */
const PREFIX = 12;
const CRC_AT = 17;
const ATTRIBUTES_AT = 21;
const HEADER = 61;
const MAGIC = 2;
const COMPRESSED = 0x07;
const LOG_APPEND_TIME = 0x08;
const CONTROL = 0x20;

const varintLength = (value: number): number => {
  let rest = (value << 1) ^ (value >> 31);
  let length = 1;
  while ((rest >>>= 7) !== 0) length++;
  return length;
};

function writeVarint(out: Buffer, value: number, at: number): number {
  let rest = ((value << 1) ^ (value >> 31)) >>> 0;
  while (rest > 0x7f) {
    out[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  out[at++] = rest;
  return at;
}

/** Length of a record after its own length field: attributes, timestamp delta 0, offset delta, key, value, no headers. */
const bodyLength = ({ key, value }: NewRecord, delta: number): number =>
  3 +
  varintLength(delta) +
  varintLength(key.length) +
  key.length +
  (value === null ? 1 : varintLength(value.length) + value.length);

/** One batch, not compressed, of no idempotent producer. `timestamp` is the client's; the topics replace it at the append. */
export function encodeRecordBatch(records: readonly NewRecord[], timestamp: number): Buffer {
  let size = HEADER;
  records.forEach((record, delta) => {
    const length = bodyLength(record, delta);
    size += varintLength(length) + length;
  });
  const out = Buffer.allocUnsafe(size);
  out.writeBigInt64BE(0n, 0);
  out.writeInt32BE(size - PREFIX, 8);
  out.writeInt32BE(-1, PREFIX);
  out[16] = MAGIC;
  out.writeInt16BE(0, ATTRIBUTES_AT);
  out.writeInt32BE(records.length - 1, 23);
  out.writeBigInt64BE(BigInt(timestamp), 27);
  out.writeBigInt64BE(BigInt(timestamp), 35);
  out.fill(0xff, 43, 57); // producer id, epoch and sequence: none
  out.writeInt32BE(records.length, 57);
  let at = HEADER;
  records.forEach((record, delta) => {
    at = writeVarint(out, bodyLength(record, delta), at);
    out[at++] = 0;
    out[at++] = 0;
    at = writeVarint(out, delta, at);
    at = writeVarint(out, record.key.length, at);
    at += record.key.copy(out, at);
    if (record.value === null)
      out[at++] = 1; // -1
    else {
      at = writeVarint(out, record.value.length, at);
      at += record.value.copy(out, at);
    }
    out[at++] = 0;
  });
  out.writeUInt32BE(crc32c(out.subarray(ATTRIBUTES_AT)), CRC_AT);
  return out;
}

/** A whole batch as it came, its checksum not yet looked at. */
export interface RawBatch {
  readonly base: number;
  /** The offset after the batch: compaction keeps it when it takes the last record. */
  readonly end: number;
  readonly bytes: Buffer;
}

/** The whole batches of a fetched record set; what is cut at its end is left out. */
export function splitRecordSet(set: Buffer): RawBatch[] {
  const batches: RawBatch[] = [];
  for (let at = 0; at + PREFIX <= set.length;) {
    const end = at + PREFIX + set.readInt32BE(at + 8);
    if (end > set.length) break;
    if (end < at + HEADER || set[at + 16] !== MAGIC)
      throw new InvariantError(`the log has a record set of an unknown format (magic ${set[at + 16] ?? '?'})`);
    const base = Number(set.readBigInt64BE(at));
    batches.push({ base, end: base + set.readInt32BE(at + 23) + 1, bytes: set.subarray(at, end) });
    at = end;
  }
  return batches;
}

/** How many bytes the first batch of a record set has that is cut before its end; undefined where not even that is told. */
export const firstBatchBytes = (set: Buffer): number | undefined =>
  set.length < PREFIX ? undefined : PREFIX + set.readInt32BE(8);

/** Most readers do not look at the keys. */
class BatchRecord implements LogRecord {
  readonly #bytes: Buffer;
  readonly #keyAt: number;
  readonly #keyLength: number;

  constructor(
    readonly offset: number,
    readonly timestamp: number,
    readonly value: Buffer | null,
    bytes: Buffer,
    keyAt: number,
    keyLength: number,
  ) {
    this.#bytes = bytes;
    this.#keyAt = keyAt;
    this.#keyLength = keyLength;
  }

  get key(): Buffer {
    return this.#bytes.subarray(this.#keyAt, this.#keyAt + this.#keyLength);
  }
}

let cursor = 0;

function readVarint(bytes: Buffer): number {
  let value = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[cursor++];
    if (byte === undefined || shift > 28) throw new InvariantError('the log has a record that ends before it should');
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return (value >>> 1) ^ -(value & 1);
  }
}

/**
 * The records of the batch that lie in `[from, to)`; keys and values are views of its bytes. A control batch has none for us.
 * `checked`: it was decoded before.
 * @throws InvariantError when the checksum is wrong.
 */
export function decodeRecordBatch(
  batch: RawBatch,
  from = 0,
  to = Infinity,
  checked = false,
): LogRecord[] | Promise<LogRecord[]> {
  const { bytes, base } = batch;
  if (!checked && crc32c(bytes.subarray(ATTRIBUTES_AT)) !== bytes.readUInt32BE(CRC_AT))
    throw new InvariantError(
      `the batch at offset ${base} has a wrong checksum: it was damaged on the disk or on the way`,
    );
  const attributes = bytes.readInt16BE(ATTRIBUTES_AT);
  if ((attributes & CONTROL) !== 0) return [];
  if ((attributes & COMPRESSED) === 0) return decodeRecords(batch, bytes.subarray(HEADER), from, to);
  // Not by us: a broker can be set to compress what it stores.
  try {
    const codec = codecOf(attributes);
    if (!codec) throw new Error('it is not known');
    return codec.decompress(bytes.subarray(HEADER)).then((records) => decodeRecords(batch, records, from, to));
  } catch (error) {
    throw new InvariantError(
      `the batch at offset ${base} is compressed with a codec that is not there (${attributes & COMPRESSED}): topics must keep compression.type=producer`,
      { cause: error },
    );
  }
}

function decodeRecords({ bytes, base }: RawBatch, records: Buffer, from: number, to: number): LogRecord[] {
  const logTime = (bytes.readInt16BE(ATTRIBUTES_AT) & LOG_APPEND_TIME) !== 0;
  const timestamp = Number(bytes.readBigInt64BE(logTime ? 35 : 27));
  const count = bytes.readInt32BE(57);
  const out: LogRecord[] = [];
  cursor = 0;
  for (let i = 0; i < count; i++) {
    const length = readVarint(records);
    const end = cursor + length;
    cursor++; // attributes: none are defined
    const after = readTimestampDelta(records);
    const offset = base + readVarint(records);
    if (offset >= to) break;
    if (offset >= from) {
      const keyLength = Math.max(0, readVarint(records));
      const keyAt = cursor;
      cursor += keyLength;
      const valueLength = readVarint(records);
      const value = valueLength < 0 ? null : records.subarray(cursor, cursor + valueLength);
      if (end > records.length || cursor + Math.max(0, valueLength) > end)
        throw new InvariantError(`the record at offset ${offset} is longer than its batch`);
      out.push(new BatchRecord(offset, logTime ? timestamp : timestamp + after, value, records, keyAt, keyLength));
    }
    cursor = end;
  }
  return out;
}

/** A varlong: deltas of more than 24 days do not fit into 31 bits. */
function readTimestampDelta(bytes: Buffer): number {
  const first = bytes[cursor];
  if (first !== undefined && first < 0x80) {
    cursor++;
    return (first >>> 1) ^ -(first & 1);
  }
  let value = 0n;
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = bytes[cursor++];
    if (byte === undefined) break;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return Number((value >> 1n) ^ -(value & 1n));
  }
  throw new InvariantError('the log has a record that ends before it should');
}
