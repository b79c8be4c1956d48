/** Where a Kafka is and what runs it. */
export interface Kafka {
  readonly home: string;
  readonly java: string;
  /** As 4.3.1, from the name of its jar. */
  readonly version: string;
  readonly classPath: string;
  /** Where `archiveClasses` leaves its classes for this Java. */
  readonly archive: string;
  /** Where the first broker of this release leaves what its directory was formatted with, for all later ones. */
  readonly formatted: string;
}

export interface KafkaOptions {
  /** The folder with `libs/*.jar`; the environment's KAFKA_HOME unless given. */
  readonly home?: string;
  /** 1 unless given. From three on topics have three replicas, two of them in sync, and any one broker may be killed. */
  readonly brokers?: number;
  /** Kept at the end; a temporary one, which isn't, unless given. */
  readonly dataDirectory?: string;
  /** The brokers' client ports, in their order; free ones where missing. */
  readonly ports?: readonly number[];
  /** Options of the JVM. */
  readonly heap?: readonly string[];
  /** More of them, in place of those that use the archive of classes. */
  readonly jvm?: readonly string[];
  /** Settings of the brokers, over the defaults. */
  readonly properties?: Readonly<Record<string, string | number | boolean>>;
  /** The `host:port` that clients are told to connect to; brokers among themselves don't pass there. */
  readonly advertised?: (id: number, port: number) => string;
}

export interface KafkaNode {
  readonly id: number;
  /** Where it listens for clients itself, whatever it advertises. Stays over restarts. */
  readonly port: number;
  /** Undefined while it is down. */
  readonly pid: number | undefined;
  readonly logFile: string;
  /** Resolves when it answers and is not fenced. */
  start(): Promise<void>;
  /** As start: for one that was paused, or is being recovered. */
  serves(deadlineMs?: number): Promise<void>;
  /** SIGKILL unless given. Resolves when it has ended; for SIGSTOP and SIGCONT at once. */
  kill(signal?: NodeJS.Signals): Promise<void>;
  /** A controlled shutdown. */
  stop(): Promise<void>;
  /** The end of what it logged: warnings and errors. */
  logTail(lines?: number): string;
}

export interface KafkaCluster {
  readonly kafka: Kafka;
  readonly version: string;
  readonly directory: string;
  readonly nodes: readonly KafkaNode[];
  /** What clients are given: the advertised addresses. */
  readonly brokers: readonly string[];
  close(): Promise<void>;
}

export function findKafka(home?: string): Kafka;
/** Halves what a start costs from then on; does nothing where that was done before. */
export function archiveClasses(kafka?: Kafka): Promise<void>;
export function startKafka(options?: KafkaOptions): Promise<KafkaCluster>;
/** Runs one of Kafka's own tools by its class; resolves with its standard output. */
export function runTool(
  kafka: Kafka,
  main: string,
  args: readonly string[],
  options?: { readonly input?: string; readonly timeoutMs?: number },
): Promise<string>;
export function freePort(): Promise<number>;
