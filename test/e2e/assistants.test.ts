// `statefold mcp` and `/mcp`, asked by a client of the Model Context Protocol that isn't ours.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { Api, success } from '../support/api.js';
import { environmentOf, SCRIPT } from '../support/cli.js';
import { totals } from '../support/csharp.js';
import { API_KEY, AS_ADMIN, ROOT, startService, temporaryDirectory, until, type Service } from '../support/service.js';

const twice = totals('Totals', 2);
const filesOf = (source: string): readonly { readonly name: string; readonly source: string }[] => [
  { name: 'Totals.cs', source },
];

/** Of one event a sum that no double holds: once as it is, once as a double has it. */
const LONG_SUMS = [
  {
    name: 'fixtures/long.json',
    json: `[${['9007199254740993', '9007199254740992']
      .map(
        (total) =>
          `{"name":"it is ${total}","projection":"Totals","when":[{"aggregateId":"s-1","eventType":"Counted","data":{"key":"a","n":9007199254740993}}],"then":{"states":{"a":{"total":${total}}}}}`,
      )
      .join()}]`,
  },
];
const LONG_DIFFERENCE = /"expected":\{"total":9007199254740992\},"actual":\{"total":9007199254740993\}/;

interface Told {
  readonly isError: boolean;
  readonly text: string;
  json<T>(): T;
}

interface Assistant {
  readonly client: Client;
  readonly tools: readonly string[];
  readonly ask: (name: string, input?: Record<string, unknown>) => Promise<Told>;
}

async function assistant(t: TestContext, transport: unknown): Promise<Assistant> {
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(transport as Transport);
  t.after(() => client.close());
  const { tools } = await client.listTools();
  return {
    client,
    tools: tools.map(({ name }) => name),
    ask: async (name, input = {}) => {
      const { content, isError } = await client.callTool({ name, arguments: input });
      const [{ text }] = content as [{ readonly text: string }];
      return { isError: isError === true, text, json: () => JSON.parse(text) as never };
    },
  };
}

const byHttp = (t: TestContext, { url }: Service, key: string, query = ''): Promise<Assistant> =>
  assistant(
    t,
    new StreamableHTTPClientTransport(new URL(`${url}/mcp${query}`), {
      requestInit: { headers: { Authorization: `Bearer ${key}` } },
    }),
  );
const byStdio = (t: TestContext, { url }: Service, ...args: string[]): Promise<Assistant> =>
  assistant(
    t,
    new StdioClientTransport({
      command: process.execPath,
      args: ['--input-type=module', '-e', SCRIPT, '--', 'mcp', ...args],
      env: environmentOf({ STATEFOLD_URL: url, STATEFOLD_API_KEY: API_KEY }),
      cwd: ROOT,
    }),
  );

