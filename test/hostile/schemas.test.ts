// A tenant's schemas are meant to cost others their time: the neighbours of one that sends nothing else go on as before.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, newTenant, problem, success } from '../support/api.js';
import { heldBy } from '../support/held.js';
import { startService, until, WATCHED_SERVICE, type RequestOptions } from '../support/service.js';

/** Of the event loop, of a processor: what a slice of work may take. */
const MOST_MS = 50;

/** 2^40 ways through the references. */
const doubling = {
  $ref: '#/$defs/d0',
  $defs: Object.fromEntries(
    Array.from({ length: 41 }, (_, i) => [
      `d${i}`,
      i === 40 ? { type: 'number' } : { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
    ]),
  ),
};
/** Each hands on what the one within has evaluated. */
const handedOn = {
  $ref: '#/$defs/d0',
  unevaluatedItems: true,
  $defs: Object.fromEntries(
    Array.from({ length: 151 }, (_, i) => [
      `d${i}`,
      i === 150 ? { contains: true } : { anyOf: [{ $ref: `#/$defs/d${i + 1}` }] },
    ]),
  ),
};
const text = 'ab'.repeat(30_000);
const ATTACKS: Readonly<Record<string, { readonly schema: unknown; readonly data: object; readonly stored: boolean }>> =
  {
    // What the others are held against.
    Anything: { schema: true, data: { a: 1, text }, stored: true },
    Doubling: { schema: doubling, data: { a: 1 }, stored: false },
    DoublingDeep: {
      schema: {
        ...doubling,
        $ref: '#/$defs/t',
        $defs: { ...doubling.$defs, t: { additionalProperties: { $ref: '#/$defs/d0' } } },
      },
      data: { text, more: {} },
      stored: false,
    },
    Alternatives: {
      schema: { properties: { list: { items: { anyOf: Array.from({ length: 1500 }, (_, i) => ({ const: i })) } } } },
      data: { list: Array.from({ length: 20_000 }, () => -1) },
      stored: false,
    },
    Pattern: {
      schema: { properties: { text: { pattern: '^(([a-z])+.)+[A-Z]([a-z])+$' } } },
      data: { text },
      stored: false,
    },
    Wide: {
      schema: { allOf: Array.from({ length: 1000 }, () => ({ maxProperties: 1e9 })) },
      data: Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`m${i}`, 0])),
      stored: true,
    },
    Unknown: {
      schema: { not: { anyOf: Array.from({ length: 500 }, () => ({ additionalProperties: false })) } },
      data: Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`m${i}`, 0])),
      stored: true,
    },
    HandedOn: {
      schema: { $defs: handedOn.$defs, properties: { list: { ...handedOn, $defs: undefined } } },
      data: { list: Array.from({ length: 60_000 }, () => 0) },
      stored: true,
    },
    Enum: {
      schema: { properties: { one: { enum: Array.from({ length: 6000 }, (_, i) => `v${i}`) } } },
      data: { one: 'v5999' },
      stored: true,
    },
  };

/** What an append of an event is sent with, written once: to write it again for each would hold up the neighbour, who lives in this process. */
const written = (aggregateId: string, eventType: string, data: object): RequestOptions => ({
  raw: JSON.stringify({ aggregateId, eventType, data }),
  headers: { 'content-type': 'application/json' },
});

test('hostile schemas cost their own tenant', async (t) => {
  const service = await startService(t);
  const attacker = new Api(service, await newTenant(service, { tenantId: 'attacker', name: 'A' }));
  const neighbour = new Api(service, await newTenant(service, { tenantId: 'neighbour', name: 'N' }));
  const append = async (): Promise<number> => {
    const began = performance.now();
    await neighbour.append('order-1', 'Placed', { total: 1 });
    return performance.now() - began;
  };
  for (let i = 0; i < 20; i++) await append();

  for (const [eventType, { schema, data, stored }] of Object.entries(ATTACKS)) {
    success(await attacker.put(`/event-types/${eventType}`, { schema }), 200);
    const event = written(`a-${eventType}`, eventType, data);
    const attack = async (): Promise<void> => {
      const answer = await attacker.request('POST', '/events', event);
      if (stored) success(answer, 201);
      else problem(answer, 422, 'SCHEMA_VIOLATION');
    };
    await attack();
    let going = true;
    let attacks = 0;
    const attackers = Array.from({ length: 8 }, async () => {
      while (going) {
        await attack();
        attacks++;
      }
    });
    await until(() => attacks >= 8);
    const times: number[] = [];
    for (let i = 0; i < 30; i++) times.push(await append());
    going = false;
    await Promise.all(attackers);
    times.sort((a, b) => a - b);
    const [median = Infinity, worst = Infinity] = [times[15], times.at(-1)];
    t.diagnostic(
      `${eventType}: ${attacks} attacks; the neighbour's appends took ${median.toFixed(1)} ms, ${worst.toFixed(1)} at most`,
    );
    // What is not bounded takes minutes; a machine that others use too takes its time.
    assert.ok(median < 500 && worst < 5_000, `${eventType}: ${times.map((one) => one.toFixed(0)).join(' ')}`);
  }
});

