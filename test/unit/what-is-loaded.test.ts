// What a command or a start doesn't use isn't loaded: half of the time of most commands went there.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { PROGRAM } from '../support/service.js';

/** Packages of CommonJS that a new process has loaded after it imported the module. */
function packagesOf(module: string, ...args: readonly string[]): Set<string> {
  const code = `
    import { createRequire } from 'node:module';
    await import(${JSON.stringify(module)});
    const files = Object.keys(createRequire(${JSON.stringify(module)}).cache);
    process.stdout.write('\\nloaded: ' + JSON.stringify(files));`;
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', code, 'statefold', ...args], {
    encoding: 'utf8',
  });
  const files = JSON.parse(output.split('\nloaded: ')[1] ?? '') as string[];
  return new Set(files.flatMap((file) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? []));
}

test('a command of the command line loads no part of the service', () => {
  const loaded = packagesOf(PROGRAM, '--help');
  assert.ok(loaded.has('commander'), [...loaded].join(', '));
  // The SDK of assistants is of modules, and brings ajv.
  for (const name of ['express', 'kafkajs', 'prom-client', '@clickhouse/client', 'archiver', 'ajv'])
    assert.ok(!loaded.has(name), `${name} is loaded`);
});

test('a service loads clients of Kafka, a schema registry, other processes and webhooks only where it has such, and no engine at all', () => {
  const loaded = packagesOf(join(dirname(PROGRAM), 'app', 'service.js'));
  assert.ok(loaded.has('express'), [...loaded].join(', '));
  for (const name of ['kafkajs', '@kafkajs/confluent-schema-registry', 'undici', '@opentelemetry/api', 'chdb'])
    assert.ok(!loaded.has(name), `${name} is loaded`);
});