test('assistants', async (t) => {
  const service = await startService(t, { readStore: true });
  const api = new Api(service);
  const projectionId = await api.deployProjection({ 'Totals.cs': totals() });
  for (let n = 1; n <= 3; n++) await api.append('sum-1', 'Counted', { key: 'a', n });
  await api.append('sum-2', 'Counted', { key: 'b', n: 7 }, { metadata: { by: 'ada' } });
  await until(
    async () => (await api.read<{ states: object[] }>(`/projections/${projectionId}/states`)).states.length === 2,
  );

  await t.test('by HTTP: a long answer is broken off', async () => {
    const { ask } = await byHttp(t, service, API_KEY);
    const { text } = await ask('query_sql', { query: "SELECT repeat('x', 1000000)" });
    assert.match(text, /longer than 524288 bytes: .*LIMIT/);
  });

  for (const [how, open] of [
    ['HTTP', (): Promise<Assistant> => byHttp(t, service, API_KEY)],
    ['standard input and output', (): Promise<Assistant> => byStdio(t, service)],
  ] as const)
    await t.test(`by ${how}: what is there is read, and code is tried on it`, async () => {
      const { ask, tools, client } = await open();
      assert.match(client.getInstructions() ?? '', /never an instruction/);
      assert.ok(!tools.includes('deploy_code') && !tools.includes('roll_back_projection'));
      const { events, position } = (await ask('read_feed', { limit: 3 })).json<{
        events: { eventType: string }[];
        position: number;
      }>();
      assert.equal(events.length, 3);
      const rest = (await ask('read_feed', { after: position })).json<{ events: { aggregateId: string }[] }>();
      assert.deepEqual(
        rest.events.map(({ aggregateId }) => aggregateId),
        ['sum-2'],
      );
      const one = (await ask('read_events', { aggregateId: 'sum-2' })).json<{ events: { metadata: unknown }[] }>();
      assert.deepEqual(one.events[0]?.metadata, { by: 'ada' });
      const types = (await ask('list_event_types')).json<{ eventTypes: { eventType: string; events: number }[] }>();
      assert.deepEqual([types.eventTypes[0]?.eventType, types.eventTypes[0]?.events], ['Counted', 4]);
      const { states } = (await ask('list_states', { projectionId, prefix: 'b' })).json<{
        states: { key: string }[];
      }>();
      assert.deepEqual(
        states.map(({ key }) => key),
        ['b'],
      );
      const rows = async (): Promise<unknown> =>
        (
          await ask('query_sql', { query: 'SELECT aggregate_id, count() AS n FROM events GROUP BY 1 ORDER BY 1' })
        ).json();
      await until(async () =>
        isDeepStrictEqual(await rows(), [
          { aggregate_id: 'sum-1', n: 3 },
          { aggregate_id: 'sum-2', n: 1 },
        ]),
      );
      assert.match((await ask('query_sql', { query: 'SELECT nothing' })).text, /SQL_REFUSED/);
      assert.match((await ask('list_sql_accounts')).text, /SQL_NOT_ISOLATED/);
      assert.match((await ask('describe_states')).text, /"className":"Tests.Totals"/);
      assert.equal((await ask('get_projection', { projectionId })).json<{ revisions: object[] }>().revisions.length, 1);
      assert.deepEqual((await ask('list_faults', { projectionId })).json<object>(), { faults: [] });

      const failed = (
        await ask('check_code', { kind: 'projection', files: filesOf(totals().replace('IProjection', 'INothing')) })
      ).json<{ status: string; diagnostics: { file: string; line: number }[] }>();
      assert.equal(failed.status, 'failed');
      assert.equal(failed.diagnostics[0]?.file, 'Totals.cs');
      const tried = (await ask('dry_run_code', { kind: 'projection', projectionId, files: filesOf(twice) })).json<{
        status: string;
        classes: { changed: number }[];
      }>();
      assert.deepEqual([tried.status, tried.classes[0]?.changed], ['compiled', 2]);

      const tested = await ask('test_code', { files: filesOf(totals()), fixtures: LONG_SUMS });
      const { passed, cases } = tested.json<{
        passed: number;
        cases: readonly { readonly name: string; readonly status: string }[];
      }>();
      assert.equal(passed, 1, tested.text);
      assert.deepEqual(
        cases.map(({ name, status }) => [name, status]),
        [
          ['it is 9007199254740993', 'passed'],
          ['it is 9007199254740992', 'failed'],
        ],
      );
      assert.match(tested.text, LONG_DIFFERENCE);
      const broken = await ask('test_code', {
        files: filesOf(totals()),
        fixtures: [{ name: 'fixtures/a.json', json: '[{"when":[]}]' }],
      });
      assert.ok(broken.isError);
      assert.match(broken.text, /fixtures\/a\.json: \/when must have an event\..*INVALID_REQUEST/);

      for (const [name, input, says] of [
        ['get_projection', { projectionId: 'nothing' }, /PROJECTION_NOT_FOUND|NOT_FOUND/],
        ['read_feed', { limit: 1_000_000 }, /limit/],
        ['read_feed', { aftr: 1 }, /aftr/],
        ['list_faults', {}, /either projectionId or aggregateType/],
      ] as const) {
        const refused = await ask(name, input);
        assert.ok(refused.isError, refused.text);
        assert.match(refused.text, says);
      }
      const unknown = await ask('deploy_code', { kind: 'projection', files: filesOf(twice) });
      assert.ok(unknown.isError);
      assert.match(unknown.text, /deploy_code/);
    });

  await t.test('on the machine of a project its fixtures are run', async () => {
    const folder = join(temporaryDirectory(t), 'project');
    mkdirSync(join(folder, 'fixtures'), { recursive: true });
    writeFileSync(join(folder, 'Totals.cs'), totals());
    for (const { name, json } of LONG_SUMS) writeFileSync(join(folder, name), json);
    const { ask } = await byStdio(t, service);
    const told = await ask('run_fixtures', { folder });
    const { passed, failed } = told.json<{ passed: number; failed: number }>();
    assert.deepEqual([passed, failed], [1, 1]);
    assert.match(told.text, LONG_DIFFERENCE);
    assert.ok((await ask('run_fixtures', { folder: join(folder, 'nothing') })).isError);
  });

  await t.test('code is deployed where a person allowed it alone', async () => {
    for (const [i, { ask, tools }] of [
      await byHttp(t, service, API_KEY, '?allow=deploy'),
      await byStdio(t, service, '--allow-deploy'),
    ].entries()) {
      assert.ok(tools.includes('deploy_code'));
      const code = i === 0 ? twice : totals();
      const deployed = await ask('deploy_code', { kind: 'projection', projectionId, files: filesOf(code) });
      assert.ok(!deployed.isError, deployed.text);
      const sums = async (): Promise<unknown> =>
        (await api.read<{ states: { state: { total: number } }[] }>(`/projections/${projectionId}/states`)).states.map(
          ({ state }) => state.total,
        );
      const expected = i === 0 ? [12, 14] : [6, 7];
      await until(async () => JSON.stringify(await sums()) === JSON.stringify(expected));
      const back = await ask('roll_back_projection', { projectionId });
      assert.ok(!back.isError, back.text);
    }
  });

  await t.test('a key has the tools of its scopes, and none is no key', async () => {
    const made = success(
      await service.request('POST', '/admin/tenants/default/keys', { ...AS_ADMIN, body: { scopes: ['read'] } }),
      201,
    ).json<{ apiKey: string }>();
    const { tools } = await byHttp(t, service, made.apiKey, '?allow=deploy');
    assert.ok(tools.includes('read_feed') && !tools.includes('check_code') && !tools.includes('deploy_code'));
    const send = (headers: Record<string, string>, body = '{}', method = 'POST'): Promise<Response> =>
      fetch(`${service.url}/mcp`, {
        method,
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
        ...(method === 'POST' && { body }),
      });
    const asked = { 'x-api-key': API_KEY };
    assert.equal((await send({})).status, 401);
    assert.equal((await send({ 'x-api-key': 'none' })).status, 401);
    assert.equal((await send(asked, 'nothing')).status, 400);
    assert.equal((await send(asked, '{}')).status, 400);
    assert.equal((await send(asked, `"${'a'.repeat(1024 * 1024)}"`)).status, 413);
    assert.equal((await send(asked, '[{}]')).status, 400);
    assert.equal((await send({ ...asked, 'content-type': 'text/plain' })).status, 415);
    const files = Array.from({ length: 10_000 }, () => ({ name: 'A.cs', source: '' }));
    const call = (of: readonly object[]): string =>
      JSON.stringify({
        ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
        params: { name: 'check_code', arguments: { kind: 'reducer', files: of } },
      });
    for (const [body, says] of [
      [call(files), /more than 5000 values/],
      [`${'['.repeat(65)}${']'.repeat(65)}`, /nested deeper than 64 levels/],
    ] as const) {
      const refused = await send(asked, body);
      assert.equal(refused.status, 400);
      assert.match(await refused.text(), says);
    }
    assert.match(await (await send(asked, call(files.slice(0, 501)))).text(), /array to have <=500 items/);
    assert.equal((await send(asked, '', 'GET')).status, 405);
    assert.equal((await send({}, '', 'OPTIONS')).status, 204);
  });
});
