// Invariant 17: what is returned is what was sent, to the byte, through the log, ClickHouse, C# and every channel.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, problem, success } from '../support/api.js';
import { openEvents, openSocket, Receiver } from '../support/api-channels.js';
import { GOLDEN, goldenProjection, goldenReducer } from '../support/golden.js';
import { startService, temporaryDirectory, until } from '../support/service.js';

interface Gold {
  readonly raw: string;
  readonly metadata: string | null;
  readonly element: unknown;
}

test('golden bytes', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  const receiver = await Receiver.open(t);
  let service = await startService(t, { readStore: true, dataDirectory, env: { FOLD_DEADLINE_MS: '30000' } });
  let api = new Api(service);
  const cases = Object.entries(GOLDEN);
  const send = (path: string, body: string): ReturnType<Api['request']> =>
    api.request('POST', path, { raw: body, headers: { 'content-type': 'application/json' } });
  const single = (name: string, data: string): string =>
    `{"aggregateId":"golden-1","eventType":"${name}","data":${data},"metadata":${data}}`;

  await api.deployReducer({ 'Golden.cs': goldenReducer });
  const projection = await api.deployProjection(
    { 'Goldens.cs': goldenProjection },
    { config: JSON.stringify({ sse: true, webhook: { url: `${receiver.url}/golden` } }) },
  );
  const socket = await openSocket(t, api, projection);
  const events = await openEvents(t, api, projection);
  /** Each element as C# wrote it into the state. */
  const elements = new Map<string, string>();

  await t.test('in the state of a 201, as the reducer read it', async () => {
    for (const [name, data] of cases) {
      const answer = success(await send('/events', single(name, data)), 201);
      const { state } = answer.json<{ state: Gold }>();
      assert.deepEqual([state.raw, state.metadata], [data, data], name);
      elements.set(name, /"element":(.*)\}\}$/s.exec(answer.text)?.[1] ?? '');
    }
    const batch = cases.map(([name, data]) => `{"eventType":"${name}","data":${data}}`).join(' ,\n');
    success(await send('/events/batch', ` { "events":[${batch}], "aggregateId":"golden-2" } `), 201);
    const numbers = elements.get('numbers') ?? '';
    // Numbers keep their digits in a state too.
    assert.equal(numbers, GOLDEN['numbers']);
    for (const name of ['order', 'prototype', 'duplicates', 'literals'])
      assert.equal(elements.get(name), GOLDEN[name], name);
    assert.deepEqual(JSON.parse(elements.get('text') ?? ''), JSON.parse(GOLDEN['text'] ?? ''));
    assert.deepEqual(JSON.parse(elements.get('escapes') ?? ''), JSON.parse(GOLDEN['escapes'] ?? ''));
  });

  const listed = async (): Promise<void> => {
    for (const id of ['golden-1', 'golden-2']) {
      const { text } = await api.get(`/events/${id}`);
      for (const [i, [name, data]] of cases.entries())
        assert.ok(text.includes(`"eventType":"${name}","data":${data},"version":${i + 1},`), `${id} ${name}`);
      const backward = (await api.get(`/events/${id}?direction=backward&limit=1`)).text;
      assert.ok(backward.includes(`"data":${cases.at(-1)?.[1]},`));
    }
  };
  await t.test('in the listing', listed);

  await t.test('in a conflict', async () => {
    const { text } = await send(
      '/events?includeConflicts=true',
      `{"aggregateId":"golden-1","eventType":"x","data":{},"expectedVersion":0}`,
    );
    for (const [name, data] of cases) assert.ok(text.includes(`"data":${data},`), name);
  });

  await t.test('on every channel, the same bytes', async () => {
    const count = 2 * cases.length;
    await socket.received(count);
    await events.received(count);
    const polled = (await api.get(`/projections/${projection}/notifications?limit=1000`)).text;
    assert.equal(polled, `{"notifications":[${socket.texts.join(',')}]}`);
    assert.deepEqual(events.texts, socket.texts);
    await until(() => receiver.deliveries.length >= count);
    const delivered = receiver.deliveries.map(({ body }) => body.slice(body.indexOf('"data":') + 7, -1));
    assert.deepEqual(delivered.toSorted(), socket.texts.toSorted());
    for (const [i, [name, data]] of cases.entries()) {
      const record = socket.records[i];
      assert.deepEqual(
        [record?.key, (record?.state as Gold).raw, (record?.state as Gold).metadata],
        [name, data, data],
      );
      assert.ok(socket.texts[i]?.includes(`"element":${elements.get(name)}}`), name);
      const states = (await api.get(`/projections/${projection}/states/${name}`)).text;
      assert.ok(states.includes(`"element":${elements.get(name)}}`), name);
    }
  });

  await t.test('in ClickHouse, raw and as rows', async () => {
    const access = await api.readStoreAccess();
    const ask = async (statement: string): Promise<{ status: number; text: string }> => {
      const response = await fetch(`${access.url}/?database=${access.database}`, {
        method: 'POST',
        body: statement,
        headers: { authorization: `Basic ${Buffer.from(`${access.user}:${access.password}`).toString('base64')}` },
      });
      return { status: response.status, text: await response.text() };
    };
    const sql = async (statement: string): Promise<string> => {
      const { status, text } = await ask(statement);
      assert.equal(status, 200, text);
      return text;
    };
    assert.equal((await fetch(`${access.url}/?query=SELECT%201`)).ok, false);
    // It is asked before it has made its tables, perhaps.
    await until(
      async () =>
        (
          await ask("SELECT count() FROM events FINAL WHERE tenant = 'default' AND aggregate_type = 'golden'")
        ).text.trim() === String(2 * cases.length),
    );
    for (const [name, data] of cases) {
      assert.equal(
        await sql(
          `SELECT data_raw FROM events FINAL WHERE aggregate_id = 'golden-1' AND event_type = '${name}' FORMAT RawBLOB`,
        ),
        data,
        name,
      );
      assert.equal(
        await sql(
          `SELECT metadata_raw FROM events FINAL WHERE aggregate_id = 'golden-1' AND event_type = '${name}' FORMAT RawBLOB`,
        ),
        data,
        name,
      );
    }
    assert.equal(
      (
        await sql("SELECT data.z, data.A FROM events FINAL WHERE aggregate_id = 'golden-1' AND event_type = 'order'")
      ).trim(),
      '1\t7',
    );
  });

  await t.test('after a kill, from the log', async () => {
    await service.kill();
    service = await startService(t, { dataDirectory });
    api = new Api(service);
    await listed();
    assert.equal(
      (await api.get(`/projections/${projection}/notifications?limit=1000`)).text,
      `{"notifications":[${socket.texts.join(',')}]}`,
    );
    const state = await api.get('/aggregate-types/golden/golden-1/state');
    assert.equal(state.json<{ state: Gold }>().state.raw, cases.at(-1)?.[1]);
  });

  await t.test('nothing of it touched the prototypes of the service', async () => {
    assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
    assert.ok(!(await api.get('/aggregates')).text.includes('polluted'));
    const sent = (more: string): ReturnType<typeof send> =>
      send(
        '/events',
        `{"aggregateId":"__proto__","aggregateType":"constructor","eventType":"__proto__","data":{"__proto__":1}${more}}`,
      );
    success(await sent(''), 201);
    // As a member of the request it is as unknown as any other.
    for (const name of ['__proto__', 'constructor', 'toString'])
      assert.match(
        problem(await sent(`,"${name}":{"eventType":"x"}`), 400, 'INVALID_REQUEST').detail,
        new RegExp(`/${name} is not a known member`),
      );
    assert.ok((await api.get('/events/__proto__')).text.includes('"eventType":"__proto__","data":{"__proto__":1}'));
    assert.equal(
      (
        await api.read<{ aggregateTypes: { aggregateType: string; aggregates: number }[] }>('/aggregate-types')
      ).aggregateTypes.find(({ aggregateType }) => aggregateType === 'constructor')?.aggregates,
      1,
    );
  });
});
