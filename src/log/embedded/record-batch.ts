import type { LogRecord, NewRecord } from '../log.js';

/**
 * One value of the embedded log, little endian:
 * timestamp u64 | span u32 | count u32 | count × (delta u32 | key length u32 | value length + 1 u32, 0: tombstone | key | value).
 * Offsets are the base (the lmdb key) plus delta; `span` is how many offsets the batch took when it was written.
 */
export interface RecordBatch {
  readonly timestamp: number;
  readonly records: readonly LogRecord[];
  /** The offset after the batch. */
  readonly end: number;
}

const HEADER = 16;
const RECORD_HEADER = 12;

/** `deltas`: of what compaction kept; without it the records are dense. */
export function encodeBatch(
  timestamp: number,
  records: readonly NewRecord[],
  deltas?: readonly number[],
  span = records.length,
): Buffer {
  let size = HEADER;
  for (const { key, value } of records) size += RECORD_HEADER + key.length + (value?.length ?? 0);
  const out = Buffer.allocUnsafe(size);
  out.writeBigUInt64LE(BigInt(timestamp), 0);
  out.writeUInt32LE(span, 8);
  out.writeUInt32LE(records.length, 12);
  let at = HEADER;
  records.forEach(({ key, value }, i) => {
    out.writeUInt32LE(deltas?.[i] ?? i, at);
    out.writeUInt32LE(key.length, at + 4);
    out.writeUInt32LE(value === null ? 0 : value.length + 1, at + 8);
    at += RECORD_HEADER;
    at += key.copy(out, at);
    if (value !== null) at += value.copy(out, at);
  });
  return out;
}

/** When the batch was written, milliseconds. */
export const timestampOf = (bytes: Buffer): number => Number(bytes.readBigUInt64LE(0));

/** Keys and values are views of `bytes`. */
export function decodeBatch(base: number, bytes: Buffer): RecordBatch {
  const timestamp = timestampOf(bytes);
  const count = bytes.readUInt32LE(12);
  const records: LogRecord[] = [];
  let at = HEADER;
  for (let i = 0; i < count; i++) {
    const offset = base + bytes.readUInt32LE(at);
    const keyEnd = at + RECORD_HEADER + bytes.readUInt32LE(at + 4);
    const valueLength = bytes.readUInt32LE(at + 8);
    const end = valueLength === 0 ? keyEnd : keyEnd + valueLength - 1;
    records.push({
      offset,
      timestamp,
      key: bytes.subarray(at + RECORD_HEADER, keyEnd),
      value: valueLength === 0 ? null : bytes.subarray(keyEnd, end),
    });
    at = end;
  }
  return { timestamp, records, end: base + bytes.readUInt32LE(8) };
}

/** The first record's offset, without a look at the others; undefined: compaction left none. */
export function firstOffset(base: number, bytes: Buffer): number | undefined {
  return bytes.readUInt32LE(12) === 0 ? undefined : base + bytes.readUInt32LE(HEADER);
}

/** The offset after the batch. */
export const endOfBatch = (base: number, bytes: Buffer): number => base + bytes.readUInt32LE(8);

/** Those of the records at these ascending offsets that are there, as copies: a batch may hold thousands, and the others cost a step each. */
export function pickRecords(base: number, bytes: Buffer, offsets: readonly number[]): LogRecord[] {
  const timestamp = timestampOf(bytes);
  const count = bytes.readUInt32LE(12);
  const records: LogRecord[] = [];
  let wanted = 0;
  for (let i = 0, at = HEADER; i < count && wanted < offsets.length; i++) {
    const offset = base + bytes.readUInt32LE(at);
    const keyEnd = at + RECORD_HEADER + bytes.readUInt32LE(at + 4);
    const valueLength = bytes.readUInt32LE(at + 8);
    const end = valueLength === 0 ? keyEnd : keyEnd + valueLength - 1;
    while ((offsets[wanted] ?? Infinity) < offset) wanted++;
    if (offsets[wanted] === offset) {
      records.push({
        offset,
        timestamp,
        key: Buffer.from(bytes.subarray(at + RECORD_HEADER, keyEnd)),
        value: valueLength === 0 ? null : Buffer.from(bytes.subarray(keyEnd, end)),
      });
      wanted++;
    }
    at = end;
  }
  return records;
}
