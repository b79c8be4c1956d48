import { hash } from 'node:crypto';
import type { State } from '../code-host/code-host.js';
import { GENERATION_STRIDE } from '../core/event.js';
import { chunksOf } from '../core/parts.js';
import type { ReadStore } from '../read-store/read-store.js';
import { quoted } from '../read-store/sql-text.js';

export interface AggregateRow {
  readonly version: number;
  readonly generation: number;
  readonly stateHash: string | null;
}
export interface KeyRow {
  readonly sequence: number;
  readonly stateHash: string | null;
}

const ASKED_AT_ONCE = 200;

/** States themselves would be up to a megabyte each, of hundreds of rows. */
const HASH = 'lower(hex(SHA256(state_raw))) AS state_hash';

export const isRowOf = ({ stateHash }: Pick<KeyRow, 'stateHash'>, state: State): boolean =>
  stateHash === (state === null ? null : hash('sha256', state, 'hex'));

/** Rows of the read store as they are now, by id. @throws where it is away */
export async function aggregateRows(
  store: Pick<ReadStore, 'query'>,
  tenantId: string,
  aggregateType: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, AggregateRow>> {
  const rows = new Map<string, AggregateRow>();
  for (const some of chunksOf(ids, ASKED_AT_ONCE)) {
    const found = await select<{
      aggregate_id: string;
      version: string;
      log_offset: string;
      state_hash: string | null;
    }>(
      store,
      `SELECT aggregate_id, toString(version) AS version, toString(log_offset) AS log_offset, ${HASH} FROM aggregate_states FINAL
       WHERE tenant = ${quoted(tenantId)} AND aggregate_type = ${quoted(aggregateType)} AND aggregate_id IN (${some.map(quoted).join()})`,
    );
    for (const row of found)
      rows.set(row.aggregate_id, {
        version: Number(row.version),
        generation: Math.floor(Number(row.log_offset) / GENERATION_STRIDE),
        stateHash: row.state_hash,
      });
  }
  return rows;
}

/** By class and key. @throws where it is away */
export async function keyRows(
  store: Pick<ReadStore, 'query'>,
  tenantId: string,
  projectionId: string,
  keys: readonly string[],
): Promise<(className: string, key: string) => KeyRow | undefined> {
  const rows = new Map<string, KeyRow>();
  const nameOf = (className: string, key: string): string => `${className}\u0000${key}`;
  for (const some of chunksOf(keys, ASKED_AT_ONCE)) {
    const found = await select<{ class_name: string; key: string; sequence: string; state_hash: string | null }>(
      store,
      `SELECT class_name, key, toString(sequence) AS sequence, ${HASH} FROM projection_states FINAL
       WHERE tenant = ${quoted(tenantId)} AND projection_id = ${quoted(projectionId)} AND key IN (${some.map(quoted).join()})`,
    );
    for (const row of found)
      rows.set(nameOf(row.class_name, row.key), { sequence: Number(row.sequence), stateHash: row.state_hash });
  }
  return (className, key) => rows.get(nameOf(className, key));
}

async function select<T>(store: Pick<ReadStore, 'query'>, sql: string): Promise<readonly T[]> {
  const chunks: Buffer[] = [];
  for await (const chunk of await store.query(sql, 'JSONEachRow')) chunks.push(Buffer.from(chunk as Uint8Array));
  return Buffer.concat(chunks)
    .toString()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}
