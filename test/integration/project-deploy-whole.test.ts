// A deployment is all or nothing: what the service would refuse is told by the plan, and a step that fails takes those before it back.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { runProgram } from '../../src/cli/program.js';
import type { CliOutcome } from '../support/cli.js';
import { openHost, projectRoot } from './code-host-fixture.js';
import { Receiver } from '../support/api-channels.js';
import { API_KEY, startService, temporaryDirectory, until } from '../support/service.js';

function edit(path: string, from: string, to: string): void {
  const text = readFileSync(path, 'utf8');
  assert.ok(text.includes(from), `${path} has '${from}'`);
  writeFileSync(path, text.replace(from, to));
}

interface Between {
  readonly url: string;
  /** Answers these requests itself, with 503; undefined: none. */
  failing: RegExp | undefined;
}

/** Stands between the command line and a service, as a proxy that fails some requests. */
async function between(t: TestContext, target: string): Promise<Between> {
  const state = { url: '', failing: undefined as RegExp | undefined };
  const pass = (request: IncomingMessage, response: ServerResponse): void => {
    if (state.failing?.test(`${request.method} ${request.url}`) === true) {
      request
        .resume()
        .once('end', () =>
          response
            .writeHead(503, { 'Content-Type': 'application/problem+json' })
            .end(JSON.stringify({ status: 503, code: 'UNAVAILABLE', detail: 'it is away' })),
        );
      return;
    }
    const onward = httpRequest(target + request.url, { method: request.method, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onward.once('error', () => response.destroy());
    request.pipe(onward);
  };
  const server = createServer(pass).listen(0, '127.0.0.1');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  state.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return state;
}

interface Status {
  readonly revision: number;
  readonly sse: boolean;
  readonly live?: { readonly revision: number };
  readonly webhook?: { readonly url: string; readonly isolated: boolean };
}

test('a deployment is all or nothing', async (t) => {
  const cwd = temporaryDirectory(t);
  const service = await startService(t);
  const receiver = await Receiver.open(t);
  const proxy = await between(t, service.url);
  // One compiler for all deployments: a process of its own for each is what other tests have.
  const { host, close } = openHost();
  t.after(close);
  const tools = {
    openCodeHost: () => ({ host, close: () => Promise.resolve() }),
    copyPackages: () => undefined,
    templateDirectory: join(projectRoot, 'templates', 'project'),
    version: '0.0.0',
  };
  const run = async (...args: string[]): Promise<CliOutcome> => {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const said = Promise.all([text(stdout), text(stderr)]);
    const code = await runProgram(
      args.map((arg, index) => (index === 0 || arg.startsWith('-') ? arg : join(cwd, arg))),
      {
        env: { STATEFOLD_URL: proxy.url, STATEFOLD_API_KEY: API_KEY },
        stdin: Readable.from([]),
        stdout,
        stderr,
        tools,
      },
    );
    stdout.end();
    stderr.end();
    const [out, err] = await said;
    return { code, out, err };
  };
  const ok = async (...args: string[]): Promise<string> => {
    const { code, out, err } = await run(...args);
    assert.equal(code, 0, out + err);
    return out;
  };
  const folder = join(cwd, 'shop');
  const manifest = (notifications: unknown): void =>
    writeFileSync(join(folder, 'statefold.json'), JSON.stringify({ notifications }));
  const reducers = async (): Promise<number> =>
    (await service.get('/reducers')).json<{ reducers: unknown[] }>().reducers.length;
  const projections = async (): Promise<{ id: string }[]> =>
    (await service.get('/projections')).json<{ projections: { id: string }[] }>().projections;
  let id = '';
  const status = async (): Promise<Status> => (await service.get(`/projections/${id}/status`)).json<Status>();
  const state = async (): Promise<unknown> =>
    (await service.get('/aggregate-types/order/order-1/state')).json()['state'];
  await ok('new', 'shop');
  const append = async (aggregateId: string, eventType: string, data: object): Promise<void> =>
    assert.equal((await service.post('/events', { aggregateId, eventType, data })).status, 201);
  await append('order-1', 'Placed', { customer: 'Ada' });
  await append('order-1', 'LineAdded', { product: 'tea', quantity: 2, price: 350 });

  await t.test('the plan says what the service would refuse, and nothing is changed', async () => {
    const cases: [notifications: unknown, expected: RegExp][] = [
      [{ webhook: { url: 'ftp://example.com' } }, /^statefold\.json: .*\(WEBHOOK_URL_REFUSED\)$/m],
      [
        { webhok: { url: receiver.url } },
        /^statefold\.json: notifications is invalid: \/notifications\/webhok is not a known member; did you mean "webhook"\? \(INVALID_REQUEST\)$/m,
      ],
      [
        { webhook: { url: receiver.url, secret: 'x' } },
        /^statefold\.json: .*\/notifications\/webhook\/secret is not a known member/m,
      ],
      [{ sse: 'yes' }, /^statefold\.json: .*\/notifications\/sse must be true or false/m],
    ];
    for (const [notifications, expected] of cases) {
      manifest(notifications);
      for (const args of [
        ['deploy', 'shop', '--plan'],
        ['deploy', 'shop', '--yes', '--force'],
      ]) {
        const { code, out } = await run(...args);
        assert.equal(code, 1, out);
        assert.match(out, expected);
        assert.match(out, /\nNothing was deployed\. Mend it and run this again\.\n$/);
      }
    }
    assert.deepEqual([await reducers(), await projections()], [0, []]);
    assert.equal((await service.get('/aggregate-types/order')).status, 404);
  });

  await t.test('a webhook secret is shown when it is made, and is in the JSON', async () => {
    manifest({ webhook: { url: `${receiver.url}/hook` }, isolateSecret: true, sse: true });
    const first = await ok('deploy', 'shop', '--yes');
    const [, secret = ''] =
      /^webhook: signed with (whsec_\S+) \(the projection's own secret, shown only now\)$/m.exec(first) ?? [];
    assert.match(secret, /^whsec_/, first);
    [{ id = '' } = {}] = await projections();
    edit(join(folder, 'Customers.cs'), '<param name="LastOrder">', '<param name="LastOrder">Which: ');
    const again = await run('deploy', 'shop', '--yes', '--json');
    assert.equal(again.code, 0, again.err);
    assert.deepEqual((JSON.parse(again.out) as { webhook: unknown }).webhook, {
      url: `${receiver.url}/hook`,
      secret,
      isolated: true,
    });
    assert.doesNotMatch(again.err, /whsec_/);
  });

  await t.test('a webhook that is not named stays, and null removes it, without a revision', async () => {
    const { revision } = await status();
    manifest({ sse: true });
    const stays = await ok('deploy', 'shop', '--yes');
    assert.match(
      stays,
      /^ {2}webhook http\S+\/hook stays, though statefold\.json does not name it; "webhook": null in notifications removes it$/m,
    );
    assert.match(stays, /: unchanged, the code is that of revision 2\n/);
    assert.deepEqual((await status()).webhook, { url: `${receiver.url}/hook`, isolated: true });
    edit(join(folder, 'Customers.cs'), 'Which: ', 'Which it is: ');
    await ok('deploy', 'shop', '--yes');
    assert.deepEqual(
      [(await status()).webhook, (await status()).revision],
      [{ url: `${receiver.url}/hook`, isolated: true }, revision + 1],
      'it stays when the code changes too',
    );
    manifest({ webhook: null, sse: true });
    assert.match(await ok('deploy', 'shop', '--plan'), /^ {2}webhook http\S+\/hook is removed$/m);
    assert.equal((await status()).webhook?.url, `${receiver.url}/hook`);
    await ok('deploy', 'shop', '--yes');
    assert.deepEqual(
      [(await status()).webhook, (await status()).revision],
      [{ isolated: true }, revision + 1],
      'the URL is gone; the own secret is kept for the next one',
    );
  });

  await t.test('when the reducers can not be uploaded, the projection is as it was', async () => {
    const before = await status();
    edit(join(folder, 'OrderReducer.cs'), 'line.Quantity * line.Price', 'line.Quantity * line.Price * 2');
    edit(join(folder, 'Customers.cs'), '?? 0) + 1', '?? 0) + 10');
    manifest({ webhook: { url: `${receiver.url}/other` }, sse: false });
    proxy.failing = /^POST \/reducers\/upload/;
    const { code, err } = await run('deploy', 'shop', '--yes', '--force');
    proxy.failing = undefined;
    assert.equal(code, 1);
    assert.match(
      err,
      new RegExp(
        `^it is away \\(UNAVAILABLE\\)\\n.*\\nThe notifications of projection ${id} are as they were\\.\\nProjection ${id} is back at the code of revision ${before.revision}, as revision ${before.revision + 2}\\.\\n$`,
      ),
    );
    const after = await status();
    assert.deepEqual([after.webhook, after.sse], [before.webhook, before.sse]);
    assert.equal(
      (await service.get(`/projections/${id}/states/Ada`)).json<{ states: { state: { orders: number } }[] }>().states[0]
        ?.state.orders,
      1,
    );
    assert.equal(((await state()) as { total: number }).total, 700);
  });

  await t.test('when code can not go on behind its binding, what was bound before is bound again', async () => {
    const bound = (await service.get('/aggregate-types/order')).json()['reducerId'];
    // What waits for the catch-up is told that it is away: the types are bound by then.
    proxy.failing = /^GET \/aggregate-types\/order$/;
    const { code, err } = await run('deploy', 'shop', '--yes', '--force');
    proxy.failing = undefined;
    assert.equal(code, 1);
    assert.match(err, /\norder is bound to Shop\.OrderReducer \(\S+\) again\.\nThe notifications of projection/);
    assert.equal((await service.get('/aggregate-types/order')).json()['reducerId'], bound);
    await until(async () => ((await state()) as { total: number }).total === 700);
  });

  await t.test('a new projection is gone again, and what can not be taken back is told', async () => {
    await ok('new', 'other');
    for (const file of ['OrderReducer.cs', 'fixtures/order.json'])
      edit(join(cwd, 'other', file), 'OrderReducer', 'InvoiceReducer');
    proxy.failing = /^GET \/aggregate-types\/invoice$/;
    const { code, err } = await run('deploy', 'other', '--yes', '--force');
    proxy.failing = undefined;
    assert.equal(code, 1);
    assert.match(
      err,
      /\ninvoice had no reducer before, and stays bound to Other\.InvoiceReducer \(\S+\): mend the code and deploy it again\.\nThe new projection \S+ is deleted again\.\n$/,
    );
    assert.deepEqual(
      (await projections()).map((one) => one.id),
      [id],
    );
  });

  await t.test('a folder of tests beside the sources is not part of it', async () => {
    for (const [path, text] of [
      ['tests/Broken.cs', 'this is not C#'],
      ['Other.Specs/Specs.csproj', '<Project/>'],
      ['Other.Specs/More.cs', 'nor is this'],
    ] as const) {
      mkdirSync(join(folder, path, '..'), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    assert.match(await ok('deploy', 'shop', '--plan', '--force'), /^shop, 3 source files, to/);
  });
});
