import type { StatefoldClient } from '@statefold/client';
import { aggregateTypesOf } from './aggregate-types';
import { sameSources, type Base } from './drafts';
import { codeIn, sourcesOf, TEMPLATES, type Kind, type Sources } from './sources';

/** What a deploy would put something else in place of, and was not there when the files were taken. */
export interface ChangedMeanwhile {
  /** The projection, or the other reducer. */
  readonly id: string;
  /** What it is called. */
  readonly name: string;
  readonly createdAt: string;
  readonly now: Base;
}

/** A version that is no revision’s, and of a reducer that nothing is bound to. */
export const UNKNOWN = '[]';

/** The revision that a deploy takes the place of. */
const newest = async (
  client: StatefoldClient,
  id: string,
  signal: AbortSignal,
): Promise<{ readonly revision: number; readonly artefactId: string; readonly createdAt: string } | undefined> => {
  const { revisions } = await client.request('listRevisions', { path: { id }, signal });
  // What does not compile, or was called off, is nothing that could be lost.
  return revisions.find(({ status }) => status !== 'failed' && status !== 'cancelled');
};

const sourcesOfRevision = async (
  client: StatefoldClient,
  id: string,
  revision: number,
  signal: AbortSignal,
): Promise<Sources> =>
  sourcesOf((await client.request('getRevisionSources', { path: { id, revision: String(revision) }, signal })).files);

/** Types that are bound to the reducer, as the version of a base. */
async function boundTo(client: StatefoldClient, id: string, signal: AbortSignal): Promise<string> {
  const types = await aggregateTypesOf(client, signal);
  return JSON.stringify(types.filter(({ reducerId }) => reducerId === id).map(({ aggregateType }) => aggregateType));
}

/** The files to begin with: those of a template, or the sources of what is there. @throws ClientError */
export async function storedCode(
  client: StatefoldClient,
  { kind, id, mayRead }: { readonly kind: Kind; readonly id: string | undefined; readonly mayRead: boolean },
  signal: AbortSignal,
): Promise<{ readonly sources: Sources; readonly base: Base | undefined }> {
  // Another object each time: what is loaded again is shown again.
  if (id === undefined) return { sources: { ...TEMPLATES[kind] }, base: undefined };
  if (kind === 'reducers') {
    const { files } = await client.request('getReducerSources', { path: { id }, signal });
    const sources = sourcesOf(files);
    const version = mayRead ? await boundTo(client, id, signal) : UNKNOWN;
    return { sources, base: { version, sources } };
  }
  const { live, revision } = await client.request('getProjection', { path: { id }, signal });
  const sources = await sourcesOfRevision(client, id, live?.revision ?? revision, signal);
  return { sources, base: { version: live?.artefactId ?? UNKNOWN, sources } };
}

/** What the next deploy is compared with once `sources` are deployed as `id`. @throws ClientError */
export async function deployedBase(
  client: StatefoldClient,
  { kind, id, mayRead }: { readonly kind: Kind; readonly id: string; readonly mayRead: boolean },
  sources: Sources,
): Promise<Base> {
  const isCompared = kind === 'reducers' && mayRead;
  return { version: isCompared ? await boundTo(client, id, new AbortController().signal) : UNKNOWN, sources };
}

/**
 * Whether somebody has put other code in the place of what `base` was, which a deploy of `mine` would take away: a further revision of the
 * projection, or another reducer for a type. The service takes no condition with an upload, so this is looked at right before it.
 * @throws ClientError
 */
export async function changedMeanwhile(
  client: StatefoldClient,
  { kind, id, base, mine }: { readonly kind: Kind; readonly id: string; readonly base: Base; readonly mine: Sources },
): Promise<ChangedMeanwhile | undefined> {
  const found = await (kind === 'reducers' ? otherReducer(client, id, base) : otherRevision(client, id, base));
  if (found === undefined) return undefined;
  const theirs = codeIn(found.now.sources);
  // A rebuild, or the way back to the same code, takes nothing from anybody.
  return sameSources(theirs, codeIn(base.sources)) || sameSources(theirs, codeIn(mine)) ? undefined : found;
}

async function otherRevision(client: StatefoldClient, id: string, base: Base): Promise<ChangedMeanwhile | undefined> {
  const { signal } = new AbortController();
  const last = await newest(client, id, signal);
  if (last === undefined || last.artefactId === base.version) return undefined;
  const sources = await sourcesOfRevision(client, id, last.revision, signal);
  return {
    id,
    name: `Revision ${last.revision}`,
    createdAt: last.createdAt,
    now: { version: last.artefactId, sources },
  };
}

async function otherReducer(client: StatefoldClient, id: string, base: Base): Promise<ChangedMeanwhile | undefined> {
  const { signal } = new AbortController();
  const wereBound = JSON.parse(base.version) as readonly string[];
  const types = await aggregateTypesOf(client, signal);
  const taken = types.find(
    ({ aggregateType, reducerId }) => wereBound.includes(aggregateType) && reducerId !== undefined && reducerId !== id,
  );
  if (taken?.reducerId === undefined) return undefined;
  const path = { id: taken.reducerId };
  const { createdAt } = await client.request('getReducer', { path, signal });
  const { files } = await client.request('getReducerSources', { path, signal });
  return {
    id: taken.reducerId,
    name: `Another reducer of ${taken.aggregateType}`,
    createdAt,
    now: { version: base.version, sources: sourcesOf(files) },
  };
}
