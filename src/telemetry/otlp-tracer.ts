import { AsyncLocalStorage } from 'node:async_hooks';
import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Context,
  type HrTime,
  type Span as OtelSpan,
} from '@opentelemetry/api';
import { ExportResultCode, millisToHrTime, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import type { Logger } from '../core/logger.js';
import type { Attributes, Span, SpanOptions, Tracer } from '../core/tracing.js';
import { within } from '../core/within.js';

// Loaded where traces are on, and only there: src/app/open-tracing.ts.

export interface OtlpOptions {
  readonly version: string;
  /** Of this process, new at each start. */
  readonly instance: string;
  readonly logger: Logger;
}

/** A collector that is away holds up no shutdown for longer. */
const CLOSING_MS = 3_000;
const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, producer: SpanKind.PRODUCER } as const;
const propagator = new W3CTraceContextPropagator();
const SETTER = {
  set: (carrier: Record<string, string>, name: string, value: string): void => void (carrier[name] = value),
};
const GETTER = {
  keys: (carrier: Readonly<Record<string, unknown>>): string[] => Object.keys(carrier),
  get: (carrier: Readonly<Record<string, unknown>>, name: string): string | undefined => {
    const value = carrier[name];
    return typeof value === 'string' ? value : undefined;
  },
};

/** How far the clock of the process may come from the machine's before it is set to it again. */
const CLOCKS_APART_MS = 5;

/**
 * The time since 1970, with fractions of milliseconds. The library's own spans begin at whole milliseconds and end a precise time later, so that a part
 * can seem to end after its whole.
 */
class Clock {
  #begun = performance.timeOrigin;

  now(): HrTime {
    const now = this.#begun + performance.now();
    const machine = Date.now();
    if (Math.abs(machine - now) <= CLOCKS_APART_MS) return millisToHrTime(now);
    this.#begun += machine - now;
    return millisToHrTime(machine);
  }
}

class OtlpSpan implements Span {
  constructor(
    readonly span: OtelSpan,
    private readonly clock: Clock,
  ) {}

  get context(): Context {
    return trace.setSpan(ROOT_CONTEXT, this.span);
  }
  get recorded(): boolean {
    return this.span.isRecording();
  }
  get headers(): Readonly<Record<string, string>> {
    const headers: Record<string, string> = {};
    propagator.inject(this.context, headers, SETTER);
    return headers;
  }
  rename(name: string): void {
    this.span.updateName(name);
  }
  set(attributes: Attributes): void {
    for (const [name, value] of Object.entries(attributes))
      if (value !== undefined) this.span.setAttribute(name, value);
  }
  link(other: Span): void {
    if (other instanceof OtlpSpan) this.span.addLink({ context: other.span.spanContext() });
  }
  fail(reason: unknown): void {
    // What was thrown may quote what a client sent: its kind is enough here, the log of the service has the rest.
    const code = reason instanceof Error ? ((reason as { readonly code?: unknown }).code ?? reason.name) : reason;
    this.span.setStatus({ code: SpanStatusCode.ERROR, message: String(code) });
  }
  end(): void {
    this.span.end(this.clock.now());
  }
}

/** Spans go in batches by OTLP over HTTP, to where the standard variables of OpenTelemetry say, sampled as they say. */
export function otlpTracer({ version, instance, logger }: OtlpOptions): Tracer {
  const resource = defaultResource()
    .merge(
      resourceFromAttributes({
        'service.name': 'statefold',
        'service.version': version,
        'service.instance.id': instance,
      }),
    )
    .merge(detectResources({ detectors: [envDetector] }));
  const exporter = new OTLPTraceExporter();
  let failing = false;
  const provider = new NodeTracerProvider({
    resource,
    spanProcessors: [
      new BatchSpanProcessor({
        export: (spans, done) =>
          exporter.export(spans, (result) => {
            const failed = result.code !== ExportResultCode.SUCCESS;
            // Said once for each time that it begins, and ends.
            if (failed && !failing)
              logger.warn({ err: result.error }, 'traces can not be sent; they are dropped until they can');
            if (!failed && failing) logger.warn({}, 'traces are sent again');
            failing = failed;
            done(result);
          }),
        forceFlush: () => exporter.forceFlush(),
        shutdown: () => exporter.shutdown(),
      }),
    ],
  });
  const tracer = provider.getTracer('statefold', version);
  const clock = new Clock();
  const storage = new AsyncLocalStorage<Span>();
  return {
    begin: (name, { kind, parent, attributes }: SpanOptions = {}) => {
      const above =
        parent === undefined
          ? ROOT_CONTEXT
          : parent instanceof OtlpSpan
            ? parent.context
            : propagator.extract(ROOT_CONTEXT, parent, GETTER);
      const startTime = clock.now();
      const span = new OtlpSpan(
        tracer.startSpan(name, kind === undefined ? { startTime } : { startTime, kind: KINDS[kind] }, above),
        clock,
      );
      if (attributes !== undefined && span.recorded) span.set(attributes);
      return span;
    },
    within: (span, work) => storage.run(span, work),
    get current() {
      return storage.getStore();
    },
    close: async () => {
      const sent = provider.shutdown().catch((err: unknown) => logger.warn({ err }, 'the last traces were not sent'));
      await within(sent, CLOSING_MS);
    },
  };
}
