import type { Operations, StatefoldClient } from '@statefold/client';
import { LONG_MS } from './long';
import customers from '../../templates/project/Customers.cs?raw';
import events from '../../templates/project/Events.cs?raw';
import customersFixtures from '../../templates/project/fixtures/customers.json?raw';
import orderFixtures from '../../templates/project/fixtures/order.json?raw';
import orderReducer from '../../templates/project/OrderReducer.cs?raw';

/** Paths of files with their texts. */
export type Sources = Readonly<Record<string, string>>;
export type Kind = 'reducers' | 'projections';
export type Check = Operations['checkProjection']['answer'] | Operations['checkReducer']['answer'];
export type DryRun = Operations['dryRunProjection']['answer'] | Operations['dryRunReducers']['answer'];
export type FixturesRun = Operations['runFixtures']['answer'];
export type Deployed = Operations['uploadProjection']['answer'] | Operations['uploadReducer']['answer'];

export const isCode = (path: string): boolean => /\.cs$/i.test(path);
/** As the command line has them. */
export const isFixture = (path: string): boolean => /(^|\/)fixtures\/.*\.json$/i.test(path);

export const fixturesIn = (sources: Sources): Sources =>
  Object.fromEntries(Object.entries(sources).filter(([path]) => isFixture(path)));
/** What is uploaded of them: fixtures stay here. */
export const codeIn = (sources: Sources): Sources =>
  Object.fromEntries(Object.entries(sources).filter(([path]) => isCode(path)));

const WAIT_SECONDS = 30;

const named = (text: string): string => text.replaceAll('__Name__', 'Shop');
/** Those of `statefold new`. */
export const TEMPLATES: Readonly<Record<Kind, Sources>> = {
  reducers: {
    'OrderReducer.cs': named(orderReducer),
    'Events.cs': named(events),
    'fixtures/order.json': orderFixtures,
  },
  projections: {
    'Customers.cs': named(customers),
    'Events.cs': named(events),
    'fixtures/customers.json': customersFixtures,
  },
};

function form(sources: Sources, fields: Readonly<Record<string, string | undefined>> = {}): FormData {
  const body = new FormData();
  for (const [path, text] of Object.entries(sources)) if (isCode(path)) body.append('file', new Blob([text]), path);
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) body.append(name, value);
  return body;
}

/** What an upload would be refused for. `projectionId`: of one that is there already. @throws ClientError */
export const check = (
  client: StatefoldClient,
  kind: Kind,
  sources: Sources,
  projectionId: string | undefined,
): Promise<Check> =>
  kind === 'reducers'
    ? client.request('checkReducer', { body: form(sources), timeoutMs: LONG_MS })
    : client.request('checkProjection', { body: form(sources, { projectionId }), timeoutMs: LONG_MS });

/** What the code makes of the fixtures beside it. @throws ClientError */
export const runFixtures = (client: StatefoldClient, sources: Sources): Promise<FixturesRun> => {
  const body = form(sources);
  for (const [path, text] of Object.entries(sources)) if (isFixture(path)) body.append('file', new Blob([text]), path);
  return client.request('runFixtures', { body, timeoutMs: LONG_MS });
};

/** What the code would make of the stored history. @throws ClientError */
export const dryRun = (
  client: StatefoldClient,
  kind: Kind,
  sources: Sources,
  projectionId: string | undefined,
): Promise<DryRun> =>
  kind === 'reducers'
    ? client.request('dryRunReducers', { body: form(sources), timeoutMs: LONG_MS })
    : client.request('dryRunProjection', { body: form(sources, { projectionId }), timeoutMs: LONG_MS });

/** Uploads, and waits until it is compiled and, of a projection, live. @throws ClientError */
export const deploy = (
  client: StatefoldClient,
  kind: Kind,
  sources: Sources,
  projectionId: string | undefined,
): Promise<Deployed> => {
  const query = { waitSeconds: WAIT_SECONDS };
  return kind === 'reducers'
    ? client.request('uploadReducer', { query, body: form(sources), timeoutMs: LONG_MS })
    : client.request('uploadProjection', { query, body: form(sources, { projectionId }), timeoutMs: LONG_MS });
};

/** The C# files and the fixtures of a folder that was chosen, by their paths in it; what a build has left in `bin` and `obj` is none of them. */
export async function readFolder(files: Iterable<File>): Promise<Sources> {
  const found: Record<string, string> = {};
  for (const file of files) {
    const path = file.webkitRelativePath === '' ? file.name : file.webkitRelativePath.split('/').slice(1).join('/');
    const isMade = /(^|\/)(bin|obj|tests)\//.test(path);
    if (!isMade && (isCode(path) || isFixture(path))) found[path] = await file.text();
  }
  return Object.keys(found).some(isCode) ? found : {};
}

export const sourcesOf = (files: readonly { readonly path: string; readonly text: string }[]): Sources =>
  Object.fromEntries(files.map(({ path, text }) => [path, text]));
