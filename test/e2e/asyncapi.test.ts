// What a real service sends on each channel is what its AsyncAPI document says of it, and what the document shows is taken.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import test from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { WebSocket } from 'ws';
import { Api, success } from '../support/api.js';
import { Receiver } from '../support/api-channels.js';
import { totals } from '../support/csharp.js';
import { startService, until } from '../support/service.js';

interface Document {
  readonly channels: Readonly<Record<string, { readonly address: string | null; readonly messages: object }>>;
  readonly components: {
    readonly messages: Readonly<Record<string, { readonly examples: readonly { readonly payload: unknown }[] }>>;
  };
}

test('the channels carry what the AsyncAPI document says', async (t) => {
  const service = await startService(t);
  const api = new Api(service);
  const document = await api.read<Document>('/asyncapi.json');
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  ajv.addSchema(document, 'asyncapi');
  const seen = new Set<string>();
  const holds = (message: string, payload: unknown): void => {
    const check = ajv.getSchema(`asyncapi#/components/messages/${message}/payload`);
    assert.ok(check?.(payload), `${message} ${JSON.stringify(payload)}: ${ajv.errorsText(check?.errors)}`);
    seen.add(message);
  };
  const receiver = await Receiver.open(t);
  const projectionId = await api.deployProjection({ 'Totals.cs': totals() }, { config: '{"sse":true}' });
  const endpoints: string[] = [];
  for (const [path, source] of [
    ['/feed', { feed: {} }],
    ['/changes', { projectionId }],
  ] as const) {
    const made = await api.post('/webhooks/endpoints', { url: receiver.url + path, source });
    endpoints.push(success(made, 201).json<{ endpointId: string }>().endpointId);
  }
  const address = (channel: string): string =>
    `${service.url}${document.channels[channel]?.address?.replace('{projectionId}', projectionId)}`;

  const socketOf = async (channel: string, message: string, type: string): Promise<() => Promise<void>> => {
    const query = channel === 'stream' ? '?snapshot=true' : '';
    const socket = new WebSocket(address(channel).replace('http', 'ws') + query, {
      headers: { 'x-api-key': api.key ?? '' },
    });
    t.after(() => socket.terminate());
    let found = 0;
    socket.on('message', (data: Buffer) => {
      const payload = JSON.parse(data.toString()) as { readonly type: string };
      holds(payload.type === type ? message : payload.type === 'erased' ? 'feedErased' : payload.type, payload);
      if (payload.type === type) found++;
    });
    await once(socket, 'open');
    // The only message that a client sends, as the document shows it.
    socket.send(JSON.stringify(document.components.messages['pong']?.examples[0]?.payload));
    seen.add('pong');
    return async () => {
      await until(() => found > 0);
      assert.equal(socket.readyState, WebSocket.OPEN);
    };
  };
  const told = [
    await socketOf('feedStream', 'feedEvent', 'event'),
    await socketOf('stream', 'state_changed', 'state_changed'),
  ];
  const streamed = async (channel: string, cursor: string, message: string): Promise<void> => {
    const ended = new AbortController();
    const headers = {
      'x-api-key': api.key ?? '',
      ...(channel === 'feedLines' ? { accept: 'application/x-ndjson' } : {}),
    };
    const response = await fetch(`${address(channel)}?${cursor}=0`, { headers, signal: ended.signal });
    assert.equal(response.status, 200);
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk as Uint8Array, { stream: true });
      const lines = text.split('\n').slice(0, -1);
      const payloads = lines.flatMap((line) => {
        const json = channel === 'feedLines' ? line : line.startsWith('data: ') ? line.slice(6) : '';
        return json === '' ? [] : [JSON.parse(json) as { readonly type?: string }];
      });
      const erased = channel === 'feedLines' ? 'feedErased' : 'feedErasedEvent';
      for (const payload of payloads) holds(payload.type === 'erased' ? erased : (payload.type ?? message), payload);
      if (payloads.length > 0 && channel !== 'feedLines' && (channel !== 'feedSse' || seen.has(erased))) break;
    }
    assert.ok(seen.has(message), message);
    ended.abort();
  };
  await api.append(
    'a-1',
    'Added',
    { key: 'k', n: 1 },
    { correlationId: 'c', causationId: 'd', metadata: { by: 'me' } },
  );
  await api.append('a-2', 'Added', { key: 'k', n: 2 });
  success(await api.request('DELETE', '/aggregates/a-2', { body: { reason: 'asked for' } }), 202);
  for (const one of told) await one();
  await streamed('feedLines', 'after', 'feedLine');
  await streamed('feedSse', 'after', 'feedServerSentEvent');
  await streamed('sse', 'afterSequence', 'event');
  await until(() => receiver.of('/feed').length > 0 && receiver.of('/changes').length > 0);
  success(await api.post(`/webhooks/endpoints/${endpoints[0]}/test`), 200);
  await until(() =>
    ['"aggregate.erased"', '"endpoint.test"'].every((type) =>
      receiver.of('/feed').some(({ body }) => body.includes(type)),
    ),
  );
  const payloads = receiver.deliveries.map(({ body }) => JSON.parse(body) as { readonly type: string });
  const names = {
    'aggregate.erased': 'aggregateErased',
    'event.appended': 'eventAppended',
    'projection.state_changed': 'delivery',
    'endpoint.test': 'endpointTest',
  } as const;
  for (const payload of payloads) holds(names[payload.type as keyof typeof names], payload);
  // A ping comes after 20 s, and is not waited for here; the snapshot is asked for over the WebSocket.
  assert.deepEqual([...seen, 'ping', 'snapshotEndEvent'].sort(), Object.keys(document.components.messages).sort());
});
