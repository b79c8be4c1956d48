import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, problem, success } from '../support/api.js';
import { refusedUpgrade } from '../support/api-channels.js';
import { totals } from '../support/csharp.js';
import {
  feedEvents,
  feedLines,
  feedSocket,
  pages,
  positionOf,
  type FeedEvent,
  type FeedPage,
} from '../support/feed-channels.js';
import { startService, temporaryDirectory, until, type Answer } from '../support/service.js';

test('the feed', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { dataDirectory });
  let api = new Api(service);
  const page = (query = ''): Promise<FeedPage> => api.read<FeedPage>(`/feed${query}`);
  const post = async (body: object, headers: Record<string, string> = {}): Promise<Answer> =>
    success(await api.post('events' in body ? '/events/batch' : '/events', body, { headers }), 201);
  const append = (aggregateId: string, eventType: string, data: object = {}): Promise<Answer> =>
    post({ aggregateId, eventType, data });

  await t.test('of a tenant without events is empty, at position 0', async () => {
    assert.deepEqual(await page(), { events: [], position: 0 });
    assert.deepEqual(await page('?after=7'), { events: [], position: 7 });
    const lines = await feedLines(t, api);
    assert.equal(await lines.ended, 0);
    assert.deepEqual([lines.events, lines.positions], [[], [0]]);
  });

  await t.test('has all events in their order, each as it was sent, at the position that its 201 told', async () => {
    const first = await post({ aggregateId: 'order-1', eventType: 'Placed', data: { total: 1.5 } });
    const batch = {
      aggregateId: 'order-1',
      events: [
        { eventType: 'Added', data: { n: 1 }, correlationId: 'of the event' },
        { eventType: 'Added', data: { n: 2 }, metadata: { by: 'me' } },
        { eventType: 'Paid', data: {} },
      ],
      correlationId: 'of the batch',
      causationId: 'why',
    };
    const second = await post(batch, { 'idempotency-key': 'k' });
    const spaced =
      '{"aggregateId":"cart-1","eventType":"Opened","data":{\n "big" : 90071992547409931,\r\n "s":"a\\nb"}}';
    const third = success(
      await api.request('POST', '/events', { raw: spaced, headers: { 'content-type': 'application/json' } }),
      201,
    );
    const again = await post(batch, { 'idempotency-key': 'k' });
    assert.equal(again.text, second.text);
    assert.equal(positionOf(again), positionOf(second), 'a repeated request has the same position');
    const { events, position } = await page();
    assert.deepEqual(
      events.map(({ aggregateId, eventType, version }) => [aggregateId, eventType, version]),
      [
        ['order-1', 'Placed', 1],
        ['order-1', 'Added', 2],
        ['order-1', 'Added', 3],
        ['order-1', 'Paid', 4],
        ['cart-1', 'Opened', 1],
      ],
    );
    const positions = events.map((event) => event.position);
    assert.ok(positions.every((one, i) => Number.isSafeInteger(one) && one > (positions[i - 1] ?? 0)));
    assert.deepEqual([positions[0], positions[3], positions[4]], [first, second, third].map(positionOf));
    assert.equal(position, positions[4]);
    assert.deepEqual(
      events.map(({ correlationId, causationId, metadata }) => [correlationId, causationId, metadata]),
      [
        [undefined, undefined, undefined],
        ['of the event', 'why', undefined],
        ['of the batch', 'why', { by: 'me' }],
        ['of the batch', 'why', undefined],
        [undefined, undefined, undefined],
      ],
    );
    assert.ok((await api.get('/feed')).text.includes('{\n "big" : 90071992547409931,\r\n "s":"a\\nb"}'), 'as sent');
    const listed = await api.read<{ events: FeedEvent[] }>('/events/order-1?include=metadata');
    assert.deepEqual(
      listed.events,
      events.slice(0, 4).map(({ position: _, ...event }) => event),
    );
    // Line breaks between the members of data end no line, and no event.
    const [lines, sse, socket] = await Promise.all([
      feedLines(t, api),
      feedEvents(t, api, '?after=0'),
      feedSocket(t, api, '?after=0'),
    ]);
    assert.equal(await lines.ended, 0);
    for (const channel of [lines, sse, socket]) assert.deepEqual(await channel.received(5), events);
    assert.deepEqual(lines.positions, [position]);
    for (const channel of [sse, socket]) channel.close();
  });

  await t.test(
    'pages go on where the last one ended, also within a batch; filters leave out and are told past',
    async () => {
      for (let i = 0; i < 40; i++)
        await post({
          aggregateId: `${i % 2 === 0 ? 'order' : 'cart'}-${i % 5}`,
          events: Array.from({ length: 1 + (i % 4) }, (_, n) => ({
            eventType: n === 0 ? 'First' : 'Rest',
            data: { i, n },
          })),
        });
      const all = await pages(api, '&limit=1000');
      for (const limit of [1, 3, 7, 100]) assert.deepEqual(await pages(api, `&limit=${limit}`), all);
      for (const [query, wanted] of [
        ['aggregateType=cart', (event: FeedEvent) => event.aggregateType === 'cart'],
        ['eventType=First&eventType=Paid', (event: FeedEvent) => ['First', 'Paid'].includes(event.eventType)],
        ['aggregateId=cart-1', (event: FeedEvent) => event.aggregateId === 'cart-1'],
        [
          'aggregateType=cart&aggregateType=order&eventType=Rest&aggregateId=cart-1&aggregateId=cart-3',
          (event: FeedEvent) => event.eventType === 'Rest' && ['cart-1', 'cart-3'].includes(event.aggregateId),
        ],
        ['aggregateId=cart', () => false],
      ] as const) {
        const expected = all.filter(wanted);
        assert.deepEqual(await pages(api, `&limit=2&${query}`), expected, query);
        assert.equal((await page(`?limit=1000&${query}`)).position, all.at(-1)?.position, query);
        const lines = await feedLines(t, api, `?${query}`);
        assert.equal(await lines.ended, 0);
        assert.deepEqual([lines.events, lines.positions], [expected, [all.at(-1)?.position]], query);
        const after = all[10]?.position ?? 0;
        const socket = await feedSocket(t, api, `?after=${after}&${query}`);
        const sse = await feedEvents(t, api, `?${query}`, { 'last-event-id': String(after) });
        const rest = expected.filter(({ position }) => position > after);
        for (const channel of [socket, sse]) {
          assert.deepEqual(await channel.received(rest.length), rest, query);
          channel.close();
        }
      }
      assert.deepEqual(await page(`?after=${Number.MAX_SAFE_INTEGER}`), {
        events: [],
        position: Number.MAX_SAFE_INTEGER,
      });
    },
  );

  await t.test('what is asked for wrongly is refused with what to do, on each channel', async () => {
    for (const [query, said] of [
      ['after=-1', /after must be an integer/],
      ['after=1&after=2', /after is given 2 times/],
      ['after=9007199254740993', /after must be an integer/],
      ['aggregateType=no%20type', /aggregate type/],
      ['eventType=', /eventType/],
      ['agregateType=cart', /agregateType.*aggregateType/s],
    ] as const) {
      for (const path of ['/feed', '/feed/sse'])
        assert.match(problem(await api.get(`${path}?${query}`), 400, 'INVALID_REQUEST').detail, said);
      const refused = await refusedUpgrade(`${service.url}/feed/stream?${query}`, { 'x-api-key': String(api.key) });
      assert.deepEqual([refused.status, refused.problem['code']], [400, 'INVALID_REQUEST']);
      assert.match(String(refused.problem['detail']), said);
    }
    for (const query of [
      'limit=0',
      'limit=1001',
      'waitSeconds=31',
      'waitFor=x',
      'waitFor=-1',
      'follow=yes',
      'follow=true',
    ])
      problem(await api.get(`/feed?${query}`), 400, 'INVALID_REQUEST');
    for (const query of ['limit=5', 'waitSeconds=1'])
      problem(await api.get(`/feed?${query}`, { headers: { accept: 'application/x-ndjson' } }), 400, 'INVALID_REQUEST');
    problem(await api.get('/feed/sse', { headers: { 'last-event-id': 'x' } }), 400, 'INVALID_REQUEST');
    problem(await api.get('/feed/stream'), 400, 'INVALID_REQUEST');
    for (const path of ['/feed', '/feed/sse', '/feed/stream'])
      problem(await api.get(path, { key: null }), 401, 'UNAUTHENTICATED');
  });

  await t.test('a long poll ends with the first event that its filters let pass, or where it has come to', async () => {
    const { position } = await page('?limit=1000');
    const waiting = page(`?after=${position}&waitSeconds=30&eventType=Awaited`);
    await append('order-1', 'Other');
    const awaited = positionOf(await append('order-1', 'Awaited'));
    assert.deepEqual(
      (await waiting).events.map((event) => event.position),
      [awaited],
    );
    const empty = page(`?after=${awaited}&waitSeconds=1&eventType=Awaited`);
    const other = positionOf(await append('order-1', 'Other'));
    assert.deepEqual(await empty, { events: [], position: other });
  });

  await t.test(
    'a stream without a position is live only; all channels agree, and resume, while events come',
    async () => {
      const before = (await page('?limit=1000')).position;
      const live = await Promise.all([feedSocket(t, api), feedEvents(t, api)]);
      const following = await feedLines(t, api, `?after=${before}&follow=true`);
      const writers = Array.from({ length: 4 }, async (_, w) => {
        for (let i = 0; i < 30; i++)
          await post({
            aggregateId: `writer-${w}`,
            events: Array.from({ length: 1 + (i % 3) }, (_, n) => ({ eventType: 'Written', data: { w, i, n } })),
          });
      });
      const COUNT = 4 * 60;
      const resumed = [];
      for (const at of [5, 60, 150]) {
        await until(() => following.events.length >= at);
        const after = following.events[at - 1]?.position ?? 0;
        resumed.push(
          { channel: await feedSocket(t, api, `?after=${after}`), after },
          { channel: await feedEvents(t, api, '', { 'last-event-id': String(after) }), after },
          { channel: await feedLines(t, api, `?after=${after}&follow=true`), after },
        );
      }
      await Promise.all(writers);
      const all = await pages(api, '', before);
      assert.equal(all.length, COUNT);
      for (const channel of [...live, following]) assert.deepEqual(await channel.received(COUNT), all);
      for (const { channel, after } of resumed) {
        const rest = all.filter(({ position }) => position > after);
        assert.deepEqual(await channel.received(rest.length), rest);
      }
      for (const channel of [...live, following, ...resumed.map(({ channel: one }) => one)]) channel.close();
      // Of one aggregate every batch lies together, in the order of its versions.
      for (let w = 0; w < 4; w++) {
        const own = all.filter(({ aggregateId }) => aggregateId === `writer-${w}`);
        assert.deepEqual(
          own.map(({ version }) => version),
          Array.from({ length: 60 }, (_, i) => i + 1),
        );
        for (const [i, { position, data }] of own.entries())
          if ((data as { n: number }).n > 0) assert.equal(position, (own[i - 1]?.position ?? 0) + 1);
      }
    },
  );

  await t.test(
    'followers resume over kills and restarts: every event once, those that were answered among them',
    async () => {
      const start = (await pages(api)).at(-1)?.position ?? 0;
      const seen: FeedEvent[] = [];
      const told: number[] = [];
      const last = (): number => seen.at(-1)?.position ?? start;
      for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL'] as const) {
        const socket = await feedSocket(t, api, `?after=${last()}`);
        const sse = await feedEvents(t, api, '', { 'last-event-id': String(last()) });
        const lines = await feedLines(t, api, `?after=${last()}&follow=true`);
        // Some of them may be stored and not answered.
        const writing = Array.from({ length: 3 }, async (_, w) => {
          for (let i = 0; i < 200; i++)
            told.push(
              positionOf(
                await post({
                  aggregateId: `killed-${w}`,
                  events: [
                    { eventType: 'A', data: { i } },
                    { eventType: 'B', data: { i } },
                  ],
                }),
              ),
            );
        });
        await until(() => Math.min(...[socket, sse, lines].map(({ events }) => events.length)) >= 20);
        const ending = service.kill(signal);
        await Promise.allSettled(writing);
        const code = await socket.ended;
        await Promise.all([sse.ended, lines.ended, ending]);
        assert.equal(code, signal === 'SIGTERM' ? 1001 : 1006);
        const longest = [socket, sse, lines].sort((a, b) => b.events.length - a.events.length)[0]?.events ?? [];
        for (const { events } of [socket, sse, lines]) assert.deepEqual(events, longest.slice(0, events.length));
        seen.push(...socket.events);
        service = await startService(t, { dataDirectory });
        api = new Api(service);
      }
      const all = await pages(api, '', start);
      const socket = await feedSocket(t, api, `?after=${last()}`);
      await until(() => seen.length + socket.events.length >= all.length);
      assert.deepEqual([...seen, ...socket.events], all);
      const positions = new Set(all.map(({ position }) => position));
      assert.ok(told.length > 0 && told.every((position) => positions.has(position)));
      for (let i = 0; i < all.length; i += 1)
        if (all[i]?.eventType === 'B')
          assert.equal(all[i]?.position, (all[i - 1]?.position ?? 0) + 1, 'batches are whole');
      assert.equal(all.filter(({ eventType }) => eventType === 'A').length, all.length / 2);
      socket.close();
    },
  );
});

