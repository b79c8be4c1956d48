import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import type { Log } from '../../src/log/log.js';
import { logContract } from '../contracts/log.contract.js';
import { freshPrefix, kafkaForTests, needsKafka, startKafka } from '../support/kafka.js';

function contractOn(name: string, brokers: () => Promise<readonly string[]>): void {
  logContract(
    name,
    async () => {
      const options = { brokers: await brokers(), prefix: freshPrefix() };
      let log = new KafkaLog(options);
      return {
        log,
        reopen: async (): Promise<Log> => {
          await log.close();
          return (log = new KafkaLog(options));
        },
        dispose: () => log.close(),
      };
    },
    { upkeep: false },
  );
}

if (needsKafka === false) contractOn('kafka', async () => (await kafkaForTests()).brokers);
else it('log contract: kafka', { skip: needsKafka }, () => undefined);

// An older release beside the one of KAFKA_HOME.
const older = join(process.env['KAFKA_HOME'] ?? '/nowhere', '..', '3.9');
if (existsSync(older) && join(process.env['KAFKA_HOME'] ?? '', '.') !== join(older, '.')) {
  describe('kafka 3.9', () => {
    let cluster: ReturnType<typeof startKafka> | undefined;
    after(async () => (await cluster)?.close());
    contractOn('kafka 3.9', async () => (await (cluster ??= startKafka({ home: older }))).brokers);
  });
} else it('log contract: kafka 3.9', { skip: 'there is no release 3.9 beside KAFKA_HOME' }, () => undefined);
