// Fixtures (given, when, then) that the service runs: with code that it does not keep.
import assert from 'node:assert/strict';
import test from 'node:test';
import { noJail } from '../hostile/escape-world.js';
import { Api, form, newTenant, problem, success } from '../support/api.js';
import { tags, tally, totals } from '../support/csharp.js';
import { zipOf } from '../support/zip.js';
import { AS_ADMIN, startService, type Answer } from '../support/service.js';

interface Run {
  readonly status: string;
  readonly passed: number;
  readonly failed: number;
  readonly cut?: string;
  readonly compilationError?: string;
  readonly diagnostics: readonly {
    readonly code: string;
    readonly file: string | null;
    readonly line: number | null;
  }[];
  readonly cases: readonly {
    readonly file: string;
    readonly name: string;
    readonly status: string;
    readonly omitted?: number;
    readonly failures?: readonly {
      readonly kind: string;
      readonly shown?: false;
      readonly given?: boolean;
      readonly key?: string;
      readonly expected?: unknown;
      readonly actual?: unknown;
      readonly message?: string;
      readonly fault?: { readonly message: string; readonly file: string | null; readonly line: number | null };
    }[];
  }[];
}

const counted = (key: string, n: number, eventType = 'Counted'): object => ({
  aggregateId: 'sum-1',
  eventType,
  data: { key, n },
});
const CODE = { 'Totals.cs': totals(), 'Tally.cs': tally('trip') };
/** A state of `data.size` characters under `data.key`. */
const LARGE = `namespace Tests;

public sealed class Large : IProjection<LargeState>
{
    public string? ResolveKey(Event e) => e.Data.GetProperty("key").GetString();

    public LargeState? Apply(LargeState? state, Event e) => new(new string('x', e.Data.GetProperty("size").GetInt32()));
}

public sealed record LargeState(string Text);
`;
const file = (name: string, content: unknown): Record<string, string> => ({
  [`fixtures/${name}`]: typeof content === 'string' ? content : JSON.stringify(content),
});

