// `npm run kafka [-- --brokers 3] [--data DIR] [--port 9092]`: a local Kafka to try the service on, from KAFKA_HOME. Ctrl-C ends it.
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { findKafka, startKafka } from './kafka-cluster.mjs';
import { fail, ROOT, SetupError } from './setup.mjs';

const USAGE = 'npm run kafka -- [--brokers 1] [--port 9092] [--data DIR]';

/** @throws {SetupError} */
function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        brokers: { type: 'string', default: '1' },
        port: { type: 'string', default: '9092' },
        data: { type: 'string' },
      },
    });
    const [brokers, port] = [Number(values.brokers), Number(values.port)];
    if (!Number.isInteger(brokers) || brokers < 1 || brokers > 9) throw new Error('--brokers is a number from 1 to 9');
    if (!Number.isInteger(port) || port < 1 || port + brokers > 65_536) throw new Error('--port is a port number');
    return {
      brokers,
      port,
      data: resolve(values.data ?? join(ROOT, 'data', brokers === 1 ? 'kafka' : `kafka-${brokers}`)),
    };
  } catch (error) {
    throw new SetupError(`${error.message}. Usage: ${USAGE}`);
  }
}

async function main() {
  const { brokers, port, data } = readOptions();
  findKafka();
  process.stdout.write(`Starting ${brokers === 1 ? 'Kafka' : `${brokers} Kafka brokers`} in ${data}…\n`);
  let cluster;
  let ending = false;
  const end = async () => {
    if (ending) return; // npm passes on what the terminal has sent to all already
    ending = true;
    if (cluster === undefined) process.exit(130); // the brokers end with this process
    process.stdout.write('\nEnding Kafka…\n');
    await cluster.close();
    process.exit(0);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => void end().catch(fail));
  cluster = await startKafka({
    brokers,
    dataDirectory: data,
    ports: Array.from({ length: brokers }, (_, i) => port + i),
    heap: ['-Xms256m', '-Xmx1g'],
  });
  process.stdout.write(
    `Kafka ${cluster.version} serves. In another terminal:\n\n  KAFKA_BROKERS=${cluster.brokers.join(',')} npm start\n\nCtrl-C ends it; what it holds stays in ${data}.\n`,
  );
  // Brokers that end by themselves are told of.
  setInterval(() => {
    for (const node of cluster.nodes.filter(({ pid }) => pid === undefined))
      if (!ending) fail(new SetupError(`Broker ${node.id} has ended; its log is ${node.logFile}\n${node.logTail(15)}`));
  }, 1_000);
}

await main().catch(fail);
