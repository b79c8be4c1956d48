// What a command or a start doesn't use isn't loaded: half of the time of most commands went there.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { PROGRAM, ROOT } from '../support/service.js';

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

/** The programs as they are shipped. */
const FOLDER = join(ROOT, 'dist', 'program');

/** What the program has read when it serves: `serve` is the first that it imports when it is asked to. */
function readAtStart(): string {
  // Parts of the build before are there, too: it is the one that the program names.
  const program = readFileSync(join(FOLDER, 'main.js'), 'utf8');
  const first = ['main.js', ...[...program.matchAll(/import\("\.\/(serve-\w+\.js)"\)/g)].map(([, name = '']) => name)];
  assert.equal(first.length, 2, 'the program, and its service');
  const texts = new Map<string, string>();
  const read = (name: string): void => {
    if (texts.has(name)) return;
    const text = readFileSync(join(FOLDER, name), 'utf8');
    texts.set(name, text);
    for (const [, imported = ''] of text.matchAll(/^(?:import|\} from|export) .*?"\.\/([^"]+)";$/gm)) read(imported);
  };
  first.forEach(read);
  return [...texts.values()].join('\n');
}

test('a start reads no code of what few services do', { skip: !existsSync(FOLDER) && 'npm run build' }, () => {
  const text = readAtStart();
  // Each part stands below the path that it was read from.
  const parts = [...text.matchAll(/^\/\/ ((?:node_modules|dist\/src)\/\S+)$/gm)].map(([, path = '']) => path);
  assert.ok(parts.includes('dist/src/app/service.js') && parts.includes('node_modules/express/index.js'));
  const late = [
    ...['kafkajs', '@kafkajs/confluent-schema-registry', '@modelcontextprotocol/sdk', '@opentelemetry', 'cli-progress'],
    ...['formidable', 'yauzl', 're2js', 'archiver', 'undici', 'body-parser', 'iconv-lite', 'mime-db'],
  ];
  const found = parts.filter((path) => late.some((name) => path.startsWith(`node_modules/${name}/`)));
  assert.deepEqual(found, [], 'packages');
  assert.deepEqual(
    parts.filter((path) => /\/(cli\/commands|app\/open-kafka-log|mcp\/http|http\/upload)\.js$/.test(path)),
    [],
    'parts of the service',
  );
  assert.deepEqual(
    parts.filter((path) => path.startsWith('node_modules/zod/v4/locales/')).map((path) => path.split('/').at(-1)),
    ['en.js'],
    'the languages of messages',
  );
  // What is left outside, and read at once.
  const outside = [...text.matchAll(/^import .*? from "((?:@[\w-]+\/)?[\w-]+)";$/gm)].map(([, name = '']) => name);
  assert.ok(outside.includes('lmdb'));
  assert.deepEqual(
    outside.filter((name) => late.includes(name)),
    [],
  );
});
