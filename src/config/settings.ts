import { z } from 'zod';
import { DAY_MS } from '../core/clock.js';
import { StartupError } from '../core/startup-error.js';

/** One row of the table: how the text of the variable is read, and what the reference says about it. */
interface Row<T> {
  readonly env: string;
  /** Text that stands for an unset variable; undefined: there is none, and the setting is undefined. */
  readonly fallback: string | undefined;
  readonly unit: string;
  readonly doc: string;
  readonly schema: z.ZodType<T, string>;
}

function row<T>(env: string, fallback: string, unit: string, doc: string, schema: z.ZodType<T, string>): Row<T> {
  return { env, fallback, unit, doc, schema };
}
function optional<T>(env: string, unit: string, doc: string, schema: z.ZodType<T, string>): Row<T | undefined> {
  return { env, fallback: undefined, unit, doc, schema };
}

const count = (min: number, max: number = Number.MAX_SAFE_INTEGER): z.ZodType<number, string> => {
  const range =
    max === Number.MAX_SAFE_INTEGER ? `a whole number of at least ${min}` : `a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,16}$/, `must be ${range}`)
    .transform(Number)
    .refine((value) => value >= min && value <= max, `must be ${range}`);
};
const port = count(0, 65535);
const text = z.string();
const flag = z.enum(['true', 'false'], 'must be true or false').transform((value) => value === 'true');
const secret = (min: number): z.ZodType<string, string> =>
  z
    .string()
    .regex(
      new RegExp(`^[!-+\\--~]{${min},256}$`),
      `must be ${min} to 256 printable ASCII characters, without spaces and commas`,
    );
const url = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' });
const level = z.enum(
  ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
  'must be trace, debug, info, warn, error, fatal or silent',
);
const HOST_AND_PORT = /^(\[[0-9A-Fa-f:]+\]|[^\s,:]+):\d{1,5}$/;
const brokers = z
  .string()
  .transform((value) => value.split(',').map((one) => one.trim()))
  .refine((list) => list.every((one) => HOST_AND_PORT.test(one)), 'must be host:port, several separated by commas');
const ORIGINS = 'must be *, or origins like https://app.example.com, without a path, separated by commas';
const origins = z.string().transform((value, context) => {
  const list = value.split(',').map((one) => originOf(one.trim()));
  if (!list.includes(undefined) && (list.length === 1 || !list.includes('*'))) return list as string[];
  context.issues.push({ code: 'custom', message: ORIGINS, input: value });
  return z.NEVER;
});
/** As a browser writes it; undefined where it isn't one. */
function originOf(given: string): string | undefined {
  if (given === '*') return given;
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@]+$/i.test(given) || !URL.canParse(given)) return undefined;
  const { origin } = new URL(given);
  // Schemes of apps have no origin by that standard, and their web views send what is written here.
  return origin === 'null' ? given : origin;
}
const ROLES = ['gateway', 'tasks', 'notifier'] as const;
const roles = z
  .string()
  .transform((value) => value.split(',').map((one) => one.trim()))
  .pipe(z.array(z.enum(ROLES, `must be some of ${ROLES.join(', ')}, separated by commas`)));
const WAITS = 'must be 1 to 20 whole numbers of seconds from 0 to 604800, separated by commas';
const waits = z
  .string()
  .regex(/^ *\d{1,6} *(, *\d{1,6} *){0,19}$/, WAITS)
  .transform((value) => value.split(',').map(Number))
  .refine((list) => list.every((one) => one <= 604_800), WAITS);
const auto = (max: number): z.ZodType<number | 'auto', string> =>
  z.union([z.literal('auto'), count(1, max)], `must be auto or a whole number from 1 to ${max}`);

const autoBytes = (min: number): z.ZodType<number | 'auto', string> =>
  z.union([z.literal('auto'), count(min)], `must be auto or a whole number of at least ${min}`);

const checks = z.enum(['error', 'warn', 'off'], 'must be error, warn or off');

const MIB = 1024 * 1024;

/** Every setting of the service. `docs/reference/settings.md` has the same rows; a test compares the two. */
const TABLE = {
  port: row('PORT', '8080', 'port', 'Where the service listens; 0 takes a free port.', port),
  host: row('HOST', '127.0.0.1', 'address', 'The address it is bound to; `0.0.0.0` for all.', text.min(1)),
  dataDirectory: row(
    'STATEFOLD_DATA_DIR',
    './data',
    'path',
    'Where everything is kept that must outlive the process.',
    text.min(1),
  ),
  apiKey: optional(
    'STATEFOLD_API_KEY',
    'text',
    'API key of the tenant `default`, at least 20 characters; unset: one is made at the first start and printed once.',
    secret(20),
  ),
  adminKey: optional(
    'STATEFOLD_ADMIN_KEY',
    'text',
    'Key of the admin interface, at least 20 characters; unset: one is made at the first start and kept in the data directory.',
    secret(20),
  ),
  masterKey: optional(
    'STATEFOLD_MASTER_KEY',
    'text',
    'Seals webhook secrets at rest, at least 32 characters; unset: one is made at the first start and kept in the data directory.',
    secret(32),
  ),
  kafkaBrokers: optional(
    'KAFKA_BROKERS',
    'list',
    'Apache Kafka that keeps the log, as `host:port,host:port`; unset: the log is in the data directory.',
    brokers,
  ),
  kafkaTopicPrefix: row(
    'KAFKA_TOPIC_PREFIX',
    'statefold',
    'name',
    'First part of the names of all topics and consumer groups: clusters with prefixes of their own can share one Kafka.',
    z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 of A-Z, a-z, 0-9, _ and -'),
  ),
  kafkaSsl: row('KAFKA_SSL', 'false', 'flag', 'Connects to Kafka with TLS.', flag),
  kafkaSslCa: optional(
    'KAFKA_SSL_CA',
    'path',
    'PEM file of the authorities that the brokers are checked by; unset: those of the system.',
    text.min(1),
  ),
  kafkaSslCert: optional(
    'KAFKA_SSL_CERT',
    'path',
    'PEM file of the certificate that the brokers are shown.',
    text.min(1),
  ),
  kafkaSslKey: optional('KAFKA_SSL_KEY', 'path', 'PEM file of the key of that certificate.', text.min(1)),
  kafkaSaslMechanism: optional(
    'KAFKA_SASL_MECHANISM',
    'name',
    '`plain`, `scram-sha-256` or `scram-sha-512`; unset: no SASL.',
    z.enum(['plain', 'scram-sha-256', 'scram-sha-512'], 'must be plain, scram-sha-256 or scram-sha-512'),
  ),
  kafkaSaslUsername: optional('KAFKA_SASL_USERNAME', 'text', 'User of SASL.', text.min(1)),
  kafkaSaslPassword: optional('KAFKA_SASL_PASSWORD', 'text', 'Its password.', text.min(1)),
  kafkaReplicationFactor: row(
    'KAFKA_REPLICATION_FACTOR',
    'auto',
    'brokers',
    'Copies of each topic; `auto`: 3, or all brokers when there are fewer. A topic keeps those that it was made with until `statefold topics raise`.',
    auto(9),
  ),
  kafkaMinInsyncReplicas: row(
    'KAFKA_MIN_INSYNC_REPLICAS',
    'auto',
    'brokers',
    'Copies that an append must have reached; `auto`: 2 of three or more, else 1.',
    auto(9),
  ),
  kafkaRequestTimeoutMs: row(
    'KAFKA_REQUEST_TIMEOUT_MS',
    '10000',
    'ms',
    'How long Kafka may take to answer; after that it is unknown whether an append was stored, until the next claim shows it.',
    count(100),
  ),
  kafkaSessionTimeoutMs: row(
    'KAFKA_SESSION_TIMEOUT_MS',
    '10000',
    'ms',
    'After how long without a heartbeat the slots of a process go to others; below 6000 only where the brokers’ `group.min.session.timeout.ms` allows it.',
    count(1000),
  ),
  corsOrigins: optional(
    'CORS_ORIGINS',
    'list',
    'Origins whose pages browsers let use this service, as `https://app.example.com,https://…`, or `*` for all; unset: pages that come from where the service is.',
    origins,
  ),
  slots: row(
    'SLOTS',
    '64',
    'slots',
    'Into how many slots tenants are hashed, which processes share; fixed by the first start of a cluster.',
    count(1, 1024),
  ),
  roles: row(
    'ROLES',
    'gateway,tasks,notifier',
    'list',
    'What this process does, on Kafka: `gateway` takes requests of clients, `tasks` owns slots (appends, folds), `notifier` sends webhooks and serves polling, WebSocket and SSE. Without `gateway` it answers other processes, probes and `/metrics` only.',
    roles,
  ),
  advertisedUrl: optional(
    'ADVERTISED_URL',
    'URL',
    'Where the other processes of the cluster reach this one; unset: its host and port. With `CLUSTER_TLS` it begins with `https:`, and its port is taken for them.',
    url,
  ),
  clusterTls: optional(
    'CLUSTER_TLS',
    'path',
    'A folder with `tls.crt`, `tls.key` and `ca.crt`: the processes of the cluster reach each other by TLS, and each shows a certificate that this authority signed; unset: in clear.',
    text,
  ),
  forwardDeadlineMs: row(
    'FORWARD_DEADLINE_MS',
    '5000',
    'ms',
    'How long a request may wait for an owner of its tenant before it is answered 503.',
    count(1),
  ),
  answerDeadlineMs: row(
    'ANSWER_DEADLINE_MS',
    '10000',
    'ms',
    'How long a request may wait for the log, or for its tenant to be restored, before it is answered 503.',
    count(1),
  ),
  standbys: row(
    'STANDBYS',
    'true',
    'flag',
    'Keeps a second copy of each active tenant ready in another process.',
    flag,
  ),
  snapshotAfterRecords: row(
    'SNAPSHOT_AFTER_RECORDS',
    '50000',
    'records',
    'After how many records of a tenant its state is written to Kafka again, so that another process need not fold all.',
    count(100),
  ),
  schemaRegistryUrl: optional(
    'SCHEMA_REGISTRY_URL',
    'URL',
    'A Confluent-compatible registry that gives the schemas their ids; unset: fixed ids, and this service answers for them.',
    url,
  ),
  schemaRegistryUsername: optional('SCHEMA_REGISTRY_USERNAME', 'text', 'Its user.', text.min(1)),
  schemaRegistryPassword: optional('SCHEMA_REGISTRY_PASSWORD', 'text', 'The password of that user.', text.min(1)),
  readStore: row(
    'READ_STORE',
    'clickhouse',
    'name',
    '`clickhouse`, or `none`: nothing is copied for analysts, `POST /sql` is refused, and the memory and the processor time of ClickHouse are saved. Everything else works as ever; a read store that is switched on later is filled from the log.',
    z.enum(['clickhouse', 'none']),
  ),
  clickhouseUrl: optional(
    'CLICKHOUSE_URL',
    'URL',
    'The ClickHouse server that is the read store; unset: an embedded one.',
    url,
  ),
  clickhouseUser: row('CLICKHOUSE_USER', 'default', 'text', 'Its user.', text.min(1)),
  clickhousePassword: row('CLICKHOUSE_PASSWORD', '', 'text', 'The password of that user.', text),
  clickhouseDatabase: row(
    'CLICKHOUSE_DATABASE',
    'statefold',
    'name',
    'The database that holds the tables.',
    z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, 'must be a name of letters, digits and _'),
  ),
  clickhouseCluster: optional(
    'CLICKHOUSE_CLUSTER',
    'name',
    'A cluster of that server’s configuration: its servers hold the tables as replicas. Unset: the one server.',
    z.string().regex(/^[A-Za-z0-9_.{}-]{1,128}$/, 'must be the name of a cluster'),
  ),
  readStoreEventDays: optional(
    'READ_STORE_EVENT_DAYS',
    'days',
    'How long the read store keeps rows of `events`; unset: for ever. The log keeps all of them.',
    count(1, 36_500),
  ),
  readStoreNotificationDays: optional(
    'READ_STORE_NOTIFICATION_DAYS',
    'days',
    'How long the read store keeps rows of `notifications`; unset: for ever.',
    count(1, 36_500),
  ),
  readStoreMemoryBytes: row(
    'READ_STORE_MEMORY_BYTES',
    String(2048 * MIB),
    'bytes',
    'Memory that the embedded ClickHouse may take.',
    count(512 * MIB),
  ),
  readStorePort: row(
    'READ_STORE_PORT',
    '0',
    'port',
    'Loopback port of the embedded ClickHouse; 0 takes a free one. Fix it for tools that connect on their own.',
    port,
  ),
  sqlMaxSeconds: row(
    'SQL_MAX_SECONDS',
    '30',
    'seconds',
    'How long a statement of `POST /sql` may run; past it ClickHouse’s error 159 ends it.',
    count(1, 3600),
  ),
  sqlMaxRows: row('SQL_MAX_ROWS', '1000000', 'rows', 'Rows that its answer may have, else error 396.', count(1)),
  sqlMaxBytes: row(
    'SQL_MAX_BYTES',
    String(256 * MIB),
    'bytes',
    'Bytes that the rows of its answer may have, else error 396.',
    count(1024),
  ),
  sqlMemoryBytes: row(
    'SQL_MEMORY_BYTES',
    String(1024 * MIB),
    'bytes',
    'Memory that it may take, else error 241.',
    count(256 * MIB),
  ),
  sqlStatements: row(
    'SQL_STATEMENTS',
    '4',
    'count',
    'Statements of `POST /sql` that run at once in this process; more wait for 10 s.',
    count(1, 64),
  ),
  sqlStatementsPerTenant: row(
    'SQL_STATEMENTS_PER_TENANT',
    '2',
    'count',
    'Statements that one tenant may have under way, waiting ones too, else 429.',
    count(1, 64),
  ),
  sqlCopyIdleMs: row(
    'SQL_COPY_IDLE_MS',
    '3600000',
    'ms',
    'On the embedded engine a copy of a tenant’s rows for `POST /sql` that no statement has asked for so long is removed; the next one copies anew. At least a minute more than `SQL_MAX_SECONDS` counts.',
    count(60_000),
  ),
  logLevel: row('LOG_LEVEL', 'info', 'level', 'The least severe lines that are logged.', level),
  metricsPort: optional(
    'METRICS_PORT',
    'port',
    'Serves `/metrics` without a key on a port of its own; unset: only with the admin key.',
    port,
  ),
  webhookAllowPrivate: row(
    'WEBHOOK_ALLOW_PRIVATE',
    'false',
    'flag',
    'Lets webhooks go to loopback and private addresses.',
    flag,
  ),

  maxBodyBytes: row('MAX_BODY_BYTES', String(MIB), 'bytes', 'Largest JSON body of a request.', count(1024, 64 * MIB)),
  maxJsonDepth: row(
    'MAX_JSON_DEPTH',
    '64',
    'levels',
    'Deepest nesting of a JSON body, which is the first level itself.',
    count(3, 1000),
  ),
  maxBatchEvents: row('MAX_BATCH_EVENTS', '1000', 'events', 'Most events of one batch.', count(1, 100_000)),
  maxUploadBytes: row(
    'MAX_UPLOAD_BYTES',
    String(5 * MIB),
    'bytes',
    'Largest upload of sources, as sent.',
    count(1024, 256 * MIB),
  ),
  maxInflatedBytes: row(
    'MAX_INFLATED_BYTES',
    String(20 * MIB),
    'bytes',
    'Most bytes of sources after inflating.',
    count(1024, 1024 * MIB),
  ),
  maxArchiveEntries: row(
    'MAX_ARCHIVE_ENTRIES',
    '500',
    'entries',
    'Most entries of an archive, or files of an upload.',
    count(1, 65_535),
  ),
  rateLimitPerSecond: row(
    'RATE_LIMIT_PER_SECOND',
    '50000',
    'requests/s',
    'Requests of one tenant per second, of tenants without a quota `requestsPerSecond` of their own; 0 sets no limit.',
    count(0, 1_000_000),
  ),
  rateLimitBurst: row(
    'RATE_LIMIT_BURST',
    '0',
    'requests',
    'Requests that a tenant may send at once after a pause; 0: as many as one second allows.',
    count(0, 1_000_000),
  ),
  eventsPerSecond: row(
    'EVENTS_PER_SECOND',
    '500000',
    'events/s',
    'Events that one tenant may append per second, without a quota `eventsPerSecond` of its own; 0 sets no limit.',
    count(0, 1_000_000_000),
  ),
  tenantStorageBytes: row(
    'TENANT_STORAGE_BYTES',
    String(100 * 1024 * MIB),
    'bytes',
    'Bytes that one tenant may store, without a quota `storageBytes` of its own; past it appends and uploads are answered 507.',
    count(0),
  ),
  tenantCatalogBytes: row(
    'TENANT_CATALOG_BYTES',
    String(32 * MIB),
    'bytes',
    'What one tenant may have in the catalog, which each process holds in memory: its reducers and projections with their revisions, bindings, schemas and webhook endpoints. Past it uploads, bindings, rollbacks, rebuilds, further webhook endpoints and changes that make one larger are answered 507.',
    count(0),
  ),
  maxProjections: row(
    'MAX_PROJECTIONS',
    '1000',
    'projections',
    'Projections of one tenant, without a quota `projections` of its own; further ones are answered 507.',
    count(0),
  ),
  maxReducers: row(
    'MAX_REDUCERS',
    '10000',
    'reducers',
    'Reducers of one tenant, those that are not bound too, without a quota `reducers` of its own; further ones are answered 507.',
    count(0),
  ),
  tenantConnections: row(
    'TENANT_CONNECTIONS',
    '1000',
    'connections',
    'WebSockets, SSE streams, long polls and answers that wait of one tenant at a process, without a quota `connections` of its own; further ones are answered 429.',
    count(0, 1_000_000),
  ),
  maxConnections: row(
    'MAX_CONNECTIONS',
    '10000',
    'connections',
    'Open connections; further ones are closed at once.',
    count(1, 1_000_000),
  ),
  maxConnectionsPerAddress: row(
    'MAX_CONNECTIONS_PER_ADDRESS',
    '0',
    'connections',
    'Open connections of one client address at `PORT`, of IPv6 of one /64; further ones are closed at once. 0: `MAX_CONNECTIONS` alone holds, as it must where all clients come through a proxy or a load balancer that shows its own address.',
    count(0, 1_000_000),
  ),
  headersTimeoutMs: row(
    'HEADERS_TIMEOUT_MS',
    '10000',
    'ms',
    'How long the head of a request may take to arrive.',
    count(100),
  ),
  requestTimeoutMs: row(
    'REQUEST_TIMEOUT_MS',
    '30000',
    'ms',
    'How long a whole request may take to arrive.',
    count(100),
  ),
  bulkIdleMs: row(
    'BULK_IDLE_MS',
    '60000',
    'ms',
    'How long a client of `POST /events/bulk`, or of an import, may send nothing before its stream is ended; `REQUEST_TIMEOUT_MS` does not hold for it.',
    count(100),
  ),
  keepAliveTimeoutMs: row(
    'KEEP_ALIVE_TIMEOUT_MS',
    '65000',
    'ms',
    'How long an idle connection is kept open.',
    count(0),
  ),
  answerStallMs: row(
    'ANSWER_STALL_MS',
    '30000',
    'ms',
    'A client that takes nothing of a large answer for so long is cut; so is one that reads less than 64 KiB a second beyond that.',
    count(100),
  ),
  memoryBudgetBytes: row(
    'MEMORY_BUDGET_BYTES',
    'auto',
    'bytes',
    'What this process holds in memory of work for all tenants: appends, folds, changes, answers and so on; past it requests are answered 503. `auto`: half of what the heap may take, at most a quarter of the memory.',
    autoBytes(16 * MIB),
  ),
  tenantMemoryBudgetBytes: row(
    'TENANT_MEMORY_BUDGET_BYTES',
    'auto',
    'bytes',
    'The same for one tenant, whose requests are answered 429 past it. `auto`: a quarter of that of the process, at most 128 MiB.',
    autoBytes(4 * MIB),
  ),
  maxPendingUploads: row(
    'MAX_PENDING_UPLOADS',
    '200',
    'uploads',
    'Uploads of one tenant that wait for their compilation, without a quota `pendingUploads` of its own; further ones are answered 429.',
    count(1, 100_000),
  ),
  shutdownDeadlineMs: row(
    'SHUTDOWN_DEADLINE_MS',
    '10000',
    'ms',
    'How long requests under way may take to end once the service has to stop.',
    count(0),
  ),

  idempotencyWindow: row(
    'IDEMPOTENCY_WINDOW',
    '100000',
    'offsets',
    'How far back in the log an `Idempotency-Key` is remembered.',
    count(1),
  ),
  strictReads: row(
    'STRICT_READS',
    'false',
    'flag',
    'Answers reads and refusals of a tenant’s events only past a write of their owner, not past a question to the leader of its partition, which a deposed one answers too: a record of some 100 bytes and its round trip, shared by all that ask meanwhile.',
    flag,
  ),
  changesRetentionMs: row(
    'CHANGES_RETENTION_MS',
    String(7 * DAY_MS),
    'ms',
    'How long changes of projections can be polled and resumed from.',
    count(1000),
  ),
  otlpEndpoint: optional(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    'URL',
    'Where traces are sent, by OTLP over HTTP (`/v1/traces` of it); without it there are none. The other variables of OpenTelemetry hold too.',
    url,
  ),
  auditRetentionMs: row(
    'AUDIT_RETENTION_MS',
    String(90 * DAY_MS),
    'ms',
    'How long the audit log keeps what was changed by which key.',
    count(60_000),
  ),
  tenantIdleMs: row(
    'TENANT_IDLE_MS',
    '600000',
    'ms',
    'After how long without use a tenant is taken from memory.',
    count(1000),
  ),
  foldDeadlineMs: row(
    'FOLD_DEADLINE_MS',
    '1000',
    'ms',
    'How long an append waits for the state that its answer carries.',
    count(1),
  ),
  keptRevisions: row(
    'KEPT_REVISIONS',
    '1',
    'revisions',
    'Of each projection, and of the reducers of each aggregate type, so many former ones keep their states on the owner’s disk: back to them it takes no fold from the start.',
    count(0, 100),
  ),
  compileDeadlineMs: row(
    'COMPILE_DEADLINE_MS',
    '15000',
    'ms',
    'How long one compilation may take; once more so long where others kept it from the processors.',
    count(100),
  ),
  determinismChecks: row(
    'DETERMINISM_CHECKS',
    'error',
    'name',
    'What becomes of uploaded code that can’t be replayed (clock, randomness, I/O, static state …): `error` refuses it, `warn` tells of it, `off` does not look.',
    checks,
  ),
  runnerEventDeadlineMs: row(
    'RUNNER_EVENT_DEADLINE_MS',
    '1000',
    'ms',
    'How long uploaded code may take over one event.',
    count(1),
  ),
  runnerBatchDeadlineMs: row(
    'RUNNER_BATCH_DEADLINE_MS',
    '10000',
    'ms',
    'How long uploaded code may take over a batch of events.',
    count(1),
  ),
  compilerHeapLimitBytes: row(
    'COMPILER_HEAP_LIMIT_BYTES',
    String(512 * MIB),
    'bytes',
    'Managed heap of a process that compiles uploaded code; twice that is the most memory that it may take.',
    count(256 * MIB),
  ),
  compilers: row(
    'COMPILERS',
    '2',
    'processes',
    'Compilations at once. The processes past `COMPILERS_WARM` start when they are needed.',
    count(1, 16),
  ),
  compilersWarm: row(
    'COMPILERS_WARM',
    '1',
    'processes',
    'Of `COMPILERS`, those that start with the service and stand ready. With 0 the first upload waits a second for its compiler, and until then none takes its second of processor time and 110 MiB of memory.',
    count(0, 16),
  ),
  compilationsDirectory: optional(
    'COMPILATIONS_DIR',
    'path',
    'Folder that keeps what compilations gave: the same sources of the same tenant are not compiled again, after a restart neither. Processes may share it. Whoever can write to it can change tenants’ code. Unset: each upload is compiled.',
    text.min(1),
  ),
  unsafeNoSandbox: row(
    'UNSAFE_NO_SANDBOX',
    'false',
    'flag',
    'Runs uploaded code without a jail, with all that this user may do: only where everyone who can upload is trusted. The same as `--unsafe-no-sandbox`.',
    flag,
  ),
  sandboxUidBase: row(
    'SANDBOX_UID_BASE',
    '1900000000',
    'user id',
    'Where the service is root, each process of uploaded code is a user of its own: the first of 4096 ids that nobody else has. 0: they keep the service’s user.',
    count(0, 2 ** 32 - 4098),
  ),
  runnerHeapLimitBytes: row(
    'RUNNER_HEAP_LIMIT_BYTES',
    String(128 * MIB),
    'bytes',
    'Managed heap of the process that runs the code of one tenant.',
    count(16 * MIB),
  ),
  runnerMemoryLimitBytes: row(
    'RUNNER_MEMORY_LIMIT_BYTES',
    String(384 * MIB),
    'bytes',
    'Resident memory of that process, native memory included; past it it is killed, which is a strike.',
    count(64 * MIB),
  ),
  runnerMaxThreads: row(
    'RUNNER_MAX_THREADS',
    '128',
    'threads',
    'Threads of that process; past it it is killed, which is a strike.',
    count(32, 10_000),
  ),
  runnerSpareProcessorMs: row(
    'RUNNER_SPARE_PROCESSOR_MS',
    '3000',
    'ms',
    'Processor time that the process may use at once beside its work, in threads that its code has left behind; it grows back by a twentieth of the time. Past it it is killed, which is a strike. 0: no limit.',
    count(0),
  ),
  runnerIdleMs: row(
    'RUNNER_IDLE_MS',
    '300000',
    'ms',
    'After how long without work that process is stopped.',
    count(100),
  ),
  runnersMax: row(
    'RUNNERS_MAX',
    '64',
    'processes',
    'How many tenants’ code may run at once. For another one the process is stopped that was idle longest, or, where none is, one that has had its turn.',
    count(1, 10_000),
  ),
  runnersMemoryBytes: row(
    'RUNNERS_MEMORY_BYTES',
    String(4096 * MIB),
    'bytes',
    'Resident memory of all these processes together, bounded in the same way.',
    count(128 * MIB),
  ),
  artefactStrikes: row(
    'ARTEFACT_STRIKES',
    '10',
    'strikes',
    'After so many strikes uploaded code is faulted, and not run any more until a new upload or a revival; 0: never.',
    count(0, 1000),
  ),
  artefactStrikeWindowMs: row('ARTEFACT_STRIKE_WINDOW_MS', '3600000', 'ms', 'Strikes count for so long.', count(1000)),
  maxStateBytes: row(
    'MAX_STATE_BYTES',
    String(MIB),
    'bytes',
    'Largest state, as JSON, that uploaded code may give.',
    count(1024, MIB),
  ),
  inspectionDeadlineMs: row(
    'INSPECTION_DEADLINE_MS',
    '30000',
    'ms',
    'How long a state at a version, a dry run, a run of fixtures or a verification may fold; past it a state is refused, and the others tell how far they got. So long a check, a dry run or a run of fixtures waits for a compiler, too.',
    count(100, 80_000),
  ),
  inspectionMemoryBytes: row(
    'INSPECTION_MEMORY_BYTES',
    String(64 * MIB),
    'bytes',
    'States that one dry run or verification of a projection holds.',
    count(MIB),
  ),
  webhookTimeoutMs: row(
    'WEBHOOK_TIMEOUT_MS',
    '15000',
    'ms',
    'How long an endpoint may take to answer a webhook.',
    count(100),
  ),
  webhookRetrySeconds: row(
    'WEBHOOK_RETRY_SECONDS',
    '5,30,120,900,3600,10800,21600,43200,86400,86400',
    'list',
    'Seconds before each further attempt of a webhook that failed, each a fifth more or less by chance; after the last one it is a dead letter.',
    waits,
  ),
  webhookDisableAfterDays: row(
    'WEBHOOK_DISABLE_AFTER_DAYS',
    '5',
    'days',
    'A webhook endpoint all of whose attempts have failed for so long is disabled, until it is resumed; `0`: none is.',
    count(0, 365),
  ),
  maxWebhookEndpoints: row(
    'MAX_WEBHOOK_ENDPOINTS',
    '100',
    'endpoints',
    'Webhook endpoints of a tenant, past which `POST /webhooks/endpoints` is answered 507; those that come with projections count, and are not refused.',
    count(0, 100_000),
  ),
  testMode: row(
    'TEST_MODE',
    'false',
    'flag',
    'For tests, never for data that you want to keep: the service starts on a data directory that is missing or empty only, ends when its standard input ends, and removes the directory then. `startTestService()` of the client package starts one so.',
    flag,
  ),
  testClock: optional(
    'TEST_CLOCK',
    'path',
    'With `TEST_MODE`: a file that holds a time, in ISO 8601, which the events that are appended have until the file holds another one; those of an aggregate never go back. While it is missing or empty they have the time of the machine, as all else has.',
    text.min(1),
  ),
} as const;

