import { writeFileSync } from 'node:fs';
import type { Command } from 'commander';
import { CliError } from '../io.js';
import type { CommandContext } from '../context.js';
import type { Fields, Server } from '../server.js';
import { SchemaWriter, TypeNames, type Schema } from './typescript.js';

interface Described {
  readonly kind: 'reducer' | 'projection';
  readonly className: string;
  readonly aggregateType?: string;
  readonly schema: Schema;
}

const HEAD = `// Written by \`statefold types\` from the code and the schemas of event types that are in force. Do not edit: write it anew.
/* eslint-disable */
`;

/** The types of a tenant's states and of its events' data, as a TypeScript module without imports. */
function typesModule(
  states: readonly Described[],
  events: readonly { readonly eventType: string; readonly schema: Schema | boolean }[],
): string {
  const names = new TypeNames();
  for (const one of ['AggregateStates', 'ProjectionStates', 'EventData', 'EventOf']) names.name(one);
  // Types of C# have one name in all of an upload; two uploads may each have their own of it.
  const byDefinition = new Map<string, Map<string, string>>();
  const stateType = ({ schema }: Described): string => {
    const { $defs, ...state } = schema;
    const shared = JSON.stringify($defs ?? {});
    let named = byDefinition.get(shared);
    if (named === undefined) byDefinition.set(shared, (named = new Map<string, string>()));
    return new SchemaWriter(schema, names, named).typeOf(state);
  };
  const members = (entries: readonly (readonly [name: string, type: string])[]): string =>
    entries.map(([name, type]) => `  readonly ${JSON.stringify(name)}: ${type};\n`).join('');
  const aggregates = states.flatMap((one) =>
    one.aggregateType === undefined ? [] : [[one.aggregateType, stateType(one)] as const],
  );
  const projections = new Map<string, string>();
  for (const one of states) if (one.kind === 'projection') projections.set(one.className, stateType(one));
  const data = events.map(({ eventType, schema }) => {
    if (typeof schema === 'boolean')
      return [eventType, schema ? '{ readonly [name: string]: unknown }' : 'never'] as const;
    return [eventType, new SchemaWriter(schema, names).typeOf(schema)] as const;
  });
  return [
    HEAD,
    '/** States of aggregates that are not null, by aggregate type: where a reducer is bound. */',
    `export interface AggregateStates {\n${members(aggregates)}}\n`,
    '/** States of keys that are not null, by the class of the projection. */',
    `export interface ProjectionStates {\n${members([...projections])}}\n`,
    '/** Data of events, by type: of types that have a schema. */',
    `export interface EventData {\n${members(data)}}\n`,
    '/** An event to be appended, of one of these types. */',
    'export type EventOf<T extends keyof EventData = keyof EventData> = {\n  [K in T]: { readonly eventType: K; readonly data: EventData[K] };\n}[T];\n',
    ...names.declarations.map((one) => `${one}\n`),
  ].join('\n');
}

async function eventSchemas(server: Server): Promise<{ eventType: string; schema: Schema | boolean }[]> {
  const schemas: { eventType: string; schema: Schema | boolean }[] = [];
  for (const { eventType, schemaVersion } of await server.tenantList('/event-types', 'eventTypes')) {
    if (typeof eventType !== 'string' || schemaVersion === undefined) continue;
    const one = (await server.tenant('GET', `/event-types/${encodeURIComponent(eventType)}`)) as Fields;
    const schema = one['schema'] as Schema | boolean | undefined;
    if (schema !== undefined) schemas.push({ eventType, schema });
  }
  return schemas;
}

/** TypeScript types of what the service holds of a tenant. */
export function addTypesCommand(program: Command, { io, server }: CommandContext): void {
  program
    .command('types')
    .description("write TypeScript types of the tenant's states, and of event data that has a schema")
    .option('--out <file>', 'the file to write (default: standard output)')
    .action(async ({ out }: { readonly out?: string }) => {
      const states = (await server().tenantList('/state-types', 'states')) as unknown as Described[];
      const text = typesModule(states, await eventSchemas(server()));
      if (out === undefined) {
        io.stdout.write(text);
        return;
      }
      try {
        writeFileSync(out, text);
      } catch (error) {
        throw new CliError(`${out} cannot be written: ${(error as Error).message}.`);
      }
      io.stderr.write(`${out} is written.\n`);
    });
}
