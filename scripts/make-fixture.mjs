// `node scripts/make-fixture.mjs`: writes test/fixtures/releases/<version>, the data that this release writes, with its answers. Run
// it once before a release, and keep what it wrote: every later version is tested to open it. On the embedded log always; on Kafka
// where KAFKA_HOME names one.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { startKafka } from './kafka-cluster.mjs';
import { fail, ROOT, setup } from './setup.mjs';

await setup().catch(fail);
const support = (name) => import(pathToFileURL(join(ROOT, 'dist', 'test', 'support', name)).href);
const { startService, temporaryDirectory } = await support('service.js');
const { MASTER_KEY } = await support('peers.js');
const fixture = await support('release-fixture.js');
const { dumpTopics } = await support('kafka-dump.js');

const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const folder = join(fixture.RELEASES, version);
if (existsSync(folder)) fail(new Error(`${folder} is there: what a release wrote is never written again`));

const ends = [];
const t = { after: (end) => ends.unshift(end) };

function keep(kind, file, packed, expected) {
  const into = join(folder, kind);
  mkdirSync(into, { recursive: true });
  writeFileSync(join(into, file), packed);
  writeFileSync(join(into, fixture.EXPECTED_FILE), `${JSON.stringify(expected)}\n`);
  console.log(`${join(into, file)}: ${packed.length} bytes, ${expected.answers.length} answers`);
}

try {
  const dataDirectory = temporaryDirectory(t);
  const embedded = await startService(t, { dataDirectory, env: fixture.FIXTURE_ENV });
  const expected = await fixture.writeAll(t, embedded, version);
  await embedded.stop();
  await fixture.cleanLog(dataDirectory);
  keep('embedded', fixture.DATA_FILE, fixture.packFolder(dataDirectory), expected);

  if (process.env.KAFKA_HOME === undefined) console.log('KAFKA_HOME is not set: no records of Kafka were kept');
  else {
    const cluster = await startKafka();
    ends.push(() => cluster.close());
    const prefix = 'fixture';
    const onKafka = await startService(t, {
      env: {
        ...fixture.FIXTURE_ENV,
        KAFKA_BROKERS: cluster.brokers.join(','),
        KAFKA_TOPIC_PREFIX: prefix,
        STATEFOLD_MASTER_KEY: MASTER_KEY,
        // What is kept is the log; the read store is filled from it again.
        CLICKHOUSE_URL: 'http://127.0.0.1:9',
      },
    });
    const answered = await fixture.writeAll(t, onKafka, version);
    await onKafka.stop();
    keep('kafka', fixture.TOPICS_FILE, await dumpTopics(cluster.brokers, prefix), answered);
  }
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  for (const end of ends) await end();
}
