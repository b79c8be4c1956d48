/**
 * The read-store port: a rebuildable copy of the log for analysts. Writes are idempotent by (key, offset); nothing that
 * the service answers rests on it. Every adapter passes `test/contracts/read-store.contract.ts`.
 */
export interface ReadStore {
  /** Creates databases and tables that are missing. @throws StatefoldError UNAVAILABLE while the engine is away. */
  ensureSchema(): Promise<void>;
  /** One block; resolves when the engine has taken all its rows. The same rows again are absorbed. */
  insert(block: Block): Promise<void>;
  /** How far (exclusive log offset) each of the streams of this incarnation of the tenant is in the store; 0 when never written. */
  watermarks(tenantId: string, incarnation?: string): Promise<Readonly<Record<SinkStream, number>>>;
  /** Of which tenants there may be rows: all that have a watermark, be it 0. */
  tenants(): Promise<readonly StoredTenantRows[]>;
  /** Of many tenants at once; called after the rows that they cover are in. A watermark never moves back but by `reset`. */
  setWatermarks(watermarks: readonly Watermark[]): Promise<void>;
  /** Runs one statement of the owner and streams the answer in ClickHouse's named format. */
  query(sql: string, format: string): Promise<NodeJS.ReadableStream>;
  /** Drops the states and notifications of a projection; resolves when no query sees them. */
  dropProjection(tenantId: string, projectionId: string): Promise<void>;
  /** Takes the events and the states of aggregates that were erased out; resolves when no query sees them, and the parts that held them are written anew. */
  eraseAggregates(tenantId: string, aggregateIds: readonly string[]): Promise<void>;
  /** Drops all rows and watermarks, of one tenant or of all. */
  reset(tenantId?: string): Promise<void>;
  ping(): Promise<boolean>;
  close(): Promise<void>;
}

/** `events` and `states` follow the events topic, `changes` the changes topic. */
export type SinkStream = 'events' | 'states' | 'changes';

export interface StoredTenantRows {
  readonly tenantId: string;
  readonly incarnation?: string | undefined;
}

export interface Watermark extends StoredTenantRows {
  readonly stream: SinkStream;
  readonly offset: number;
}

export type Block =
  | { readonly table: 'events'; readonly rows: readonly EventRow[] }
  | { readonly table: 'aggregate_states'; readonly rows: readonly AggregateStateRow[] }
  | { readonly table: 'projection_states'; readonly rows: readonly ProjectionStateRow[] }
  | { readonly table: 'notifications'; readonly rows: readonly NotificationRow[] };

/** Column names are those of the tables. Buffers are JSON text as sent; timestamps milliseconds since the epoch. */
export interface EventRow {
  readonly tenant: string;
  readonly aggregate_type: string;
  readonly aggregate_id: string;
  readonly version: number;
  readonly event_id: string;
  readonly event_type: string;
  readonly timestamp: number;
  readonly correlation_id: string;
  readonly causation_id: string;
  readonly data: Buffer;
  readonly metadata: Buffer | null;
  readonly log_offset: number;
  /** Of `data` and `metadata`, where it is known without making them. No column. */
  readonly jsonBytes?: number;
  /** Where `event_id` and `data` lie, if they do, for who only copies them. No column. */
  readonly span?: RowSpan;
}

/** Of a record's bytes: the 16 of an event's id, and its JSON, the end exclusive. */
export interface RowSpan {
  readonly bytes: Buffer;
  readonly idAt: number;
  readonly dataAt: number;
  readonly dataEnd: number;
}

export interface AggregateStateRow {
  readonly tenant: string;
  readonly aggregate_type: string;
  readonly aggregate_id: string;
  readonly version: number;
  readonly state: Buffer | null;
  readonly last_modified: number;
  readonly log_offset: number;
}

export interface ProjectionStateRow {
  readonly tenant: string;
  readonly projection_id: string;
  readonly class_name: string;
  readonly key: string;
  readonly state: Buffer | null;
  readonly sequence: number;
  readonly last_modified: number;
}

export interface NotificationRow extends ProjectionStateRow {
  readonly aggregate_id: string;
  readonly aggregate_type: string;
  readonly version: number;
  readonly event_id: string;
  readonly cause: string;
}

export type Row = Block['rows'][number];

/** What is beside its JSON: short texts and numbers. */
const ROW_OVERHEAD = 256;

/** About what the row takes in memory, and on its way. */
export function bytesOfRow(row: Row): number {
  if ('data' in row) return ROW_OVERHEAD + (row.jsonBytes ?? row.data.length + (row.metadata?.length ?? 0));
  return ROW_OVERHEAD + (row.state?.length ?? 0);
}
