// The logs that tests of several processes run on: the embedded one, which those of a test share in one process, and Kafka.
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import type { Log } from '../../src/log/log.js';
import { freshPrefix, kafkaForTests, needsKafka } from './kafka.js';
import { temporaryDirectory } from './service.js';

/** Gives each process its client of one log. */
export type Clients = () => Log;

export const LOGS: readonly {
  readonly name: string;
  readonly skip: string | false;
  readonly open: (t: Pick<TestContext, 'after'>) => Promise<Clients>;
}[] = [
  {
    name: 'the embedded log',
    skip: false,
    open: (t) => {
      const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log') });
      t.after(() => log.close());
      return Promise.resolve(() => log);
    },
  },
  {
    name: 'Kafka',
    skip: needsKafka,
    open: async (t) => {
      const { brokers } = await kafkaForTests();
      const prefix = freshPrefix();
      const clients: Log[] = [];
      t.after(() => Promise.all(clients.map((client) => client.close())));
      return () => {
        const client = new KafkaLog({ brokers, prefix });
        clients.push(client);
        return client;
      };
    },
  },
];