test('fixtures are run by the service', { skip: noJail }, async (t) => {
  const service = await startService(t, { env: { INSPECTION_DEADLINE_MS: '20000', RUNNER_EVENT_DEADLINE_MS: '1000' } });
  const api = new Api(service);
  const ask = (sources: Record<string, string | Buffer>, fields: Record<string, string> = {}): Promise<Answer> =>
    api.request('POST', '/fixtures/run', { raw: form(sources, fields) });
  const run = async (sources: Record<string, string | Buffer>, fields?: Record<string, string>): Promise<Run> =>
    success(await ask(sources, fields), 200).json<Run>();

  await t.test('those of reducers and of projections, that pass and that do not', async () => {
    const fixtures = [
      {
        name: 'adds',
        projection: 'Totals',
        when: [counted('a', 2), counted('a', 3)],
        then: { states: { a: { total: 5 } } },
      },
      { name: 'adds wrongly', projection: 'Totals', when: [counted('a', 2)], then: { states: { a: { total: 3 } } } },
      {
        name: 'goes on from what is given',
        reducer: 'Tally',
        given: [{ eventType: 'Began' }],
        when: [{ eventType: 'Ended' }],
        then: { state: { count: 2, version: 2, last: 'Ended' } },
      },
      { name: 'throws as it should', projection: 'Totals', when: [counted('a', 1, 'Boom')], then: { fault: 'boom' } },
      { name: 'throws', projection: 'Totals', when: [counted('a', 1, 'Boom')], then: { states: {} } },
      { name: 'for nobody', projection: 'Nobody', when: [counted('a', 1)], then: { states: {} } },
    ];
    const { status, passed, failed, cases, cut } = await run({ ...CODE, ...file('all.json', fixtures) });
    assert.deepEqual([status, passed, failed, cut], ['compiled', 3, 3, undefined]);
    const [, wrong, , , thrown, nobody] = cases;
    assert.deepEqual(wrong?.failures, [{ kind: 'state', key: 'a', expected: { total: 3 }, actual: { total: 2 } }]);
    const fault = thrown?.failures?.find(({ kind }) => kind === 'fault')?.fault;
    assert.deepEqual(
      [fault?.message, fault?.file, fault?.line],
      ['InvalidOperationException: boom at 1', 'Totals.cs', 13],
    );
    assert.match(nobody?.failures?.[0]?.message ?? '', /no projection 'Nobody'; the project has/);
    assert.deepEqual(await api.read('/projections'), { projections: [] }, 'nothing is kept');
    const only = await run({ ...CODE, ...file('all.json', fixtures) }, { only: 'goes on' });
    assert.deepEqual([only.passed, only.failed], [1, 0]);
  });

  await t.test('of a zip, from its folder fixtures alone', async () => {
    const one = { projection: 'Totals', when: [counted('a', 2)], then: { states: { a: { total: 2 } } } };
    const zip = await zipOf({
      'Shop/Totals.cs': totals(),
      'Shop/fixtures/one.json': JSON.stringify(one),
      'Shop/statefold.json': '{}',
    });
    const { cases } = await run({ 'shop.zip': zip });
    assert.deepEqual(
      cases.map(({ file, name, status }) => [file, name, status]),
      [['Shop/fixtures/one.json', 'one 1', 'passed']],
    );
  });

  await t.test('numbers that no double holds are compared and told as they are written', async () => {
    const long = (total: string): string =>
      `{"projection":"Totals","when":[{"aggregateId":"s-1","eventType":"C","data":{"key":"a","n":9007199254740993}}],"then":{"states":{"a":{"total":${total}}}}}`;
    const sources = {
      ...CODE,
      ...file('right.json', long('9007199254740993')),
      ...file('wrong.json', long('9007199254740992')),
    };
    const answer = success(await ask(sources), 200);
    const { passed, failed } = answer.json<Run>();
    assert.deepEqual([passed, failed], [1, 1]);
    assert.match(answer.text, /"expected":\{"total":9007199254740992\},"actual":\{"total":9007199254740993\}/);
  });

  await t.test('code that does not end is stopped, and the cases behind it are run', async () => {
    const fixtures = [
      { name: 'hangs', reducer: 'Tally', when: [{ eventType: 'Hang' }], then: { state: null } },
      {
        name: 'counts',
        reducer: 'Tally',
        when: [{ eventType: 'Once' }],
        then: { state: { count: 1, version: 1, last: 'Once' } },
      },
    ];
    const { cases } = await run({ ...CODE, ...file('all.json', fixtures) });
    assert.deepEqual(
      cases.map(({ name, status }) => [name, status]),
      [
        ['hangs', 'failed'],
        ['counts', 'passed'],
      ],
    );
    assert.match(cases[0]?.failures?.[0]?.fault?.message ?? '', /overran its 1,000 ms/);
  });

  await t.test('large states are told as far as there is room, and of a case too many fail it', async () => {
    const one = (name: string, events: object[]): object => ({ name, when: events, then: { states: {} } });
    const made = (key: string, size: number): object => ({
      aggregateId: 'l-1',
      eventType: 'Made',
      data: { key, size },
    });
    const fixtures = [
      ...Array.from({ length: 7 }, (_, n) => one(`large ${n}`, [made('a', 200_000)])),
      one('too large', [made('a', 200_000), made('b', 200_000)]),
      one('made smaller again', [made('a', 240_000), made('a', 3), made('b', 240_000), made('b', 3)]),
    ];
    const answer = success(await ask({ 'Large.cs': LARGE, ...file('all.json', fixtures) }), 200);
    assert.ok(answer.text.length < 1.5 * 1024 * 1024, `${answer.text.length} characters`);
    const { cases, failed } = answer.json<Run>();
    assert.equal(failed, 9);
    const large = cases.slice(0, 7).flatMap(({ failures = [] }) => failures);
    assert.deepEqual(
      large.map(({ key, actual, shown }) => [key, actual !== undefined, shown]),
      [...Array<unknown>(5).fill(['a', true, undefined]), ...Array<unknown>(2).fill(['a', false, false])],
    );
    const [tooLarge, smaller] = cases.slice(7);
    assert.match(tooLarge?.failures?.[0]?.message ?? '', /states that it makes take more than 262144 bytes/);
    assert.deepEqual(
      smaller?.failures?.map(({ key, actual }) => [key, actual]),
      [
        ['a', { text: 'xxx' }],
        ['b', { text: 'xxx' }],
      ],
    );
  });

  await t.test('what is given, and many keys and aggregates of one case', async () => {
    const tagged = (...names: string[]): object => ({ aggregateId: 't-1', eventType: 'Tagged', data: { tags: names } });
    const began = (aggregateId: string, eventType = 'Began'): object => ({ aggregateId, eventType });
    const state = (count: number, last: string): object => ({ count, version: count, last });
    const fixtures = [
      {
        name: 'keys',
        projection: 'Tags',
        given: [tagged('a'), tagged('b')],
        when: [tagged('a', 'c')],
        then: { states: { a: { count: 2, tag: 'a' }, c: { count: 1, tag: 'c' } } },
      },
      {
        name: 'aggregates',
        reducer: 'Tally',
        given: [began('trip-1'), began('trip-3')],
        when: [began('trip-2'), began('trip-1', 'Ended')],
        then: { states: { 'trip-1': state(2, 'Ended'), 'trip-2': state(1, 'Began') } },
      },
      {
        name: 'the last time that there is',
        reducer: 'Tally',
        when: [{ eventType: 'On', timestamp: '9999-12-31T23:59:59.999Z' }, { eventType: 'Echo' }],
        then: { state: state(2, 'trip-1|trip||||9999-12-31T23:59:59.999Z') },
      },
      {
        name: 'given throws',
        reducer: 'Tally',
        given: [began('trip-1', 'Boom')],
        when: [began('trip-1')],
        then: { fault: 'boom' },
      },
      {
        name: 'a key that stopped takes no more',
        projection: 'Totals',
        when: [counted('a', 2), counted('a', 1, 'Boom'), counted('a', 5), counted('b', 1)],
        then: { faults: { a: 'boom' }, states: { a: { total: 2 }, b: { total: 1 } } },
      },
      {
        name: 'no key',
        projection: 'Tags',
        when: [tagged('a')],
        then: { state: { count: 9, tag: 'a' }, faults: { a: 'never' } },
      },
    ];
    const { cases } = await run({ ...CODE, 'Tags.cs': tags, ...file('all.json', fixtures) });
    assert.deepEqual(
      cases.map(({ name, status, failures = [] }) => [name, status, failures.map(({ kind, given }) => [kind, given])]),
      [
        ['keys', 'passed', []],
        ['aggregates', 'passed', []],
        ['the last time that there is', 'passed', []],
        ['given throws', 'failed', [['fault', true]]],
        ['a key that stopped takes no more', 'passed', []],
        [
          'no key',
          'failed',
          [
            ['fault', false],
            ['state', undefined],
          ],
        ],
      ],
    );
  });

  await t.test('what can’t be run says which file, and where', async () => {
    const refusals: readonly (readonly [Record<string, string>, RegExp])[] = [
      [{}, /The upload has no fixture/],
      [file('a.json', '{'), /^fixtures\/a\.json/],
      [
        file('a.json', [{ name: 'n', when: [], then: { state: null } }]),
        /^fixtures\/a\.json: .*\/when must have an event/,
      ],
      [file('a.json', { when: [counted('a', 1)], them: {} }), /^fixtures\/a\.json: has 'them', which is not known/],
      [file('a.json', '['.repeat(10_000)), /^fixtures\/a\.json: .*nest/],
    ];
    for (const [fixtures, says] of refusals)
      assert.match(problem(await ask({ ...CODE, ...fixtures }), 400, 'INVALID_REQUEST').detail, says);
    const large = file('a.json', `[${' '.repeat(300_000)}]`);
    assert.match(
      problem(await ask({ ...CODE, ...large }), 413, 'PAYLOAD_TOO_LARGE').detail,
      /fixtures\/a\.json goes past/,
    );
    const many = (cases: number, events: number): Record<string, string> =>
      file(
        'a.json',
        Array<object>(cases).fill({ when: Array<object>(events).fill({ eventType: 'C' }), then: { state: 1 } }),
      );
    const tooMany = await ask({ ...CODE, ...many(1001, 1) });
    assert.match(problem(tooMany, 413, 'PAYLOAD_TOO_LARGE').detail, /1001 cases to run, and may have 1000/);
    const tooLong = await ask({ ...CODE, ...many(1, 1001) });
    assert.match(problem(tooLong, 413, 'PAYLOAD_TOO_LARGE').detail, /^fixtures\/a\.json, case 1: has 1001 events/);
    const broken = await run({ 'Totals.cs': totals().replace('Forget"', 'Forget'), ...file('a.json', '{}') }).catch(
      () => undefined,
    );
    assert.equal(broken, undefined, 'a fixture is looked at before the code');
    const one = { projection: 'Totals', when: [counted('a', 2)], then: { states: {} } };
    const failed = await run({ 'Totals.cs': totals().replace('Forget"', 'Forget'), ...file('a.json', one) });
    assert.equal(failed.status, 'failed');
    assert.match(failed.compilationError ?? '', /^Totals\.cs\(\d+,\d+\): error CS\d+/);
    assert.equal(failed.diagnostics[0]?.file, 'Totals.cs');
  });

  await t.test('a key without the scope is refused, and a tenant has one run at a time', async () => {
    const { tenantId } = await api.read<{ tenantId: string }>('/auth/whoami');
    const { apiKey } = (await service.post(`/admin/tenants/${tenantId}/keys`, { scopes: ['read'] }, AS_ADMIN)).json<{
      apiKey: string;
    }>();
    const hangs = file('a.json', [{ reducer: 'Tally', when: [{ eventType: 'Hang' }], then: { state: null } }]);
    const raw = (): FormData => form({ ...CODE, ...hangs });
    problem(await new Api(service, apiKey).request('POST', '/fixtures/run', { raw: raw() }), 403, 'FORBIDDEN');
    const other = new Api(service, await newTenant(service, { name: 'Other' }));
    const answers = await Promise.all([
      api.request('POST', '/fixtures/run', { raw: raw() }),
      api.request('POST', '/fixtures/run', { raw: raw() }),
      other.request('POST', '/fixtures/run', { raw: raw() }),
    ]);
    assert.deepEqual(
      answers
        .slice(0, 2)
        .map(({ status }) => status)
        .sort(),
      [200, 429],
    );
    assert.equal(answers[2]?.status, 200);
  });
});

test('code that does not end has the time of one run, and what ran by then is told', { skip: noJail }, async (t) => {
  const service = await startService(t, { env: { INSPECTION_DEADLINE_MS: '4000', RUNNER_EVENT_DEADLINE_MS: '1000' } });
  const api = new Api(service);
  const hangs = { name: 'hangs', reducer: 'Tally', when: [{ eventType: 'Hang' }], then: { state: null } };
  const counts = {
    name: 'counts',
    reducer: 'Tally',
    when: [{ eventType: 'On' }],
    then: { state: { count: 1, version: 1, last: 'On' } },
  };
  const fixtures = file('all.json', [counts, ...Array<object>(50).fill(hangs)]);
  const asked = (): Promise<Answer> => api.request('POST', '/fixtures/run', { raw: form({ ...CODE, ...fixtures }) });
  const { passed, cut, cases } = success(await asked(), 200).json<Run>();
  assert.equal(passed, 1);
  assert.match(cut ?? '', /4000 ms were over, after \d+ of 51 cases/);
  assert.ok(cases.length < 51, `${cases.length} cases`);
  const again = success(await asked(), 200).json<Run>();
  assert.equal(again.passed, 1, 'the next run begins anew');
});
