// Fixtures (given, when, then) that the service runs: with code that it does not keep.
import assert from 'node:assert/strict';
import test from 'node:test';
import { buffer } from 'node:stream/consumers';
import { ZipArchive } from 'archiver';
import { noJail } from '../hostile/escape-world.js';
import { Api, form, newTenant, problem, success } from '../support/api.js';
import { tally, totals } from '../support/csharp.js';
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
    readonly failures?: readonly {
      readonly kind: string;
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
async function zipOf(files: Readonly<Record<string, string>>): Promise<Buffer> {
  const archive = new ZipArchive();
  for (const [name, text] of Object.entries(files)) archive.append(text, { name });
  const [bytes] = await Promise.all([buffer(archive), archive.finalize()]);
  return bytes;
}
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
