import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StartupError } from '../../src/core/startup-error.js';
import { describeStartFailure } from '../../src/app/start-failure.js';
import { welcome, type WelcomeOptions } from '../../src/app/welcome.js';

const root = '/opt/checkout';
const service = {
  url: 'http://127.0.0.1:8080',
  jailed: 'Jailed.',
  newApiKey: undefined,
  hasDefaultTenant: true,
  fixedKey: undefined,
} as const;
const settings = { host: '127.0.0.1', dataDirectory: './data', adminKey: undefined };

function said(
  changes: {
    service?: Partial<WelcomeOptions['service']>;
    settings?: Partial<WelcomeOptions['settings']>;
    directory?: string;
    warnings?: readonly string[];
  } = {},
): string {
  return welcome({
    service: { ...service, ...changes.service },
    settings: { ...settings, ...changes.settings },
    root,
    directory: changes.directory ?? root,
    warnings: changes.warnings ?? [],
  });
}
const commands = (text: string): string[] =>
  text
    .split('\n')
    .filter((line) => /^ {2}(?! )/.test(line))
    .map((line) => line.trim());

describe('the welcome', () => {
  it('shows a new key as a line to paste', () => {
    const text = said({ service: { newApiKey: 'sf_new' } });
    assert.match(
      text,
      /^Statefold listens on http:\/\/127\.0\.0\.1:8080\nJailed\.\n\nThe tenant default has an API key, which is shown only now\./,
    );
    assert.deepEqual(commands(text).slice(0, 2), [
      'export STATEFOLD_URL=http://127.0.0.1:8080',
      'export STATEFOLD_API_KEY=sf_new',
    ]);
    assert.match(text, /curl -s "\$STATEFOLD_URL\/events" -H "X-API-Key: \$STATEFOLD_API_KEY" /);
    assert.doesNotMatch(text, /account-1/, 'the aggregate of the README');
  });

  it('names the command that replaces a lost key, with what it needs to find the service', () => {
    assert.deepEqual(commands(said()).slice(0, 2), [
      'export STATEFOLD_URL=http://127.0.0.1:8080',
      'npx statefold keys create default',
    ]);
    const elsewhere = { service: { url: 'http://127.0.0.1:8090' }, settings: { dataDirectory: '/srv/a b' } };
    assert.deepEqual(commands(said(elsewhere)).slice(0, 3), [
      'export STATEFOLD_URL=http://127.0.0.1:8090',
      "export STATEFOLD_DATA_DIR='/srv/a b'",
      "STATEFOLD_URL=http://127.0.0.1:8090 STATEFOLD_DATA_DIR='/srv/a b' npx statefold keys create default",
    ]);
    assert.match(
      commands(said({ directory: '/' }))[2] ?? '',
      /^STATEFOLD_DATA_DIR=\/data node \/\S+\/main\.js keys create default$/,
    );
    assert.match(
      said({ settings: { adminKey: 'a-key-of-the-admin-s' } }),
      /with the STATEFOLD_ADMIN_KEY of this service/,
    );
  });

  it('shows no key that somebody chose, and says what is the matter with it', () => {
    const chosen = said({ service: { fixedKey: 'in force' } });
    assert.match(chosen, /that has the same STATEFOLD_API_KEY/);
    assert.doesNotMatch(chosen, /keys create|export STATEFOLD_API_KEY/);
    assert.match(
      said({ service: { fixedKey: 'of another tenant' } }),
      /key of another tenant than default, and is left as it is/,
    );
    assert.match(said({ service: { fixedKey: 'revoked' } }), /was revoked, and stays so[^]*keys create default/);
  });

  it('tells how a tenant is made where default was deleted', () =>
    assert.match(
      said({ service: { hasDefaultTenant: false } }),
      /There is no tenant default[^]*\n {2}npx statefold tenants create acme\n/,
    ));

  it('gives an address that this machine can use', () => {
    const all = said({ service: { url: 'http://box:8081' }, settings: { host: '0.0.0.0' } });
    assert.match(all, /^Statefold listens on http:\/\/box:8081\n/);
    assert.equal(commands(all)[0], 'export STATEFOLD_URL=http://127.0.0.1:8081');
  });

  it('has the warnings before all else', () =>
    assert.match(said({ warnings: ['One.', 'Two.'] }), /\nJailed\.\nOne\.\nTwo\.\n/));
});

describe('a start that failed', () => {
  it('is the sentence of what it came from', () => {
    assert.equal(describeStartFailure(new Error('outer', { cause: new StartupError('Do this.') }), '/d'), 'Do this.');
    const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    assert.match(describeStartFailure(full, '/d'), /^There is no space left for the data directory \/d: make room/);
    const denied = Object.assign(new Error('EACCES'), { code: 'EACCES', path: '/d/work' });
    assert.match(describeStartFailure(denied, '/d'), /^\/d\/work can't be read and written by /);
  });

  it('is told without a stack where nothing better is known', () => {
    assert.equal(
      describeStartFailure(new Error('the log is odd', { cause: new Error('a page is missing.') }), '/d'),
      'Statefold could not start: the log is odd: a page is missing. LOG_LEVEL=debug shows where it happened.',
    );
    assert.match(describeStartFailure('odd', undefined), /^Statefold could not start: odd\./);
  });
});
