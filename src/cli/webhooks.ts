import { InvalidArgumentError, type Command } from 'commander';
import { CliError, CliExit, FAILED, table } from './io.js';
import { requireConfirmed, type CommandContext } from './context.js';
import { projectionOf } from './project/names.js';
import { Remote } from './project/remote.js';
import type { Fields } from './server.js';

interface EndpointOptions {
  readonly url?: string;
  readonly projection?: string;
  readonly feed?: true;
  readonly aggregateType: readonly string[];
  readonly eventType: readonly string[];
  readonly key: readonly string[];
  readonly header: readonly string[];
  readonly description?: string;
  readonly rate?: string;
  readonly ownSecret?: true;
  readonly fromStart?: true;
}

const ENDPOINTS = '/webhooks/endpoints';
const at = (endpointId: string, rest = ''): string => `${ENDPOINTS}/${encodeURIComponent(endpointId)}${rest}`;
const text = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? '-' : JSON.stringify(value);
const several = (value: string, before: readonly string[]): readonly string[] => [...before, value];
const some = (values: readonly string[]): readonly string[] | undefined => (values.length === 0 ? undefined : values);
/** Of a key or a rate: takes it away. */
const NONE = 'none';

function rateOf(given: string | undefined): number | null | undefined {
  if (given === undefined) return undefined;
  if (given === NONE) return null;
  const rate = Number(given);
  if (!(rate > 0)) throw new CliError(`--rate is a number of attempts a second, or ${NONE}, not '${given}'.`);
  return rate;
}

/** `name: value`, as curl has them; `name:` takes it away. */
function headersOf(given: readonly string[]): Readonly<Record<string, string | null>> | undefined {
  if (given.length === 0) return undefined;
  return Object.fromEntries(
    given.map((line) => {
      const [, name, value = ''] = /^([^:]+):\s*(.*)$/.exec(line) ?? [];
      if (name === undefined) throw new CliError(`--header is name: value, not '${line}'.`);
      return [name.trim(), value === '' ? null : value];
    }),
  );
}

function wholeNumber(given: string): number {
  if (!/^[1-9]\d{0,15}$/.test(given)) throw new InvalidArgumentError('It is a whole number from 1 on.');
  return Number(given);
}

const sourceText = (endpoint: Fields): string => {
  const source = endpoint['source'] as { readonly projectionId?: string };
  return source.projectionId ?? 'feed';
};
const stateOf = (endpoint: Fields): Fields => endpoint['state'] as Fields;

