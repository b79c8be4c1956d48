// Traces by OTLP, from a real service to a collector: what is a part of what, what is only linked, and what is not told.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, problem, success } from '../support/api.js';
import { tally } from '../support/csharp.js';
import { OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.js';
import { API_KEY, startService, until } from '../support/service.js';
import { World } from '../support/webhook-world.js';

const SERVER = 2;
const CLIENT = 3;
const PRODUCER = 4;
const ERROR = 2;
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const SAMPLED = { traceparent: `00-${TRACE}-${PARENT}-01` };
const settings = ({ url }: OtlpReceiver): Record<string, string> => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_BSP_SCHEDULE_DELAY: '50',
  OTEL_EXPORTER_OTLP_TIMEOUT: '1000',
  READ_STORE: 'clickhouse',
  OTEL_SERVICE_NAME: 'statefold-of-a-test',
  OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
});

test('traces', async (t) => {
  const receiver = await OtlpReceiver.open(t);
  const w = await World.open(t, settings(receiver));
  const found = async (name: string, wanted?: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan> => {
    let span: ReceivedSpan | undefined;
    await until(() => (span = receiver.named(name, wanted)[0]) !== undefined);
    return span as ReceivedSpan;
  };

  await t.test('an append is a part of its request, and a produce of the append', async () => {
    const { version } = await w.api.append('t-1', 'Added', { key: 'k', n: 1 }, { correlationId: 'order-7' }, SAMPLED);
    assert.equal(version, 1);
    const request = await found('POST /events', ({ traceId }) => traceId === TRACE);
    assert.deepEqual([request.kind, request.parentSpanId], [SERVER, PARENT]);
    assert.deepEqual(
      [request.attributes['http.route'], request.attributes['http.response.status_code']],
      ['/events', 201],
    );
    assert.equal(request.attributes['statefold.tenant'], 'default');
    assert.ok(request.attributes['statefold.request_id'] !== '');
    const append = await found('append', ({ traceId }) => traceId === TRACE);
    assert.equal(append.parentSpanId, request.spanId);
    assert.equal(append.attributes['statefold.correlation_id'], 'order-7');
    const produce = await found('log.produce', ({ traceId }) => traceId === TRACE);
    assert.deepEqual([produce.kind, produce.parentSpanId], [PRODUCER, append.spanId]);
    assert.match(String(produce.attributes['messaging.destination.name']), /^statefold\.default\.events$/);
    assert.ok(BigInt(produce.startTimeUnixNano) >= BigInt(append.startTimeUnixNano));
    assert.ok(BigInt(produce.endTimeUnixNano) <= BigInt(append.endTimeUnixNano));
    assert.deepEqual(
      ['service.name', 'deployment.environment.name'].map((name) => request.resource[name]),
      ['statefold-of-a-test', 'test'],
    );
  });

  await t.test('appends that share a produce are linked with it, both ways', async () => {
    const before = receiver.spans.length;
    await Promise.all(Array.from({ length: 40 }, (_, i) => w.api.append(`many-${i}`, 'Added', { key: 'm', n: i })));
    let shared: ReceivedSpan | undefined;
    await until(() => {
      shared = receiver.spans
        .slice(before)
        .find(({ name, links = [], parentSpanId }) => name === 'log.produce' && links.length > 0 && parentSpanId);
      return shared !== undefined;
    });
    const [link] = shared?.links ?? [];
    const append = await found('append', ({ spanId }) => spanId === link?.spanId);
    assert.deepEqual(
      append.links?.map(({ spanId, traceId }) => [spanId, traceId]),
      [[shared?.spanId, shared?.traceId]],
    );
    assert.notEqual(append.traceId, shared?.traceId);
    // However short: a part neither begins before what it is a part of, nor ends after it.
    await until(() => receiver.named('append').length > 40 && receiver.named('POST /events').length > 40);
    const parts = receiver.spans.filter(({ name }) => name === 'append' || name === 'log.produce');
    const whole = new Map(receiver.spans.map((span) => [span.spanId, span]));
    const outside = parts.filter(({ parentSpanId, startTimeUnixNano, endTimeUnixNano }) => {
      const of = whole.get(parentSpanId ?? '');
      return (
        of !== undefined &&
        (BigInt(startTimeUnixNano) < BigInt(of.startTimeUnixNano) ||
          BigInt(endTimeUnixNano) > BigInt(of.endTimeUnixNano))
      );
    });
    assert.deepEqual(outside, []);
  });

  await t.test('a compilation is of its upload, folds tell the correlation of their events', async () => {
    await w.api.deployReducer({ 'Tally.cs': tally('t') });
    const upload = await found('POST /reducers/upload');
    const compile = await found('code.compile', ({ traceId }) => traceId === upload.traceId);
    assert.equal(compile.parentSpanId, upload.spanId);
    assert.equal(compile.attributes['statefold.compiled'], true);
    await w.api.append('t-2', 'Added', { key: 'k', n: 1 }, { correlationId: 'order-8' });
    const byCorrelation = ({ attributes }: ReceivedSpan): boolean =>
      String(attributes['statefold.correlation_ids']).split(' ').includes('order-8');
    const reduced = await found('reducers.fold', byCorrelation);
    const projected = await found('projections.fold', byCorrelation);
    for (const { parentSpanId, attributes } of [reduced, projected]) {
      assert.equal(parentSpanId ?? '', '', 'a batch is of many requests');
      assert.equal(attributes['statefold.tenant'], 'default');
    }
    const changes = await found(
      'log.produce',
      ({ attributes }) => attributes['messaging.destination.name'] === 'statefold.default.changes',
    );
    assert.equal(changes.parentSpanId ?? '', '');
    await found('read_store.insert', ({ attributes }) => attributes['db.collection.name'] === 'events');
  });

  await t.test('a webhook takes the trace of its attempt along', async () => {
    const headers = {
      authorization: 'Bearer of-the-receiver',
      TraceParent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`,
    };
    const endpoint = await w.create('/traced', { headers });
    await w.add('hook');
    await until(() => w.receiver.of('/traced').length === 1);
    const [delivery] = w.receiver.of('/traced');
    const attempt = await found(
      'webhook.attempt',
      ({ attributes }) => attributes['statefold.endpoint'] === endpoint.endpointId,
    );
    assert.equal(delivery?.headers['traceparent'], `00-${attempt.traceId}-${attempt.spanId}-01`);
    assert.deepEqual(
      [attempt.kind, attempt.attributes['http.response.status_code'], attempt.attributes['statefold.attempt']],
      [CLIENT, 200, 1],
    );
  });

  await t.test('a refusal has its route and no id in its name; what is not sampled is not sent', async () => {
    problem(await w.api.get('/reducers/some-id/status'), 404, 'NOT_FOUND');
    const refused = await found(
      'GET /reducers/:id/status',
      ({ attributes }) => attributes['http.response.status_code'] === 404,
    );
    assert.notEqual(refused.status?.code, ERROR, 'the client was wrong, not the service');
    const quiet = '1af7651916cd43dd8448eb211c80319c';
    await w.api.append('t-quiet', 'Added', {}, {}, { traceparent: `00-${quiet}-${PARENT}-00` });
    success(await w.api.get('/health/ready', { key: null }), 200);
    await w.api.append('t-loud', 'Added', {}, { correlationId: 'after-it' });
    await found('append', ({ attributes }) => attributes['statefold.correlation_id'] === 'after-it');
    assert.deepEqual(
      receiver.spans.filter(({ traceId, name }) => traceId === quiet || name.includes('health')),
      [],
    );
  });

  await t.test('no key, secret or data is told', () => {
    const told = receiver.bodies.join('\n');
    for (const secret of [API_KEY, 'of-the-receiver', 'whsec_', 't-quiet', '/traced'])
      assert.ok(!told.includes(secret), `${secret} is in a trace`);
  });

  await t.test('a collector that is away is told of once, and holds up nothing', async () => {
    receiver.close();
    for (let i = 0; i < 20; i++) await w.api.append('t-away', 'Added', { key: 'k', n: i });
    await until(() => w.service.output.includes('traces can not be sent'));
    await w.api.append('t-away', 'Added', { key: 'k', n: 21 });
    assert.equal(w.service.output.split('traces can not be sent').length, 2);
    await w.service.stop();
  });
});

test('without an endpoint nothing is sent, and nobody gets a trace', async (t) => {
  const receiver = await OtlpReceiver.open(t);
  const service = await startService(t, {
    readStore: true,
    env: { OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', OTEL_SERVICE_NAME: 'x' },
  });
  await new Api(service).append('a-1', 'Opened', {}, {}, SAMPLED);
  await service.stop();
  assert.equal(receiver.requests, 0);
});
