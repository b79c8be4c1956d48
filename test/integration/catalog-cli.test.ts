import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { runProgram } from '../../src/cli/program.js';
import { startService, temporaryDirectory, until, type Service } from '../support/service.js';

interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** The command line as `npx statefold` runs it, with its own streams and environment. */
async function statefold(env: Readonly<Record<string, string>>, args: readonly string[], stdin = ''): Promise<Outcome> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const outputs = Promise.all([text(stdout), text(stderr)]);
  const code = await runProgram(args, { env, stdin: Readable.from([Buffer.from(stdin)]), stdout, stderr });
  stdout.end();
  stderr.end();
  const [out, err] = await outputs;
  return { code, out, err };
}

test('tenants, keys and SQL of a real service, with the admin key that it keeps in its data directory', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  const service: Service = await startService(t, { readStore: true, dataDirectory, env: { STATEFOLD_ADMIN_KEY: '' } });
  const env = { STATEFOLD_DATA_DIR: dataDirectory, STATEFOLD_URL: service.url };
  const ok = async (...args: string[]): Promise<string> => {
    const { code, out, err } = await statefold(env, args);
    assert.equal(code, 0, err);
    return out;
  };
  const fails = async (expected: RegExp, ...args: string[]): Promise<void> => {
    const { code, out, err } = await statefold(env, args);
    assert.equal(code, 1);
    assert.equal(out, '');
    assert.match(err, expected);
  };

  await t.test('tenants', async () => {
    const [, tenantId, apiKey = ''] =
      /^tenantId {2}(\S+)\napiKey {4}(sf_\S+)\n\nexport STATEFOLD_API_KEY=\2\n$/.exec(
        await ok('tenants', 'create', 'acme'),
      ) ?? [];
    assert.equal(tenantId, 'acme');
    assert.deepEqual((await service.get('/auth/whoami', { key: apiKey })).json()['tenantId'], 'acme');
    const made = JSON.parse(await ok('tenants', 'create', 'Größe & Co.', '--json')) as Record<string, string>;
    assert.equal(made['name'], 'Größe & Co.');
    await fails(/ALREADY_EXISTS/, 'tenants', 'create', 'acme');
    await fails(/\(INVALID_REQUEST\)\n {2}\/tenantId must be/, 'tenants', 'create', '--id', 'not a name');
    await fails(/Give the tenant a name/, 'tenants', 'create');
    assert.match(await ok('tenants', 'list'), /^TENANT +NAME +CREATED\n[^]*^acme +acme +20\d\d-/m);
    const ids = (JSON.parse(await ok('tenants', 'list', '--json')) as { tenantId: string }[]).map(
      (tenant) => tenant.tenantId,
    );
    assert.deepEqual(ids.toSorted(), [made['tenantId'], 'acme', 'default'].toSorted());
    await fails(
      /^This deletes the tenant \S+ \(Größe & Co\.\) with its keys.*Nobody is here to be asked: say --yes\.\n$/,
      'tenants',
      'delete',
      made['tenantId'] ?? '',
    );
    await fails(
      /--confirm names acme, and the tenant to delete is/,
      'tenants',
      'delete',
      made['tenantId'] ?? '',
      '--yes',
      '--confirm',
      'acme',
    );
    assert.equal((JSON.parse(await ok('tenants', 'list', '--json')) as unknown[]).length, 3);
    await ok('tenants', 'delete', made['tenantId'] ?? '', '--yes');
    await fails(
      /NOT_FOUND[^]*`statefold tenants list` shows all/,
      'tenants',
      'delete',
      made['tenantId'] ?? '',
      '--yes',
    );
    await fails(/For this one --yes is not enough: add --confirm default\./, 'tenants', 'delete', 'default', '--yes');
    await fails(/Nobody is here to be asked/, 'tenants', 'delete', 'default');
    assert.equal((JSON.parse(await ok('tenants', 'list', '--json')) as unknown[]).length, 2);
  });

  await t.test('keys', async () => {
    const { keyId = '', apiKey = '' } = JSON.parse(await ok('keys', 'create', 'acme', '--json')) as Record<
      string,
      string
    >;
    assert.equal((await service.get('/auth/whoami', { key: apiKey })).status, 200);
    assert.match(
      await ok('keys', 'list', 'acme'),
      new RegExp(`^${keyId} +${apiKey.slice(0, 11)} +- +all +20\\S+ +- +-$`, 'm'),
    );
    await fails(/^This ends the key .* Nobody is here to be asked: say --yes\.\n$/, 'keys', 'revoke', 'acme', keyId);
    await fails(/NOT_FOUND[^]*The tenant comes first, then the key/, 'keys', 'revoke', keyId, 'acme', '--yes');
    assert.equal((await service.get('/auth/whoami', { key: apiKey })).status, 200);
    await ok('keys', 'revoke', 'acme', keyId, '--yes');
    assert.equal((await service.get('/auth/whoami', { key: apiKey })).status, 401);
    assert.match(
      await ok('keys', 'list', 'acme'),
      new RegExp(`^${keyId} +${apiKey.slice(0, 11)} +- +all +20\\S+ +- +20\\S+$`, 'm'),
    );
    await fails(/NOT_FOUND/, 'keys', 'revoke', 'default', keyId, '--yes');
    await fails(/NOT_FOUND/, 'keys', 'list', 'nobody');
  });

  await t.test('sql and the read store', async () => {
    await service.post('/events', { aggregateId: 'account-1', eventType: 'Opened', data: { amount: 12 } });
    await until(async () => /readStore +up/.test((await statefold(env, ['health'])).out));
    await until(
      async () =>
        (
          await statefold(env, [
            'sql',
            "SELECT count() FROM events WHERE tenant = 'default'",
            '--format',
            'TabSeparated',
          ])
        ).out === '1\n',
    );
    assert.match(
      await ok('sql', 'SELECT aggregate_id, data.amount AS amount FROM events', '--format', 'PrettyCompact'),
      /account-1 +│ +12 +│/,
    );
    assert.equal(await ok('sql', 'SELECT aggregate_id FROM events', '--json'), '{"aggregate_id":"account-1"}\n');
    assert.equal((await statefold(env, ['sql'], 'SELECT 1 AS one')).out, 'one\n1\n');
    await fails(/DB::Exception: .*nowhere/s, 'sql', 'SELECT * FROM nowhere');
    // Far more than fits into the buffers on the way.
    const rows = (await ok('sql', 'SELECT number FROM numbers(2000000)', '--format', 'TabSeparated')).split('\n');
    assert.equal(rows.length, 2_000_001);
    assert.equal(rows[1_999_999], '1999999');
    // An answer that fails halfway: what came is written, and the reason told.
    const halfway = await statefold(env, [
      'sql',
      "SELECT throwIf(number = 3000000, 'too far') FROM numbers(4000000)",
      '--format',
      'TabSeparated',
    ]);
    assert.equal(halfway.code, 1);
    assert.match(halfway.err, /too far/);
    assert.doesNotMatch(halfway.out, /__exception__/);
    await fails(
      /^This writes the rows in ClickHouse anew from the log.* Nobody is here to be asked: say --yes\.\n$/,
      'rebuild-read-store',
    );
    await fails(/^This calls off the rebuild .* say --yes\.\n$/, 'rebuild-read-store', '--cancel');
    await fails(/leave --tenant out/, 'rebuild-read-store', '--cancel', '--tenant', 'default', '--yes');
    await fails(/No rebuild of the read store is under way/, 'rebuild-read-store', '--cancel', '--yes');
    // One of so few rows may be through before the command has started.
    await until(async () => {
      assert.match(await ok('rebuild-read-store', '--yes'), /rebuilt/);
      const { code, out, err } = await statefold(env, ['rebuild-read-store', '--cancel', '--yes']);
      if (code === 0) assert.equal(out, 'The rebuild is called off.\n');
      else assert.match(err, /No rebuild of the read store is under way|wait until it is through/);
      return code === 0;
    });
    assert.equal(await ok('rebuild-read-store', '--cancel', '--yes'), 'The rebuild is called off.\n', 'repeated');
    assert.match(await ok('rebuild-read-store', '--yes'), /rebuilt/);
    await until(
      async () =>
        (await statefold(env, ['sql', 'SELECT count() FROM events', '--format', 'TabSeparated'])).out === '1\n',
    );
  });

  await t.test('a wrong admin key', async () => {
    const { code, err } = await statefold(
      { ...env, STATEFOLD_ADMIN_KEY: 'another admin key'.replaceAll(' ', '-') + '-of-length' },
      ['tenants', 'list'],
    );
    assert.equal(code, 1);
    assert.match(err, /refuses the admin key.*STATEFOLD_ADMIN_KEY/);
  });
});
