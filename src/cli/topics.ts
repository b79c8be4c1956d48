import type { Command } from 'commander';
import { CliError, CliExit, FAILED, table, type CliIo, type TopicTools } from './io.js';
import { compressingText, droppingText, isWell, type ReplicationState } from '../log/replication.js';
import type { CommandContext } from './context.js';

/** Looks after the copies of the topics on Kafka, which the service itself may not be able to do without. */
export function addTopicCommands(program: Command, { io, show }: Pick<CommandContext, 'io' | 'show'>): void {
  const topics = program.command('topics').description('look after the topics on Kafka');
  topics
    .command('check')
    .description('name the topics on Kafka that have fewer copies than wanted, drop what is to be kept, or compress it')
    .action(() =>
      withTopics(io, async (tools) => {
        const found = await tools.look();
        show(found, () => linesOf(found));
        if (!isWell(found)) throw new CliExit(FAILED);
      }),
    );
  topics
    .command('raise')
    .description('add the copies that topics on Kafka lack, while the service runs')
    .action(() =>
      withTopics(io, async (tools) => {
        const found = await tools.raise(({ done, total }) => {
          if (total > 0) io.stderr.write(`${done} of ${total} partitions have their copies\n`);
        });
        show(found, () => linesOf(found));
        if (!isWell(found)) throw new CliExit(FAILED);
      }),
    );
}

const linesOf = (found: ReplicationState): string =>
  [
    copiesOf(found),
    ...[...found.dropping.map(droppingText), ...found.compressing.map(compressingText)].map((text) => `${text}\n`),
  ].join('');

const copiesOf = ({ topics, brokers, short }: ReplicationState): string =>
  table(
    ['TOPIC', 'COPIES', 'WANTED', 'IN SYNC', 'WANTED'],
    short.map(({ topic, copies, copiesWanted, inSync, inSyncWanted }) =>
      [topic, copies, copiesWanted, inSync, inSyncWanted].map(String),
    ),
    `All ${topics} topics have as many copies as wanted, on ${brokers} broker${brokers === 1 ? '' : 's'}.`,
  );

async function withTopics(io: CliIo, work: (tools: TopicTools) => Promise<void>): Promise<void> {
  if (io.openTopics === undefined) throw new CliError('Run this with the program itself: `statefold topics`.');
  const tools = await io.openTopics();
  try {
    await work(tools);
  } catch (error) {
    if (error instanceof CliError || error instanceof CliExit) throw error;
    throw new CliError(`Kafka does not do it: ${(error as Error).message}.`);
  } finally {
    await tools.close();
  }
}
