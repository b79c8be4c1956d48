import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import type { TestContext } from 'node:test';

type Value =
  { readonly stringValue: string } | { readonly intValue: number | string } | { readonly boolValue: boolean };
interface KeyValue {
  readonly key: string;
  readonly value: Value;
}
interface WireSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes?: readonly KeyValue[];
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status?: { readonly code?: number; readonly message?: string };
}
interface ExportRequest {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly KeyValue[] };
    readonly scopeSpans: readonly { readonly spans: readonly WireSpan[] }[];
  }[];
}

export interface ReceivedSpan extends Omit<WireSpan, 'attributes'> {
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly resource: Readonly<Record<string, unknown>>;
}

const values = (pairs: readonly KeyValue[] = []): Record<string, unknown> =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, Object.values(value)[0] as unknown]));

/** Takes traces as a collector does: OTLP over HTTP, in JSON, at `/v1/traces`. */
export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = [];
  /** What was sent, to the byte. */
  readonly bodies: string[] = [];
  requests = 0;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(t: Pick<TestContext, 'after'>): Promise<OtlpReceiver> {
    const server = createServer((request, response) => {
      receiver.requests++;
      if (request.method !== 'POST' || request.url !== '/v1/traces') return void response.writeHead(404).end();
      json(request).then(
        (body) => {
          receiver.#take(body as ExportRequest);
          response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
        },
        () => response.writeHead(400).end(),
      );
    });
    const receiver = new OtlpReceiver(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => receiver.close());
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  named(name: string, wanted: (span: ReceivedSpan) => boolean = () => true): ReceivedSpan[] {
    return this.spans.filter((span) => span.name === name && wanted(span));
  }

  #take(body: ExportRequest): void {
    this.bodies.push(JSON.stringify(body));
    for (const { resource, scopeSpans } of body.resourceSpans)
      for (const { spans } of scopeSpans)
        for (const span of spans)
          this.spans.push({ ...span, attributes: values(span.attributes), resource: values(resource.attributes) });
  }
}