test('read your own write', async (t) => {
  const api = new Api(await startService(t));
  const append = async (n: number, data: object = {}): Promise<number> =>
    positionOf(
      success(
        await api.post('/events', { aggregateId: `a-${n % 3}`, eventType: 'Added', data: { key: 'x', n, ...data } }),
        201,
      ),
    );

  await t.test('waitFor a position that is there is answered at once, with what is asked for', async () => {
    const position = await append(1);
    const { events } = await api.read<FeedPage>(`/feed?waitFor=${position}`);
    assert.equal(events.at(-1)?.position, position);
    assert.equal((await api.read<FeedPage>(`/feed?waitFor=0`)).position, position);
    const lines = await feedLines(t, api, `?waitFor=${position}`);
    await lines.ended;
    assert.equal(lines.events.at(-1)?.position, position);
  });

  await t.test('a position that no event has reached is waited for, and then 503 says how far it is', async () => {
    const { position } = await api.read<FeedPage>('/feed');
    for (const past of [position + 1, position + 131_072, Number.MAX_SAFE_INTEGER]) {
      const began = performance.now();
      const refused = await api.get(`/feed?waitFor=${past}&waitSeconds=1`);
      assert.equal(problem(refused, 503, 'NOT_CAUGHT_UP')['position'], position);
      assert.equal(refused.headers.get('retry-after'), '1');
      assert.ok(performance.now() - began >= 900);
      problem(await api.get(`/feed?waitFor=${past}&waitSeconds=0`), 503, 'NOT_CAUGHT_UP');
    }
    const waiting = api.read<FeedPage>(`/feed?waitFor=${position + 1}&waitSeconds=30`);
    const next = await append(2);
    assert.equal((await waiting).position, next);
  });

  await t.test('states and notifications of a projection have the write that they wait for', async () => {
    const { projectionId: building } = success(
      await api.upload('projections', { 'Totals.cs': totals('Later') }),
      202,
    ).json<{ projectionId: string }>();
    const known = (await api.read<FeedPage>('/feed')).position;
    assert.match(
      problem(await api.get(`/projections/${building}/states?waitFor=${known}&waitSeconds=0`), 503, 'NOT_CAUGHT_UP')
        .detail,
      /not live yet/,
    );
    assert.equal(
      (await api.read<{ states: unknown[] }>(`/projections/${building}/states?waitFor=${known}&waitSeconds=30`)).states
        .length,
      1,
      'it is waited for until it is live',
    );
    const id = await api.deployProjection({ 'Totals.cs': totals() });
    let sum = 3;
    const total = (states: readonly { readonly state: { readonly total: number } }[]): number | undefined =>
      states[0]?.state.total;
    type States = { states: { state: { total: number } }[] };
    for (let n = 3; n < 40; n++) {
      const position = await append(n);
      sum += n;
      const [list, one, changes] = await Promise.all([
        api.read<States>(`/projections/${id}/states?waitFor=${position}`),
        api.read<States>(`/projections/${id}/states/x?waitFor=${position}`),
        api.read<{ notifications: { state: { total: number } }[] }>(
          `/projections/${id}/notifications?limit=1000&waitFor=${position}`,
        ),
      ]);
      assert.deepEqual(
        [total(list.states), total(one.states), changes.notifications.at(-1)?.state.total],
        [sum, sum, sum],
      );
    }
    // An event that no key is for, and one that stops its key, count as included.
    for (const data of [{ key: undefined }, { key: 'x', n: 'no number' }]) {
      const position = await append(1, data);
      assert.equal(total((await api.read<States>(`/projections/${id}/states?waitFor=${position}`)).states), sum);
    }
    const { position } = await api.read<FeedPage>('/feed?limit=1000');
    for (const path of ['states', 'states/x', 'notifications']) {
      const refused = problem(
        await api.get(`/projections/${id}/${path}?waitFor=${position + 1}&waitSeconds=1`),
        503,
        'NOT_CAUGHT_UP',
      );
      assert.equal(refused['position'], position);
      for (const query of ['waitFor=x', 'waitFor=1&waitSeconds=31'])
        problem(await api.get(`/projections/${id}/${path}?${query}`), 400, 'INVALID_REQUEST');
      problem(await api.get(`/projections/nothing/${path}?waitFor=1`), 404, 'NOT_FOUND');
    }
  });
});
