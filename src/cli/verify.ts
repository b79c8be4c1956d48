import type { Command } from 'commander';
import { CliError, CliExit, FAILED, NOT_ALL_COMPARED, table } from './io.js';
import type { CommandContext } from './context.js';
import { Remote } from './project/remote.js';
import { projectionOf } from './project/names.js';
import type { Fields, Server } from './server.js';

interface VerifyOptions {
  readonly type?: string;
  readonly projection?: string;
  readonly sample?: string;
  readonly seed?: string;
}

const number = (value: unknown): number => (typeof value === 'number' ? value : 0);

/** Folds states again from the log, and compares them with what the service has stored. */
export function addVerifyCommand(program: Command, { server, show }: CommandContext): void {
  program
    .command('verify')
    .description('fold states again from the log and compare them with what is stored')
    .argument('[ids...]', 'aggregate ids, or keys of the projection (default: a sample of the type, or all keys)')
    .option('--type <type>', 'aggregates of this type')
    .option('--projection <name>', 'keys of this projection, by its id or class')
    .option('--sample <n>', 'so many, chosen by the seed')
    .option('--seed <n>', 'which sample, 0 unless given')
    .addHelpText(
      'after',
      '\nExit codes: 0 all are equal, 1 some differ, 2 not all could be compared, or an aggregate or key is not there.',
    )
    .action(async (ids: readonly string[], options: VerifyOptions) => {
      const { type, projection } = options;
      if ((type === undefined) === (projection === undefined))
        throw new CliError('Give --type or --projection: aggregates of a type, or keys of a projection.');
      const path =
        projection !== undefined
          ? `/projections/${encodeURIComponent((await projectionOf(new Remote(server()), projection)).id)}`
          : `/aggregate-types/${encodeURIComponent(type ?? '')}`;
      const body = {
        ...(ids.length === 0 ? {} : { [type === undefined ? 'keys' : 'aggregateIds']: ids }),
        ...wholeNumber('sample', options.sample),
        ...wholeNumber('seed', options.seed),
      };
      const answer = (await server().tenant('POST', `${path}/verify`, body)) as Fields;
      const differs =
        number(answer['different']) + number((answer['readStore'] as Fields | undefined)?.['different']) > 0;
      const why = differs && projection !== undefined ? await erasedOf(server(), path) : '';
      show(answer, () => `${linesOf(answer)}${why}`);
      if (differs) throw new CliExit(FAILED);
      if (answer['complete'] !== true || unknownOf(answer).length > 0) throw new CliExit(NOT_ALL_COMPARED);
    });
}

/** What makes a projection differ that is in order: it is told, so that nobody looks for a fault. @param path of the projection */
async function erasedOf(server: Server, path: string): Promise<string> {
  const { erasedSinceBuild } = (await server.tenant('GET', `${path}/status`)) as Fields;
  return erasedSinceBuild === true
    ? `Aggregates were erased since the projection was built: what it made of their events stays until it is built again (POST ${path}/rebuild). Verify it then.\n`
    : '';
}

const unknownOf = (answer: Fields): readonly string[] => (answer['unknown'] as readonly string[] | undefined) ?? [];

function wholeNumber(name: string, given: string | undefined): Fields {
  if (given === undefined) return {};
  if (!/^\d{1,10}$/.test(given)) throw new CliError(`--${name} is a whole number, not '${given}'.`);
  return { [name]: Number(given) };
}

function linesOf(answer: Fields): string {
  const store = answer['readStore'] as Fields | undefined;
  const rows = [
    ['local store', ...['equal', 'different', 'absent'].map((name) => String(number(answer[name]))), '-'],
    store === undefined
      ? ['read store', '-', '-', '-', '-']
      : ['read store', ...['equal', 'different', 'absent', 'behind'].map((name) => String(number(store[name])))],
  ];
  const differences = (answer['differences'] as readonly Fields[]).map((one) => {
    const which = String(one['aggregateId'] ?? one['key']);
    const where = one['store'] === 'different' ? 'the local store' : 'the read store';
    return `${which}${one['version'] === undefined ? '' : ` at version ${number(one['version'])}`} differs in ${where}; what the log gives is reached by\n  ${JSON.stringify(one['patch'])}\n`;
  });
  const cut = typeof answer['cut'] === 'string' ? `Not all was compared: ${answer['cut']}.\n` : '';
  const type = answer['aggregateType'];
  const what = typeof type !== 'string' ? 'no key of the projection' : `no aggregate of the type ${type}`;
  const unknown = unknownOf(answer)
    .map((id) => `${id} is ${what}.\n`)
    .join('');
  return `${table(['WHERE', 'EQUAL', 'DIFFERENT', 'ABSENT', 'BEHIND'], rows, '')}${differences.join('')}${unknown}${cut}${number(answer['events']).toLocaleString('en-US')} events were folded again in ${number(answer['seconds'])} s.\n`;
}