export type Settings = { readonly [K in keyof typeof TABLE]: (typeof TABLE)[K] extends Row<infer T> ? T : never };

/** What is wrong with the environment: one sentence a variable, each naming it. */
export class SettingsError extends StartupError {
  override readonly name = 'SettingsError';
}

/** @throws SettingsError; an empty variable is an unset one. */
export function readSettings(env: Readonly<Record<string, string | undefined>>): Settings {
  const problems: string[] = [];
  const read = (setting: Row<unknown>): unknown => {
    const given = env[setting.env];
    const value = given === undefined || given === '' ? setting.fallback : given;
    if (value === undefined) return undefined;
    const parsed = setting.schema.safeParse(value);
    if (parsed.success) return parsed.data;
    problems.push(`${setting.env} ${parsed.error.issues[0]?.message ?? 'is invalid'}.`);
    return undefined;
  };
  // Each value comes from the schema of its own row.
  const values = Object.fromEntries(Object.entries(TABLE).map(([name, setting]) => [name, read(setting)])) as Settings;
  if (problems.length === 0) problems.push(...conflicts(values));
  if (problems.length > 0) throw new SettingsError(problems.join('\n'));
  return Object.freeze(values);
}

/** Settings that only make sense together. */
function* conflicts(settings: Settings): Generator<string> {
  const {
    kafkaBrokers,
    kafkaSaslMechanism: mechanism,
    kafkaSaslUsername,
    kafkaSaslPassword,
    kafkaSslCert,
    kafkaSslKey,
    kafkaSsl,
    roles: own,
  } = settings;
  if (mechanism !== undefined && (kafkaSaslUsername === undefined || kafkaSaslPassword === undefined))
    yield 'KAFKA_SASL_MECHANISM needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD.';
  if ((kafkaSslCert === undefined) !== (kafkaSslKey === undefined))
    yield 'KAFKA_SSL_CERT and KAFKA_SSL_KEY go together.';
  if (!kafkaSsl && (kafkaSslCert ?? settings.kafkaSslCa) !== undefined)
    yield 'KAFKA_SSL must be true for KAFKA_SSL_CA and KAFKA_SSL_CERT to count.';
  if (settings.testMode && kafkaBrokers !== undefined)
    yield 'TEST_MODE goes without KAFKA_BROKERS: what it stores is removed when it ends, and a log that is shared is not its own.';
  if (settings.testClock !== undefined && !settings.testMode)
    yield 'TEST_CLOCK needs TEST_MODE=true: events that are kept have the time of the machine.';
  if (kafkaBrokers === undefined && ROLES.some((role) => !own.includes(role)))
    yield 'ROLES needs KAFKA_BROKERS: with the log in the data directory one process does everything.';
}

/** The rows of the reference, in the order of the table. */
export function settingsReference(): readonly {
  readonly env: string;
  readonly fallback: string | undefined;
  readonly unit: string;
  readonly doc: string;
}[] {
  return Object.values(TABLE).map(({ env, fallback, unit, doc }) => ({ env, fallback, unit, doc }));
}