function endpointLines(endpoint: Fields): string {
  const state = stateOf(endpoint);
  const rows: [string, unknown][] = [
    ['endpointId', endpoint['endpointId']],
    ['url', endpoint['url']],
    ['source', JSON.stringify(endpoint['source'])],
    ['state', `${text(state['status'])} since ${text(state['since'])}`],
    ['reason', state['reason']],
    ['through', endpoint['through']],
    ['pending', endpoint['pending']],
    ['parked', endpoint['parked']],
    ['keys', (endpoint['keys'] as readonly string[] | undefined)?.join(', ')],
    ['headers', (endpoint['headerNames'] as readonly string[] | undefined)?.join(', ')],
    ['rate', endpoint['ratePerSecond']],
    ['description', endpoint['description']],
    ['secret', endpoint['secret']],
  ];
  return rows
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name.padEnd(12)}${text(value)}\n`)
    .join('');
}

interface ResendOptions {
  readonly all?: true;
  readonly since?: string;
}

/** Commands over a tenant's webhook endpoints. */
export function addWebhookCommands(program: Command, { io, server, show }: CommandContext): void {
  const webhooks = program.command('webhooks').description('make, change and look after webhook endpoints');
  const showEndpoint = (answer: unknown): void => show(answer, () => endpointLines(answer as Fields));
  const post = (endpointId: string, what: string, body?: object): Promise<unknown> =>
    server().tenant('POST', at(endpointId, `/${what}`), body);

  webhooks
    .command('list')
    .description('list the webhook endpoints of the tenant, with their state')
    .action(async () => {
      const list = await server().tenantList(ENDPOINTS, 'endpoints');
      const row = (one: Fields): string[] =>
        [one['endpointId'], stateOf(one)['status'], sourceText(one), one['pending'], one['parked'], one['url']].map(
          text,
        );
      const head = ['ENDPOINT', 'STATE', 'SOURCE', 'PENDING', 'PARKED', 'URL'];
      show(list, () => table(head, list.map(row), 'There are no webhook endpoints.'));
    });
  webhooks
    .command('show')
    .description('show a webhook endpoint, its state and how far it is')
    .argument('<endpointId>')
    .action(async (endpointId: string) => showEndpoint(await server().tenant('GET', at(endpointId))));
  webhooks
    .command('create')
    .description('make a webhook endpoint; its secret is in the answer')
    .argument('<url>', 'where messages are posted')
    .option('--projection <name>', 'the changes of this projection, by its id or class')
    .option('--feed', 'all events of the tenant')
    .option(
      '--aggregate-type <type>',
      'of the feed only events of this type of aggregate; may be given again',
      several,
      [],
    )
    .option('--event-type <type>', 'of the feed only events of this type; may be given again', several, [])
    .option('--key <key>', 'only this state key, or aggregate id of the feed; may be given again', several, [])
    .option(
      '--header <header>',
      'a header that goes with each attempt, as name: value; may be given again',
      several,
      [],
    )
    .option('--description <text>', 'what it is for')
    .option('--rate <n>', 'most attempts a second')
    .option('--own-secret', 'a secret of its own, and not the shared one of the tenant')
    .option('--from-start', 'begin with the oldest that is kept, and not with what comes next')
    .action(async (url: string, options: EndpointOptions) => {
      if ((options.projection === undefined) === (options.feed === undefined))
        throw new CliError('Give --projection or --feed: changes of a projection, or all events of the tenant.');
      const source =
        options.projection === undefined
          ? { feed: { aggregateTypes: some(options.aggregateType), eventTypes: some(options.eventType) } }
          : { projectionId: (await projectionOf(new Remote(server()), options.projection)).id };
      if (options.projection !== undefined && options.aggregateType.length + options.eventType.length > 0)
        throw new CliError('--aggregate-type and --event-type choose events of the feed; of a projection say --key.');
      showEndpoint(
        await server().tenant('POST', ENDPOINTS, {
          url,
          source,
          keys: some(options.key),
          headers: headersOf(options.header),
          description: options.description,
          ratePerSecond: rateOf(options.rate) ?? undefined,
          isolateSecret: options.ownSecret,
          from: options.fromStart && 'start',
        }),
      );
    });
  webhooks
    .command('update')
    .description('change a webhook endpoint, from its next attempt on; what is not said stays')
    .argument('<endpointId>')
    .option('--url <url>', 'where messages are posted')
    .option('--key <key>', `only this key; may be given again, ${NONE} takes the filter away`, several, [])
    .option(
      '--header <header>',
      'sets the header, as name: value; name: takes it away; may be given again',
      several,
      [],
    )
    .option('--description <text>', 'what it is for')
    .option('--rate <n>', `most attempts a second; ${NONE}: as many as it takes`)
    .option('--own-secret', 'a secret of its own from now on')
    .action(async (endpointId: string, options: Omit<EndpointOptions, 'aggregateType' | 'eventType'>) => {
      const keys = options.key.length === 1 && options.key[0] === NONE ? null : some(options.key);
      const body = {
        url: options.url,
        keys,
        headers: headersOf(options.header),
        description: options.description,
        ratePerSecond: rateOf(options.rate),
        isolateSecret: options.ownSecret,
      };
      if (Object.values(body).every((value) => value === undefined))
        throw new CliError('Say what is to be changed: `statefold webhooks update --help` lists it.');
      showEndpoint(await server().tenant('PATCH', at(endpointId), body));
    });
  webhooks
    .command('delete')
    .description('delete a webhook endpoint with its place, its attempts and a secret of its own')
    .argument('<endpointId>')
    .option('--yes', 'do not ask')
    .action(async (endpointId: string, { yes }: { readonly yes?: true }) => {
      const { url } = (await server().tenant('GET', at(endpointId))) as Fields;
      const what = `This deletes the webhook endpoint ${endpointId} (${text(url)}): nothing more is sent to it, and its place is forgotten.`;
      await requireConfirmed(io, yes, what);
      await server().tenant('DELETE', at(endpointId));
      show({ endpointId, deleted: true }, () => `Webhook endpoint ${endpointId} is deleted.\n`);
    });
  webhooks
    .command('pause')
    .description('send nothing to a webhook endpoint until it is resumed; what comes meanwhile waits')
    .argument('<endpointId>')
    .action(async (endpointId: string) => showEndpoint(await post(endpointId, 'pause')));
  webhooks
    .command('resume')
    .description('go on with a webhook endpoint that was paused, or disabled')
    .argument('<endpointId>')
    .action(async (endpointId: string) => showEndpoint(await post(endpointId, 'resume')));
  webhooks
    .command('rotate')
    .description('give a webhook endpoint a new secret; the one before signs too, for 24 hours')
    .argument('<endpointId>')
    .action(async (endpointId: string) => {
      const answer = (await post(endpointId, 'rotate')) as Fields;
      show(answer, () => `secret  ${text(answer['secret'])}\n`);
    });
  webhooks
    .command('test')
    .description('send a test message now, and tell what came of it')
    .argument('<endpointId>')
    .addHelpText('after', '\nExit codes: 0 it was delivered, 1 it was not.')
    .action(async (endpointId: string) => {
      const answer = (await post(endpointId, 'test')) as Fields;
      const status = answer['status'] === undefined ? '' : ` with ${text(answer['status'])}`;
      const excerpt = answer['responseExcerpt'] === undefined ? '' : `: ${text(answer['responseExcerpt'])}`;
      show(answer, () =>
        answer['delivered'] === true
          ? `Delivered${status} in ${text(answer['durationMs'])} ms.\n`
          : `Not delivered: ${text(answer['error'])}${excerpt}\n`,
      );
      if (answer['delivered'] !== true) throw new CliExit(FAILED);
    });
  webhooks
    .command('attempts')
    .description('list the latest attempts of a webhook endpoint, newest first')
    .argument('<endpointId>')
    .option('--status <status>', 'delivered, failed, or a status of HTTP like 503 or 5xx')
    .action(async (endpointId: string, { status }: { readonly status?: string }) => {
      const query = status === undefined ? '' : `?status=${encodeURIComponent(status)}`;
      const attempts = await server().tenantList(at(endpointId, `/attempts${query}`), 'attempts');
      const row = (one: Fields): string[] => [
        text(one['at']),
        text(one['messageId']),
        text(one['attempt']),
        text(one['status']),
        `${text(one['durationMs'])} ms`,
        text(one['error']),
      ];
      const head = ['AT', 'MESSAGE', 'ATTEMPT', 'STATUS', 'TOOK', 'ERROR'];
      show(attempts, () => table(head, attempts.map(row), 'There were no such attempts.'));
    });
  webhooks
    .command('parked')
    .description('list the messages that were given up after their last attempt')
    .argument('<endpointId>')
    .action(async (endpointId: string) => {
      const list = await server().tenantList(at(endpointId, '/parked'), 'parked');
      const row = (one: Fields): string[] => [
        text(one['messageId']),
        text(one['sequence'] ?? one['position']),
        text(one['key']),
        text(one['at']),
        text(one['attempts']),
        text(one['reason']),
      ];
      const head = ['MESSAGE', 'AT', 'KEY', 'GIVEN UP', 'ATTEMPTS', 'REASON'];
      show(list, () => table(head, list.map(row), 'No message is parked.'));
    });
  webhooks
    .command('resend')
    .description('send a message again that was given up, or all of them')
    .argument('<endpointId>')
    .argument('[messageId]', 'of one')
    .option('--all', 'all of them')
    .option('--since <time>', 'all that were given up then or later, a time of ISO 8601')
    .action(async (endpointId: string, messageId: string | undefined, { all: isAll, since }: ResendOptions) => {
      const isOne = messageId !== undefined && messageId !== '';
      if (isOne === (isAll === true || since !== undefined))
        throw new CliError('Say which: the id of one message, or --all, or all since a time with --since.');
      if (!isOne) {
        const all = (await post(endpointId, 'parked/resend', { since })) as Fields;
        return show(all, () => `${text(all['messages'])} messages are sent again.\n`);
      }
      const answer = await post(endpointId, `parked/${encodeURIComponent(messageId)}/resend`);
      show(answer, () => `Message ${messageId} is sent again.\n`);
    });
  webhooks
    .command('retry')
    .description('attempt a message now that waits for its next attempt')
    .argument('<endpointId>')
    .argument('<messageId>')
    .action(async (endpointId: string, messageId: string) => {
      const answer = await post(endpointId, `messages/${encodeURIComponent(messageId)}/retry`);
      show(answer, () => `Message ${messageId} is attempted now.\n`);
    });
  webhooks
    .command('replay')
    .description('send a range of messages again, beside what is live')
    .argument('<endpointId>')
    .argument('<from>', 'a sequence of the projection, or a position of the feed', wholeNumber)
    .argument('[to]', 'inclusive, too (default: up to what is live)', wholeNumber)
    .action(async (endpointId: string, from: number, to: number | undefined) => {
      const answer = (await post(endpointId, 'replay', { from, to })) as Fields;
      show(answer, () => `${text(answer['from'])} to ${text(answer['to'])} are sent again.\n`);
    });
}
