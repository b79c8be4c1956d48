import type { IncomingHttpHeaders } from 'node:http';

export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** Work that is told to whoever collects traces. */
export interface Span {
  /** False: it was not sampled, and what is said of it goes nowhere. */
  readonly recorded: boolean;
  /** W3C headers that make it the parent of what another process does. */
  readonly headers: Readonly<Record<string, string>>;
  rename(name: string): void;
  set(attributes: Attributes): void;
  /** It came about by the other one, and not as its part. */
  link(other: Span): void;
  fail(reason: unknown): void;
  /** Once. */
  end(): void;
}

export interface SpanOptions {
  readonly kind?: 'server' | 'client' | 'producer';
  /** What it is a part of; a trace of its own without one. Headers: those of a request. */
  readonly parent?: Span | IncomingHttpHeaders | undefined;
  readonly attributes?: Attributes;
}

export interface Tracer {
  begin(name: string, options?: SpanOptions): Span;
  /** Runs `work`, in which, and in all that it awaits or begins, the span is `current`. */
  within<T>(span: Span, work: () => T): T;
  /** Only for what a request itself asks for: loops that a request happened to begin go on when it has ended. */
  readonly current: Span | undefined;
  /** Sends what is held. */
  close(): Promise<void>;
}

/** Of this process. Nothing is there unless traces are on, and asking costs no more than that. */
export const tracing: { tracer: Tracer | undefined } = { tracer: undefined };

/** Runs `work` as a span that ends with it. */
export async function traced<T>(
  tracer: Tracer,
  name: string,
  options: SpanOptions,
  work: (span: Span) => Promise<T>,
): Promise<T> {
  const span = tracer.begin(name, options);
  try {
    return await work(span);
  } catch (error) {
    span.fail(error);
    throw error;
  } finally {
    span.end();
  }
}

/** Most writes that a produce is linked with. */
const MOST_LINKS = 128;

/**
 * A produce on behalf of what waits for it: a part of the first that is sampled, and linked with the others. Undefined where none is;
 * one that nobody waits for, as of changes, is a trace of its own.
 */
export function produceSpan(
  tracer: Tracer,
  { topic, partition }: { readonly topic: string; readonly partition: number },
  records: number,
  waiting: readonly (Span | undefined)[],
): Span | undefined {
  const sampled = waiting.filter((span) => span?.recorded === true) as Span[];
  const [parent, ...others] = sampled;
  if (parent === undefined && waiting.some((span) => span !== undefined)) return undefined;
  const span = tracer.begin('log.produce', {
    kind: 'producer',
    parent,
    attributes: {
      'messaging.destination.name': topic,
      'messaging.destination.partition.id': String(partition),
      'messaging.batch.message_count': records,
    },
  });
  for (const other of others.slice(0, MOST_LINKS)) {
    span.link(other);
    other.link(span);
  }
  return span;
}
