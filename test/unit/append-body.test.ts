import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StatefoldError } from '../../src/core/errors.js';
import { parseAppendBody } from '../../src/http/append-body.js';
import { nearestName } from '../../src/http/nearest-name.js';

const LIMITS = { maxDepth: 64, maxEvents: 1000 };
const parse = (body: unknown, batch = false): ReturnType<typeof parseAppendBody> =>
  parseAppendBody(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)), batch, LIMITS);

/** What is wrong with a body, by place. */
function faults(body: unknown, batch = false): Record<string, string> {
  try {
    parse(body, batch);
  } catch (error) {
    assert.ok(error instanceof StatefoldError && error.code === 'INVALID_REQUEST');
    return Object.fromEntries((error.errors ?? []).map(({ pointer, message }) => [pointer, message]));
  }
  return {};
}

const SOUND = { aggregateId: 'a-1', eventType: 'A', data: {} };
const BATCH = { aggregateId: 'a-1', events: [{ eventType: 'A', data: {} }] };

test('a misspelt member is refused with its place and the name that was meant', () => {
  for (const [name, meant] of [
    ['expectedversion', 'expectedVersion'],
    ['expected_version', 'expectedVersion'],
    ['ExpectedVersion', 'expectedVersion'],
    ['correlationID', 'correlationId'],
    ['metaData', 'metadata'],
    ['aggregatetype', 'aggregateType'],
    ['causationid', 'causationId'],
  ] as const) {
    assert.deepEqual(faults({ ...SOUND, [name]: 7 }), {
      [`/${name}`]: `is not a known member; did you mean "${meant}"?`,
    });
    assert.deepEqual(faults({ ...BATCH, [name]: 7 }, true), {
      [`/${name}`]: `is not a known member; did you mean "${meant}"?`,
    });
  }
  assert.deepEqual(faults({ aggregateId: 'a-1', evenType: 'A', data: {} }), {
    '/evenType': 'is not a known member; did you mean "eventType"?',
    '/eventType': 'is required',
  });
  assert.deepEqual(
    faults(
      {
        ...BATCH,
        events: [
          { eventType: 'A', data: {} },
          { eventType: 'A', data: {}, Metadata: {} },
        ],
      },
      true,
    ),
    { '/events/1/Metadata': 'is not a known member; did you mean "metadata"?' },
  );
});

test('a member that is like none is refused with the names that there are', () => {
  assert.match(
    faults({ ...SOUND, tenant: 'x' })['/tenant'] ?? '',
    /^is not a known member; the known ones are aggregateId, eventType, data, /,
  );
  assert.match(
    faults({ ...SOUND, [`${'x'.repeat(5000)}`]: 1 })[`/${'x'.repeat(100)}…`] ?? '',
    /^is not a known member/,
  );
  assert.deepEqual(Object.keys(faults('{"aggregateId":"a-1","eventType":"A","data":{},"a/b~c":1,"":2,"\\u0065x":3}')), [
    '/a~1b~0c',
    '/',
    '/ex',
  ]);
  // What it holds is checked as JSON all the same, and may be anything.
  assert.deepEqual(Object.keys(faults('{"aggregateId":"a-1","eventType":"A","data":{},"tag":{"a":[1,{"b":null}]}}')), [
    '/tag',
  ]);
});

test('what the service assigns, and what is known elsewhere, is refused with what to do instead', () => {
  for (const [name, body, batch] of [
    ['/', SOUND, false],
    ['/', BATCH, true],
  ] as const)
    for (const member of ['eventId', 'version', 'timestamp'])
      assert.match(
        faults({ ...body, [member]: 1 }, batch)[`${name}${member}`] ?? '',
        /^is assigned by the service: leave it out/,
      );
  assert.match(faults({ ...SOUND, version: 3 })['/version'] ?? '', /expectedVersion/);
  assert.match(faults({ ...SOUND, events: [] })['/events'] ?? '', /POST \/events\/batch/);
  for (const member of ['eventType', 'data'])
    assert.match(faults({ ...BATCH, [member]: 'A' }, true)[`/${member}`] ?? '', /elements of events/);
  for (const member of ['aggregateId', 'aggregateType', 'expectedVersion'])
    assert.match(
      faults({ ...BATCH, events: [{ eventType: 'A', data: {}, [member]: 'b-1' }] }, true)[`/events/0/${member}`] ?? '',
      /is of the whole batch/,
    );
  assert.match(
    faults({ ...BATCH, events: [{ eventType: 'A', data: {}, eventId: 'x' }] }, true)['/events/0/eventId'] ?? '',
    /is assigned by the service/,
  );
});

test('an event of a batch may have ids and metadata of its own, checked like those of the batch', () => {
  const { events } = parse(
    '{"aggregateId":"a-1","correlationId":"all","events":[{"eventType":"A","data":{},"metadata":{"n": 1.0},"correlationId":"c","causationId":"d"},{"eventType":"B","data":{}}]}',
    true,
  );
  assert.deepEqual(
    events.map(({ metadata, data, ...event }) => ({ ...event, data: data.toString(), metadata: metadata?.toString() })),
    [
      { eventType: 'A', data: '{}', metadata: '{"n": 1.0}', correlationId: 'c', causationId: 'd' },
      { eventType: 'B', data: '{}', metadata: undefined },
    ],
  );
  assert.deepEqual(
    faults({ ...BATCH, events: [{ eventType: 'A', data: {}, metadata: [], correlationId: 1, causationId: '' }] }, true),
    {
      '/events/0/metadata': 'must be an object',
      '/events/0/correlationId': 'must be a string',
      '/events/0/causationId': 'must have 1 to 256 characters, none of them a control character',
    },
  );
  // Of a member that comes twice the last counts, with its faults.
  assert.equal(
    parse(
      '{"aggregateId":"a-1","events":[{"eventType":"A","data":{},"metadata":1,"metadata":{"x":1}}]}',
      true,
    ).events[0]?.metadata?.toString(),
    '{"x":1}',
  );
});

test('the nearest name: letters and case may differ a little', () => {
  assert.equal(nearestName('ISOLATESECRET', ['url', 'isolateSecret']), 'isolateSecret');
  assert.equal(nearestName('ur', ['url', 'isolateSecret']), 'url');
  for (const far of ['x', 'secret', '', 'x'.repeat(100)])
    assert.equal(nearestName(far, ['url', 'isolateSecret']), undefined);
});