/** Of a megabyte, about: what takes long to parse, to check, or both. */
const LARGE: Readonly<Record<string, { readonly schema: unknown; readonly data: object }>> = {
  Objects: {
    schema: { properties: { list: { items: { additionalProperties: { type: 'integer' } } } } },
    data: { list: Array.from({ length: 90_000 }, (_, i) => ({ [i.toString(36)]: 0 })) },
  },
  Names: { schema: true, data: Object.fromEntries(Array.from({ length: 90_000 }, (_, i) => [`m${i}`, 0])) },
  Unique: {
    schema: { properties: { list: { uniqueItems: true } } },
    data: { list: Array.from({ length: 150_000 }, (_, i) => i) },
  },
  Numbers: { schema: { properties: { list: { items: { minimum: 0 } } } }, data: { list: Array(450_000).fill(7) } },
};

test(`large events of types with schemas hold the event loop for less than ${MOST_MS} ms, whatever they are made of`, async (t) => {
  const service = await startService(t, { program: WATCHED_SERVICE });
  const tenant = new Api(service, await newTenant(service, { tenantId: 'large', name: 'L' }));
  for (const eventType of Object.keys(LARGE)) {
    const { schema, data } = LARGE[eventType] as { schema: unknown; data: object };
    success(await tenant.put(`/event-types/${eventType}`, { schema }), 200);
    const event = written(`a-${eventType}`, eventType, data);
    // What runs often is compiled.
    for (let i = 0; i < 3; i++) success(await tenant.request('POST', '/events', event), 201);
    await heldBy(service);
    for (let i = 0; i < 5; i++) success(await tenant.request('POST', '/events', event), 201);
    const { slice } = await heldBy(service);
    t.diagnostic(`${eventType}: the longest slice took ${slice.max} ms of a processor`);
    assert.ok(slice.max > 0 && slice.max < MOST_MS, `${eventType}: ${slice.max} ms`);
    // Behind it, as of what is small, all places are told, and nothing is let in.
    success(await tenant.put(`/event-types/${eventType}`, { schema: { required: ['other'] } }), 200);
    const { errors } = problem(await tenant.request('POST', '/events', event), 422, 'SCHEMA_VIOLATION');
    assert.deepEqual(errors, [{ pointer: '/data/other', message: 'is required' }]);
    // The look at those that are stored takes no more.
    await heldBy(service);
    const check = success(
      await tenant.put(`/event-types/${eventType}?check=true`, { schema: { required: ['other'] } }),
      200,
    );
    assert.deepEqual(
      Object.entries(check.json()).filter(([name]) => ['checked', 'unfit'].includes(name)),
      [
        ['checked', 8],
        ['unfit', 8],
      ],
    );
    const looked = (await heldBy(service)).slice;
    assert.ok(looked.max < MOST_MS, `${eventType}: the look at what is stored held it for ${looked.max} ms`);
  }
});

test('the look at stored events gives way to others', async (t) => {
  const service = await startService(t, { env: { INSPECTION_DEADLINE_MS: '2000' } });
  const attacker = new Api(service, await newTenant(service, { tenantId: 'attacker', name: 'A' }));
  const neighbour = new Api(service, await newTenant(service, { tenantId: 'neighbour', name: 'N' }));
  for (let i = 0; i < 40; i++)
    success(
      await attacker.post('/events/batch', {
        aggregateId: 'a-1',
        events: Array.from({ length: 500 }, () => ({ eventType: 'Deep', data: { a: 1 } })),
      }),
      201,
    );
  const check = attacker.put('/event-types/Deep?check=true', { schema: doubling });
  // A second one of the tenant does not wait behind it.
  const times: number[] = [];
  let done = false;
  void check.finally(() => (done = true));
  problem(await attacker.put('/event-types/Deep?check=true', { schema: true }), 429, 'RATE_LIMITED');
  do {
    const began = performance.now();
    await neighbour.append('order-1', 'Placed', {});
    times.push(performance.now() - began);
  } while (!done);
  const { unfit, complete } = success(await check, 200).json<{ unfit: number; complete: boolean }>();
  t.diagnostic(
    `${unfit} looked at, ${times.length} appends of the neighbour meanwhile, ${Math.max(...times).toFixed(1)} ms at most`,
  );
  assert.equal(complete, false);
  assert.ok(unfit > 0);
  assert.ok(times.length > 10, `${times.length}`);
});
