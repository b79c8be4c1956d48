import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { KafkaLog, type KafkaLogOptions } from '../../src/log/kafka/kafka-log.js';
import { AppendRefusedError, type PartitionRef, type TopicSpec } from '../../src/log/log.js';
import { freePort, freshPrefix, kafkaTool, needsKafkaTools, startKafka } from '../support/kafka.js';
import { until } from '../support/service.js';

const spec: TopicSpec = { topic: 'statefold.acme.events', partitions: 1, cleanup: { policy: 'tombstones' } };
const ref: PartitionRef = { topic: spec.topic, partition: 0 };
const record = { key: Buffer.from('k'), value: Buffer.from('v') };
const keytool = process.env['JAVA_HOME'] ? join(process.env['JAVA_HOME'], 'bin', 'keytool') : 'keytool';
const skip =
  needsKafkaTools !== false
    ? needsKafkaTools
    : spawnSync(keytool, ['-help']).error === undefined
      ? false
      : 'there is no keytool of a JDK';

const REAUTHENTICATE_MS = 3000;

it('speaks TLS and SASL, and authenticates again before a session ends', { skip, timeout: 180_000 }, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'statefold-tls-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const [store, pem] = [join(directory, 'broker.p12'), join(directory, 'broker.pem')];
  const run = (...args: string[]): void => {
    const { status, stdout, stderr } = spawnSync(
      keytool,
      [...args, '-keystore', store, '-storepass', 'changeit', '-alias', 'broker'],
      { encoding: 'utf8' },
    );
    assert.equal(status, 0, stdout + stderr);
  };
  run(
    '-genkeypair',
    '-keyalg',
    'RSA',
    '-keysize',
    '2048',
    '-dname',
    'CN=broker',
    '-ext',
    'SAN=ip:127.0.0.1',
    '-validity',
    '3',
    '-storetype',
    'PKCS12',
  );
  run('-exportcert', '-rfc', '-file', pem);

  const [plain, sasl, tls, both, internal, controller] = await Promise.all(Array.from({ length: 6 }, freePort));
  const at = (name: string, port: number | undefined): string => `${name}://127.0.0.1:${port}`;
  const advertised = [
    at('PLAINTEXT', plain),
    at('SASL', sasl),
    at('TLS', tls),
    at('BOTH', both),
    at('INTERNAL', internal),
  ];
  const jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_statefold="open sesame";';
  const scram = 'org.apache.kafka.common.security.scram.ScramLoginModule required;';
  const cluster = await startKafka({
    ports: [plain ?? 0],
    properties: {
      listeners: [...advertised, at('CONTROLLER', controller)].join(','),
      'advertised.listeners': advertised.join(','),
      'controller.quorum.voters': `1@127.0.0.1:${controller}`,
      'listener.security.protocol.map':
        'CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,BOTH:SASL_SSL',
      'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512',
      'connections.max.reauth.ms': REAUTHENTICATE_MS,
      'ssl.keystore.location': store,
      'ssl.keystore.password': 'changeit',
      'ssl.keystore.type': 'PKCS12',
      ...Object.fromEntries(
        ['sasl', 'both'].flatMap((listener) => [
          [`listener.name.${listener}.plain.sasl.jaas.config`, jaas],
          [`listener.name.${listener}.scram-sha-256.sasl.jaas.config`, scram],
          [`listener.name.${listener}.scram-sha-512.sasl.jaas.config`, scram],
        ]),
      ),
    },
  });
  t.after(() => cluster.close());
  for (const credential of ['SCRAM-SHA-256=[password=two five six]', 'SCRAM-SHA-512=[password=five one two]'])
    await kafkaTool(cluster.brokers, 'kafka-configs', [
      '--alter',
      '--entity-type',
      'users',
      '--entity-name',
      'statefold',
      '--add-config',
      credential,
    ]);

  const prefix = freshPrefix();
  const open = (port: number | undefined, options: Partial<KafkaLogOptions>): KafkaLog => {
    const log = new KafkaLog({ brokers: [`127.0.0.1:${port}`], prefix, requestTimeoutMs: 5000, ...options });
    t.after(() => log.close());
    return log;
  };
  const login = (
    mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512',
    password: string,
  ): Pick<KafkaLogOptions, 'sasl'> => ({ sasl: { mechanism, username: 'statefold', password } });
  const ssl = { ca: readFileSync(pem, 'utf8') };
  const logs = [
    open(tls, { ssl }),
    open(sasl, login('plain', 'open sesame')),
    open(sasl, login('scram-sha-256', 'two five six')),
    open(sasl, login('scram-sha-512', 'five one two')),
    open(both, { ssl, ...login('scram-sha-512', 'five one two') }),
  ];
  const appendAll = async (): Promise<void> => {
    for (const log of logs) await log.append(ref, [record]);
  };
  for (const log of logs) await log.ensureTopics([spec]);
  await appendAll();
  for (const log of logs) assert.equal((await log.read(ref, 0, 1024 * 1024)).records.length, logs.length);

  // Past several sessions: no append fails.
  const end = performance.now() + 2.5 * REAUTHENTICATE_MS;
  await until(async () => {
    await appendAll();
    return performance.now() > end;
  });

  for (const [log, says] of [
    [open(sasl, login('plain', 'wrong')), /SASL PLAIN authentication failed|Authentication failed/i],
    [open(sasl, login('scram-sha-512', 'wrong')), /SASL SCRAM|Authentication failed|credentials/i],
    [open(tls, { ssl: true }), /self-signed certificate/],
  ] as const)
    await assert.rejects(
      log.append(ref, [record]),
      (error) => error instanceof AppendRefusedError && says.test(error.message),
    );
  await assert.rejects(open(sasl, { connectTimeoutMs: 1000 }).append(ref, [record]), AppendRefusedError);
});
