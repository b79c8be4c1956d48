import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { findProjectRoot } from '../../src/config/project-root.js';
import { readSettings, SettingsError, settingsReference } from '../../src/config/settings.js';

describe('settings', () => {
  it('has a default for all that can have one, and freezes what it read', () => {
    const settings = readSettings({ HOME: '/', PORT: '' });
    assert.equal(settings.port, 8080);
    assert.equal(settings.host, '127.0.0.1');
    assert.equal(settings.maxBodyBytes, 1048576);
    assert.equal(settings.webhookAllowPrivate, false);
    assert.equal(settings.apiKey, undefined);
    assert.ok(Object.isFrozen(settings));
  });

  it('reads what was set', () => {
    const settings = readSettings({
      PORT: '0',
      WEBHOOK_ALLOW_PRIVATE: 'true',
      CLICKHOUSE_URL: 'http://ch:8123',
      STATEFOLD_API_KEY: 'sf_abcdefgh_0123456789',
    });
    assert.equal(settings.port, 0);
    assert.equal(settings.webhookAllowPrivate, true);
    assert.equal(settings.clickhouseUrl, 'http://ch:8123');
    assert.equal(settings.apiKey, 'sf_abcdefgh_0123456789');
    const cluster = readSettings({
      KAFKA_BROKERS: 'a:9092, [::1]:9093',
      ROLES: 'tasks',
      KAFKA_MIN_INSYNC_REPLICAS: '2',
    });
    assert.deepEqual(
      [cluster.kafkaBrokers, cluster.roles, cluster.kafkaMinInsyncReplicas, cluster.kafkaReplicationFactor],
      [['a:9092', '[::1]:9093'], ['tasks'], 2, 'auto'],
    );
  });

  it('answers a bad value with one sentence that names the variable', () => {
    const sentences: [string, string, string][] = [
      ['PORT', '65536', 'PORT must be a whole number from 0 to 65535.'],
      ['PORT', '80a', 'PORT must be a whole number from 0 to 65535.'],
      ['FOLD_DEADLINE_MS', '-1', 'FOLD_DEADLINE_MS must be a whole number of at least 1.'],
      ['LOG_LEVEL', 'loud', 'LOG_LEVEL must be trace, debug, info, warn, error, fatal or silent.'],
      ['WEBHOOK_ALLOW_PRIVATE', 'yes', 'WEBHOOK_ALLOW_PRIVATE must be true or false.'],
      ['CLICKHOUSE_URL', 'tcp://ch', 'CLICKHOUSE_URL must be an http or https URL.'],
      [
        'STATEFOLD_API_KEY',
        'short',
        'STATEFOLD_API_KEY must be 20 to 256 printable ASCII characters, without spaces and commas.',
      ],
      [
        'STATEFOLD_API_KEY',
        'a-key-of-enough-length,but-two',
        'STATEFOLD_API_KEY must be 20 to 256 printable ASCII characters, without spaces and commas.',
      ],
      ['KAFKA_BROKERS', 'b:9092,c', 'KAFKA_BROKERS must be host:port, several separated by commas.'],
      ['KAFKA_REPLICATION_FACTOR', 'all', 'KAFKA_REPLICATION_FACTOR must be auto or a whole number from 1 to 9.'],
      ['ROLES', 'gateway,writer', 'ROLES must be some of gateway, tasks, notifier, separated by commas.'],
      [
        'ROLES',
        'gateway',
        'ROLES needs KAFKA_BROKERS: with the log in the data directory one process does everything.',
      ],
      [
        'TEST_CLOCK',
        '/tmp/time',
        'TEST_CLOCK needs TEST_MODE=true: events that are kept have the time of the machine.',
      ],
      ['KAFKA_SASL_MECHANISM', 'plain', 'KAFKA_SASL_MECHANISM needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD.'],
      [
        'KAFKA_SSL_CERT',
        'c.pem',
        'KAFKA_SSL_CERT and KAFKA_SSL_KEY go together.\nKAFKA_SSL must be true for KAFKA_SSL_CA and KAFKA_SSL_CERT to count.',
      ],
    ];
    for (const [name, value, message] of sentences)
      assert.throws(() => readSettings({ [name]: value }), { name: 'SettingsError', message });
    assert.throws(
      () => readSettings({ PORT: 'x', LOG_LEVEL: 'x' }),
      (error) => error instanceof SettingsError && error.message.split('\n').length === 2,
    );
  });

  it('is documented row by row', () => {
    const page = readFileSync(join(findProjectRoot(), 'docs/reference/settings.md'), 'utf8');
    const rows = page.split('\n').filter((line) => line.startsWith('| `'));
    assert.deepEqual(
      rows,
      settingsReference().map(
        ({ env, fallback, unit, doc }) =>
          `| \`${env}\` | ${fallback === undefined || fallback === '' ? 'unset' : `\`${fallback}\``} | ${unit} | ${doc} |`,
      ),
    );
  });
});
