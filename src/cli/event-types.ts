import { readFileSync } from 'node:fs';
import { text as textOf } from 'node:stream/consumers';
import type { Command } from 'commander';
import { CliError, CliExit, FAILED, NOT_ALL_COMPARED, table, type CliIo } from './io.js';
import { requireConfirmed, type CommandContext } from './context.js';
import type { Fields } from './server.js';

const at = (eventType: string, query = ''): string => `/event-types/${encodeURIComponent(eventType)}${query}`;
const shown = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? '-' : JSON.stringify(value);

async function schemaIn(file: string, { stdin }: Pick<CliIo, 'stdin'>): Promise<unknown> {
  let text: string;
  try {
    text = file === '-' ? await textOf(stdin) : readFileSync(file, 'utf8');
  } catch (error) {
    throw new CliError(`${file} cannot be read: ${(error as Error).message}.`);
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new CliError(`${file === '-' ? 'Standard input' : file} is not JSON: ${(error as Error).message}.`);
  }
}

function checkLines(answer: Fields): string {
  const places = (errors: unknown): string[] =>
    (errors as readonly Fields[]).map(({ pointer, message }) => `  ${shown(pointer)} ${shown(message)}\n`);
  const examples = (answer['examples'] as readonly Fields[]).flatMap(({ aggregateId, version, errors }) => [
    `${shown(aggregateId)} at version ${shown(version)}\n`,
    ...places(errors),
  ]);
  const ignored = answer['ignored'] as readonly Fields[];
  return [
    answer['schemaVersion'] === undefined
      ? ''
      : `${shown(answer['eventType'])} has schema version ${shown(answer['schemaVersion'])}.\n`,
    `${shown(answer['unfit'])} of ${shown(answer['checked'])} stored events would not fit.\n`,
    ...examples,
    answer['complete'] === true ? '' : `Not all were looked at: ${shown(answer['cut'])}.\n`,
    ignored.length === 0 ? '' : 'These check nothing:\n',
    ...places(ignored),
  ].join('');
}

/** Commands over the types of a tenant's events, and their schemas. */
export function addEventTypeCommands(program: Command, { io, server, show }: CommandContext): void {
  const types = program.command('event-types').description('list the types of events, and hold them to schemas');

  types
    .command('list')
    .description('list the types of events, with their numbers')
    .action(async () => {
      const list = await server().tenantList('/event-types', 'eventTypes');
      const row = (one: Fields): string[] => [
        ...[one['eventType'], one['events'], one['schemaVersion'], one['lastSeen']].map(shown),
        (one['aggregateTypes'] as readonly string[]).join(', '),
      ];
      const head = ['EVENT TYPE', 'EVENTS', 'SCHEMA', 'LAST SEEN', 'AGGREGATE TYPES'];
      show(list, () => table(head, list.map(row), 'There are no events.'));
    });
  types
    .command('get')
    .description('print the schema of a type of events')
    .argument('<eventType>')
    .action(async (eventType: string) => {
      const one = (await server().tenant('GET', at(eventType))) as Fields;
      if (one['schema'] === undefined)
        throw new CliError(`The event type '${eventType}' has no schema: its data may be anything.`);
      show(one, () => `${JSON.stringify(one['schema'], undefined, 2)}\n`);
    });
  types
    .command('set')
    .description('hold the events of a type to a schema from now on')
    .argument('<eventType>')
    .argument('<file>', 'a JSON Schema (2020-12); - is standard input')
    .action(async (eventType: string, file: string) => {
      const answer = (await server().tenant('PUT', at(eventType), { schema: await schemaIn(file, io) })) as Fields;
      show(answer, () => checkLines(answer));
    });
  types
    .command('check')
    .description('tell which stored events would not fit a schema, and change nothing')
    .argument('<eventType>')
    .argument('<file>', 'a JSON Schema (2020-12); - is standard input')
    .addHelpText('after', '\nExit codes: 0 all fit, 1 some do not, 2 those that were looked at fit, and not all were.')
    .action(async (eventType: string, file: string) => {
      const body = { schema: await schemaIn(file, io) };
      const answer = (await server().tenant('PUT', at(eventType, '?check=true'), body)) as Fields;
      show(answer, () => checkLines(answer));
      if (answer['unfit'] !== 0) throw new CliExit(FAILED);
      if (answer['complete'] !== true) throw new CliExit(NOT_ALL_COMPARED);
    });
  types
    .command('delete')
    .description('end the schema of a type: its events may be anything again')
    .argument('<eventType>')
    .option('--yes', 'do not ask')
    .action(async (eventType: string, { yes }: { readonly yes?: true }) => {
      const what = `This ends the schema of '${eventType}': its events may be anything again.`;
      await requireConfirmed(io, yes, what);
      await server().tenant('DELETE', at(eventType));
      show({ eventType, deleted: true }, () => `The events of type '${eventType}' may be anything again.\n`);
    });
}
