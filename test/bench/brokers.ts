import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type * as scripts from '../../scripts/kafka-cluster.mjs';
import { ROOT } from '../support/service.js';

/** The Kafka that runs at KAFKA_BROKERS, else one of this run from KAFKA_HOME, which is stopped by `cleanups`. Undefined: there is none. */
export async function brokersOfThisRun(
  cleanups: (() => unknown)[],
  heap: readonly string[] = ['-Xms512m', '-Xmx512m'],
): Promise<readonly string[] | undefined> {
  const running = process.env['KAFKA_BROKERS'];
  if (running !== undefined) return running.split(',');
  if (process.env['KAFKA_HOME'] === undefined) return undefined;
  const { startKafka } = (await import(
    pathToFileURL(join(ROOT, 'scripts', 'kafka-cluster.mjs')).href
  )) as typeof scripts;
  const cluster = await startKafka({ heap: [...heap, '-XX:+UseSerialGC'] });
  cleanups.push(() => cluster.close());
  return cluster.brokers;
}
