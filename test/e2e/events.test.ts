import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, problem, success, TIMESTAMP, UUIDV7, withoutMoving, type Appended, type Listed } from '../support/api.js';
import { startService, temporaryDirectory } from '../support/service.js';

interface BatchAppended {
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly startVersion: number;
  readonly endVersion: number;
  readonly eventIds: readonly string[];
  readonly timestamp: string;
}

test('events', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  const service = await startService(t, { dataDirectory });
  const api = new Api(service);
  const batch = (aggregateId: string, count: number, rest: object = {}): ReturnType<Api['post']> =>
    api.post('/events/batch', {
      aggregateId,
      events: Array.from({ length: count }, (_, i) => ({ eventType: 'Counted', data: { i } })),
      ...rest,
    });

  await t.test('a single append', async () => {
    const before = Date.now();
    const sent = {
      aggregateId: 'order-1',
      eventType: 'Placed',
      data: { total: 3 },
      correlationId: 'c',
      causationId: 'd',
      metadata: { by: 'ada' },
      expectedVersion: 0,
    };
    const answer = success(await api.post('/events', sent, { headers: { 'x-request-id': 'request.of:ours-1' } }), 201);
    assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
    assert.equal(answer.headers.get('x-request-id'), 'request.of:ours-1');
    const first = answer.json<Appended>();
    assert.deepEqual(Object.keys(first), ['eventId', 'aggregateId', 'aggregateType', 'version', 'timestamp']);
    assert.match(first.eventId, UUIDV7);
    assert.match(first.timestamp, TIMESTAMP);
    assert.ok(Date.parse(first.timestamp) >= before - 1 && Date.parse(first.timestamp) <= Date.now());
    assert.deepEqual([first.aggregateId, first.aggregateType, first.version], ['order-1', 'order', 1]);
    const second = await api.append('order-1', 'Paid');
    assert.equal(second.version, 2);
    assert.ok(second.eventId > first.eventId && second.timestamp >= first.timestamp);
    const { events, nextVersion } = await api.read<Listed>('/events/order-1');
    assert.equal(nextVersion, undefined);
    assert.deepEqual(events, [
      {
        eventId: first.eventId,
        aggregateId: 'order-1',
        eventType: 'Placed',
        data: { total: 3 },
        version: 1,
        timestamp: first.timestamp,
      },
      {
        eventId: second.eventId,
        aggregateId: 'order-1',
        eventType: 'Paid',
        data: {},
        version: 2,
        timestamp: second.timestamp,
      },
    ]);
  });

  await t.test('a batch is numbered without a gap, and is all or none', async () => {
    await api.append('batch-1', 'Opened');
    const answer = success(
      await batch('batch-1', 3, {
        expectedVersion: 1,
        aggregateType: 'batch',
        correlationId: 'c',
        causationId: 'd',
        metadata: {},
      }),
      201,
    ).json<BatchAppended>();
    assert.deepEqual(Object.keys(answer), [
      'aggregateId',
      'aggregateType',
      'startVersion',
      'endVersion',
      'eventIds',
      'timestamp',
    ]);
    assert.deepEqual(
      [answer.aggregateId, answer.aggregateType, answer.startVersion, answer.endVersion],
      ['batch-1', 'batch', 2, 4],
    );
    const { events } = await api.read<Listed>('/events/batch-1?fromVersion=2');
    assert.deepEqual(
      events.map(({ eventId }) => eventId),
      answer.eventIds,
    );
    assert.deepEqual(new Set(events.map(({ timestamp }) => timestamp)), new Set([answer.timestamp]));
    assert.equal(new Set(answer.eventIds).size, 3);
    const refused = problem(
      await api.post('/events/batch', {
        aggregateId: 'batch-1',
        events: [{ eventType: 'Good', data: {} }, { eventType: 'Bad', data: [] }, { data: {} }],
      }),
      400,
      'INVALID_REQUEST',
    );
    assert.deepEqual(refused['errors'], [
      { pointer: '/events/1/data', message: 'must be an object' },
      { pointer: '/events/2/eventType', message: 'is required' },
    ]);
    problem(await batch('batch-1', 2, { expectedVersion: 3 }), 409, 'VERSION_CONFLICT');
    assert.equal((await api.read<Listed>('/events/batch-1')).events.length, 4);
    problem(await batch('batch-1', 0), 400, 'INVALID_REQUEST');
    assert.match(problem(await batch('batch-1', 1001), 400, 'INVALID_REQUEST').detail, /1000/);
    assert.equal(success(await batch('batch-2', 1000), 201).json<BatchAppended>().endVersion, 1000);
    // The path of batches is a name like any other to who reads.
    await api.append('batch', 'Opened');
    assert.equal((await api.read<Listed>('/events/batch')).events.length, 1);
  });

  for (const id of ['paged-1', `paged-${'l'.repeat(200)}`])
    await t.test(
      `listing pages both ways over the borders of batches of an id of ${id.length} characters`,
      async () => {
        for (const count of [1, 7, 1, 9, 4, 2, 1]) success(await batch(id, count), 201);
        const all = Array.from({ length: 25 }, (_, i) => i + 1);
        const versions = async (query: string): Promise<number[]> =>
          (await api.read<Listed>(`/events/${id}?${query}`)).events.map(({ version }) => version);
        const follow = async (query: string): Promise<number[]> => {
          const found: number[] = [];
          for (let from: number | undefined, pages = 0; pages < 40; pages++) {
            const { events, nextVersion } = await api.read<Listed>(
              `/events/${id}?${query}${from === undefined ? '' : `&fromVersion=${from}`}`,
            );
            found.push(...events.map(({ version }) => version));
            if (nextVersion === undefined) return found;
            assert.equal(Math.abs(nextVersion - (found.at(-1) ?? 0)), 1);
            from = nextVersion;
          }
          throw new Error(`no end of pages: ${found.join()}`);
        };
        for (const limit of [1, 4, 5, 25, 10_000]) {
          assert.deepEqual(await follow(`limit=${limit}`), all, `limit ${limit}`);
          assert.deepEqual(
            await follow(`direction=backward&limit=${limit}`),
            all.toReversed(),
            `backward, limit ${limit}`,
          );
        }
        assert.deepEqual(await versions('fromVersion=8&toVersion=10'), [8, 9, 10]);
        assert.deepEqual(await versions('fromVersion=10&toVersion=8'), []);
        assert.deepEqual(await versions('direction=backward&fromVersion=10&toVersion=8'), [10, 9, 8]);
        assert.deepEqual(await follow('toVersion=6&limit=4'), [1, 2, 3, 4, 5, 6]);
        assert.deepEqual(await follow('direction=backward&toVersion=20&limit=4'), [25, 24, 23, 22, 21, 20]);
        assert.deepEqual(await versions('fromVersion=26'), []);
        assert.deepEqual(await versions('direction=backward&fromVersion=99&limit=2'), [25, 24]);
        assert.equal((await api.read<Listed>(`/events/${id}?limit=4&toVersion=4`)).nextVersion, undefined);
        for (const query of [
          'limit=0',
          'limit=10001',
          'limit=x',
          'limit=1&limit=2',
          'fromVersion=-1',
          'fromVersion=1.5',
          'toVersion=',
          'direction=sideways',
          'limit=%31%00',
        ])
          problem(await api.get(`/events/${id}?${query}`), 400, 'INVALID_REQUEST');
        problem(await api.get('/events/nobody-1'), 404, 'NOT_FOUND');
      },
    );

  await t.test('the default page has 1,000 events', async () => {
    await api.append('batch-2', 'Closed');
    const page = await api.read<Listed>('/events/batch-2');
    assert.deepEqual([page.events.length, page.nextVersion], [1000, 1001]);
  });

  await t.test('expectedVersion of every kind', async () => {
    const append = (expectedVersion: unknown, query = ''): ReturnType<Api['post']> =>
      api.post(`/events${query}`, {
        aggregateId: 'expect-1',
        eventType: 'Tried',
        data: { expectedVersion },
        expectedVersion,
      });
    const refused = async (expectedVersion: unknown, currentVersion: number): Promise<void> => {
      const conflict = problem(await append(expectedVersion), 409, 'VERSION_CONFLICT');
      assert.deepEqual(
        [conflict['expectedVersion'], conflict['currentVersion'], conflict['conflicts']],
        [expectedVersion, currentVersion, undefined],
      );
    };
    await refused('exists', 0);
    await refused(1, 0);
    const empty = problem(await append(7, '?includeConflicts=true'), 409, 'VERSION_CONFLICT');
    assert.deepEqual(empty['conflicts'], []);
    problem(await api.get('/events/expect-1'), 404, 'NOT_FOUND');
    success(await append('none'), 201);
    for (const wrong of ['none', 0, 2]) await refused(wrong, 1);
    for (const right of [1, 'exists', 'any', undefined, 5]) success(await append(right), 201);
    const since = problem(await append(3, '?includeConflicts=true'), 409, 'VERSION_CONFLICT');
    const { events } = await api.read<Listed>('/events/expect-1');
    assert.deepEqual(
      since['conflicts'],
      events.filter(({ version }) => version > 3),
    );
    assert.equal(problem(await append(3, '?includeConflicts=false'), 409, 'VERSION_CONFLICT')['conflicts'], undefined);
    assert.equal(
      (problem(await append('none', '?includeConflicts=true'), 409, 'VERSION_CONFLICT')['conflicts'] as object[])
        .length,
      6,
    );
    for (const kind of ['3', 'ANY', '', -1, 1.5, 1e300, null, true, [], {}]) {
      const bad = problem(await append(kind), 400, 'INVALID_REQUEST');
      assert.equal((bad['errors'] as { pointer: string }[])[0]?.pointer, '/expectedVersion');
    }
    problem(await append(6, '?includeConflicts=1'), 400, 'INVALID_REQUEST');
    assert.equal((await api.read<Listed>('/events/expect-1')).events.length, 6);
  });

  await t.test('of racers with the same expectation one wins; without one all are numbered', async () => {
    const race = await Promise.all(
      Array.from({ length: 16 }, (_, i) =>
        api.post('/events', { aggregateId: 'race-1', eventType: 'Ran', data: { i }, expectedVersion: 0 }),
      ),
    );
    const won = race.filter(({ status }) => status === 201);
    assert.equal(won.length, 1);
    for (const lost of race.filter((one) => one !== won[0]))
      assert.equal(problem(lost, 409, 'VERSION_CONFLICT')['currentVersion'], 1);
    const [winner] = (await api.read<Listed>('/events/race-1')).events;
    assert.equal(winner?.eventId, won[0]?.json<Appended>().eventId);
    const free = await Promise.all(
      Array.from({ length: 40 }, (_, i) => (i % 4 === 0 ? batch('race-2', 3) : batch('race-2', 1))),
    );
    const ranges = free
      .map((answer) => success(answer, 201).json<BatchAppended>())
      .sort((a, b) => a.startVersion - b.startVersion);
    let next = 1;
    for (const { startVersion, endVersion } of ranges) {
      assert.equal(startVersion, next);
      next = endVersion + 1;
    }
    const { events } = await api.read<Listed>('/events/race-2');
    assert.deepEqual(
      events.map(({ eventId }) => eventId),
      ranges.flatMap(({ eventIds }) => eventIds),
    );
    assert.deepEqual(
      events.map(({ timestamp }) => timestamp),
      events.map(({ timestamp }) => timestamp).sort(),
    );
  });

  let kept: { readonly answer: string; readonly batch: string } | undefined;
  const keyed = (aggregateId: string, data: object, key = 'key-1', rest: object = {}): ReturnType<Api['post']> =>
    api.post('/events', { aggregateId, eventType: 'Once', data, ...rest }, { headers: { 'idempotency-key': key } });
  const keyedBatch = (client: Api): ReturnType<Api['post']> =>
    client.post(
      '/events/batch',
      {
        aggregateId: 'once-1',
        events: [
          { eventType: 'A', data: {} },
          { eventType: 'B', data: {} },
        ],
      },
      { headers: { 'idempotency-key': 'key-2' } },
    );

  await t.test('a repeated Idempotency-Key is answered as the first time', async () => {
    const first = success(await keyed('once-1', { n: 1 }), 201);
    assert.equal(success(await keyed('once-1', { n: 1 }), 201).text, first.text);
    const reused = problem(await keyed('once-1', { n: 2 }), 409, 'IDEMPOTENCY_KEY_REUSED');
    assert.equal(reused['retryable'], undefined);
    // Another aggregate, another scope.
    assert.equal(success(await keyed('once-2', { n: 1 }), 201).json<Appended>().version, 1);
    const twice = success(await keyedBatch(api), 201);
    assert.equal((await keyedBatch(api)).text, twice.text);
    // The same key on the other path is another request.
    problem(await keyed('once-1', {}, 'key-2'), 409, 'IDEMPOTENCY_KEY_REUSED');
    const together = await Promise.all(Array.from({ length: 8 }, () => keyed('once-3', { n: 3 })));
    assert.equal(new Set(together.map((one) => success(one, 201).text)).size, 1);
    assert.equal((await api.read<Listed>('/events/once-3')).events.length, 1);
    // A refusal is not remembered, and a replay goes before the version check.
    problem(await keyed('once-4', {}, 'key-3', { expectedVersion: 1 }), 409, 'VERSION_CONFLICT');
    await api.append('once-4', 'Opened');
    const later = success(await keyed('once-4', {}, 'key-3', { expectedVersion: 1 }), 201);
    await api.append('once-4', 'More');
    assert.equal(success(await keyed('once-4', {}, 'key-3', { expectedVersion: 1 }), 201).text, later.text);
    success(await keyed('once-5', {}, 'k'.repeat(255)), 201);
    for (const key of ['k'.repeat(256), 'caf\u00e9', ''])
      problem(await keyed('once-5', {}, key), 400, 'INVALID_REQUEST');
    kept = { answer: first.text, batch: twice.text };
  });

  await t.test('the type is the stored one, or what the id begins with', async () => {
    const typed = async (aggregateId: string): Promise<string> =>
      (await api.append(aggregateId, 'Opened')).aggregateType;
    for (const [id, type] of [
      ['a.b-1', 'a.b'],
      ['cart_1', 'cart'],
      ['user:1', 'user'],
      ['x/y', 'x'],
      ['plain', 'default'],
      ['-dash', 'default'],
      ['na\u00efve-1', 'default'],
      [`${'t'.repeat(129)}-1`, 'default'],
      [`${'t'.repeat(128)}-1`, 't'.repeat(128)],
    ] as const)
      assert.equal(await typed(id), type, id);
    assert.equal(
      (await api.append('cart-9', 'Opened', {}, { aggregateType: 'Basket_1.x-y' })).aggregateType,
      'Basket_1.x-y',
    );
    assert.equal((await api.append('cart-9', 'More')).aggregateType, 'Basket_1.x-y');
    const mismatch = problem(
      await api.post('/events', { aggregateId: 'cart-9', eventType: 'More', data: {}, aggregateType: 'cart' }),
      409,
      'AGGREGATE_TYPE_MISMATCH',
    );
    assert.match(mismatch.detail, /Basket_1\.x-y/);
    for (const aggregateType of ['', 'a b', 'caf\u00e9', 't'.repeat(129), 1, null])
      problem(
        await api.post('/events', { aggregateId: 'cart-10', eventType: 'More', data: {}, aggregateType }),
        400,
        'INVALID_REQUEST',
      );
  });

  await t.test('ids and event types at their limits', async () => {
    const longest = `\u00e9${'\u{1f600}'.repeat(127)}x`;
    assert.equal(longest.length, 256);
    const { version } = success(
      await api.post('/events', { aggregateId: longest, eventType: longest, data: {} }),
      201,
    ).json<Appended>();
    assert.equal(version, 1);
    assert.equal((await api.read<Listed>(`/events/${encodeURIComponent(longest)}`)).events[0]?.eventType, longest);
    for (const id of ['a/b?c#d%e f', '...', '.a', '%2e', '__proto__', 'constructor', '\u2028', '"\\']) {
      await api.append(id, '__proto__', {}, { correlationId: id, causationId: id });
      assert.equal((await api.read<Listed>(`/events/${encodeURIComponent(id)}`)).events[0]?.aggregateId, id);
    }
    // No client could ask for them: a URL takes such a part of its path out.
    for (const bad of ['.', '..'])
      for (const field of ['aggregateId', 'aggregateType', 'eventType']) {
        const body = { aggregateId: 'bad-1', eventType: 'Bad', data: {}, [field]: bad };
        const refused = problem(await api.post('/events', body), 400, 'INVALID_REQUEST');
        assert.deepEqual(refused['errors'], [
          { pointer: `/${field}`, message: 'must not be . or .., which no path of a URL can hold' },
        ]);
      }
    assert.equal((await api.append('..-1', 'Bad', {})).aggregateType, 'default');
    for (const bad of ['', 'x'.repeat(257), 'a\u0000b', 'a\nb', '\u007f', '\u0085'])
      for (const field of ['aggregateId', 'eventType', 'correlationId', 'causationId']) {
        const refused = problem(
          await api.post('/events', { aggregateId: 'bad-1', eventType: 'Bad', data: {}, [field]: bad }),
          400,
          'INVALID_REQUEST',
        );
        assert.equal((refused['errors'] as { pointer: string }[])[0]?.pointer, `/${field}`);
      }
    problem(await api.get('/events/bad-1'), 404, 'NOT_FOUND');
  });

  await t.test('aggregates and their types are listed', async () => {
    interface Aggregates {
      aggregates: { aggregateId: string; aggregateType: string; version: number; lastModified: string }[];
      nextCursor?: string;
    }
    const all = async (query: string): Promise<Aggregates['aggregates']> => {
      const found: Aggregates['aggregates'] = [];
      for (let cursor = ''; ;) {
        const page = await api.read<Aggregates>(`/aggregates?limit=5${query}${cursor}`);
        found.push(...page.aggregates);
        if (page.nextCursor === undefined) return found;
        assert.equal(page.aggregates.length, 5);
        cursor = `&cursor=${encodeURIComponent(page.nextCursor)}`;
      }
    };
    const everything = await all('');
    assert.equal(new Set(everything.map(({ aggregateId }) => aggregateId)).size, everything.length);
    const once = await all('&type=once');
    assert.deepEqual(
      once.map(({ aggregateId }) => aggregateId),
      ['once-1', 'once-2', 'once-3', 'once-4', 'once-5'],
    );
    assert.deepEqual(
      once,
      everything.filter(({ aggregateType }) => aggregateType === 'once'),
    );
    const [last] = (await api.read<Listed>('/events/once-4?direction=backward&limit=1')).events;
    assert.deepEqual(once[3], {
      aggregateId: 'once-4',
      aggregateType: 'once',
      version: 3,
      lastModified: last?.timestamp,
    });
    assert.deepEqual(await all('&type=nothing'), []);
    const { aggregateTypes } = await api.read<{ aggregateTypes: { aggregateType: string; aggregates: number }[] }>(
      '/aggregate-types',
    );
    assert.equal(aggregateTypes.find(({ aggregateType }) => aggregateType === 'once')?.aggregates, 5);
    const page = await api.read<{ aggregateTypes: object[]; nextCursor: string }>('/aggregate-types?limit=2');
    assert.deepEqual(
      [
        withoutMoving(page.aggregateTypes),
        withoutMoving(
          (await api.read<{ aggregateTypes: object[] }>(`/aggregate-types?limit=1000&cursor=${page.nextCursor}`))
            .aggregateTypes,
        ),
      ],
      [withoutMoving(aggregateTypes.slice(0, 2)), withoutMoving(aggregateTypes.slice(2))],
    );
    assert.equal(
      aggregateTypes.reduce((sum, { aggregates }) => sum + aggregates, 0),
      everything.length,
    );
    for (const query of ['cursor=x', 'cursor=', 'limit=0', 'limit=1001', 'type=a%20b', 'type=a&type=b'])
      problem(await api.get(`/aggregates?${query}`), 400, 'INVALID_REQUEST');
  });

  await t.test('a killed service knows all of it again, keys too', async () => {
    const long = `/events/paged-${'l'.repeat(200)}?fromVersion=20&direction=backward`;
    const before = [await api.get('/events/race-2'), await api.get(long)];
    await service.kill();
    const again = new Api(await startService(t, { dataDirectory }));
    assert.deepEqual(
      [await again.get('/events/race-2'), await again.get(long)].map(({ text }) => text),
      before.map(({ text }) => text),
    );
    assert.equal(
      success(
        await again.post(
          '/events',
          { aggregateId: 'once-1', eventType: 'Once', data: { n: 1 } },
          { headers: { 'idempotency-key': 'key-1' } },
        ),
        201,
      ).text,
      kept?.answer,
    );
    assert.equal(success(await keyedBatch(again), 201).text, kept?.batch);
    assert.equal((await again.append('race-2', 'After')).version, 61);
  });
});
