import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useSearchParams } from 'wouter-preact';
import { aggregateTypesOf, type AggregateType } from '../aggregate-types';
import { useLoad } from '../load';
import { allPages } from '../pages-of';
import { reducersOf, type Reducer } from '../reducers';
import { useSession } from '../session';
import { readFolder, sourcesOf, TEMPLATES, type Kind, type Sources } from '../sources';
import { Failure, Loading, Page } from '../ui/parts';
import { classesOf, plural, timeOf } from '../words';
import { Workbench } from './workbench';

/** What is open in the workbench; `n` is another one each time that other files are. */
interface Opened {
  readonly kind: Kind;
  readonly sources: Sources;
  readonly n: number;
}

/** Code as files: written, compiled, tried on fixtures and on the stored history, and deployed. */
export function CodePage(): JSX.Element {
  const session = useSession();
  const { client, drafts } = session;
  const [search, setSearch] = useSearchParams();
  const kind: Kind = search.get('kind') === 'reducers' ? 'reducers' : 'projections';
  const id = search.get('id') ?? undefined;
  const draft = `${kind} ${id ?? ''}`;
  const [opened, setOpened] = useState<Opened>();
  const [nothing, setNothing] = useState<string>();
  const open = (sources: Sources): void => setOpened((before) => ({ kind, sources, n: (before?.n ?? 0) + 1 }));
  const list = useLoad(
    async (signal) => {
      if (!session.may('read')) return [];
      const [reducers, projections, types] = await Promise.all([
        reducersOf(client, signal),
        allPages(async (cursor) => {
          const page = await client.request('listProjections', { query: { limit: 500, cursor }, signal });
          return { items: page.projections, nextCursor: page.nextCursor };
        }),
        aggregateTypesOf(client, signal),
      ]);
      return [
        ...reducers.map((one) => ({ of: `reducers ${one.id}`, words: wordsOf(one, types) })),
        ...projections.map((one) => ({ of: `projections ${one.id}`, words: `projection ${classesOf(one)}` })),
      ];
    },
    [client],
  );
  /** What was just made of the files that are open: they stay open. */
  const made = useRef<string>();
  const stored = useLoad(
    async (signal): Promise<Sources | undefined> => {
      if (id !== undefined && made.current === id) return undefined;
      if (id === undefined) return TEMPLATES[kind];
      if (kind === 'reducers')
        return sourcesOf((await client.request('getReducerSources', { path: { id }, signal })).files);
      const { live, revision } = await client.request('getProjection', { path: { id }, signal });
      const path = { id, revision: String(live?.revision ?? revision) };
      return sourcesOf((await client.request('getRevisionSources', { path, signal })).files);
    },
    [client, kind, id],
  );
  useEffect(() => {
    if (stored.value !== undefined) open(drafts.get(draft) ?? stored.value);
  }, [stored.value]);
  const choose = (value: string): void => {
    made.current = undefined;
    setNothing(undefined);
    setOpened(undefined);
    const [chosen = 'projections', of = ''] = value.split(' ');
    setSearch(of === '' ? { kind: chosen } : { kind: chosen, id: of });
  };
  const take = (input: HTMLInputElement): void => {
    const files = [...(input.files ?? [])];
    // So that the same folder can be taken once more.
    input.value = '';
    if (files.length === 0) return;
    void readFolder(files).then((sources) => {
      const isEmpty = Object.keys(sources).length === 0;
      setNothing(isEmpty ? `Of the ${plural(files.length, 'file')} of the folder none is C# code.` : undefined);
      if (isEmpty) return;
      drafts.set(draft, sources);
      open(sources);
    });
  };
  const discard = (): void => {
    drafts.delete(draft);
    made.current = undefined;
    stored.reload();
  };
  return (
    <Page
      title="Code"
      aside={
        <>
          <label class="inline">
            <span class="faint">Code of</span>{' '}
            <select value={draft} onChange={({ currentTarget: { value } }) => choose(value)}>
              <option value="projections ">a new projection, from the template</option>
              <option value="reducers ">a new reducer, from the template</option>
              {id !== undefined && !list.value?.some(({ of }) => of === draft) && <option value={draft}>{id}</option>}
              {list.value?.map(({ of, words }) => (
                <option key={of} value={of}>
                  {words}
                </option>
              ))}
            </select>
          </label>
          <label class="file">
            <span>Take the files of a folder</span>
            <input
              type="file"
              multiple
              aria-label="Take the files of a folder"
              ref={(input) => input?.setAttribute('webkitdirectory', '')}
              onChange={({ currentTarget }) => take(currentTarget)}
            />
          </label>
        </>
      }
    >
      {list.error !== undefined && <Failure error={list.error} onRetry={list.reload} />}
      {nothing !== undefined && (
        <p class="failure" role="alert">
          {nothing}
        </p>
      )}
      {stored.error !== undefined && <Failure error={stored.error} onRetry={stored.reload} />}
      {opened === undefined || opened.kind !== kind ? (
        stored.error === undefined && <Loading />
      ) : (
        <Workbench
          key={opened.n}
          kind={kind}
          id={id}
          given={opened.sources}
          hasDraft={drafts.has(draft)}
          onChange={(sources) => drafts.set(draft, sources)}
          onDiscard={discard}
          onDeployed={(of, isCompiled) => {
            const sources = drafts.get(draft);
            drafts.delete(draft);
            if (!isCompiled && sources !== undefined) drafts.set(`${kind} ${of}`, sources);
            list.reload();
            if (of === id) return;
            // What is deployed next is a revision of it.
            made.current = of;
            setSearch({ kind, id: of }, { replace: true });
          }}
        />
      )}
    </Page>
  );
}

/** Reducers of one name are told apart by what they are bound to, and when they came. */
function wordsOf(one: Reducer, types: readonly AggregateType[]): string {
  const bound = types.filter(({ reducerId }) => reducerId === one.id).map(({ aggregateType }) => aggregateType);
  return `reducer ${classesOf(one)}, ${bound.length > 0 ? `bound to ${bound.join(', ')}` : 'not bound'}, of ${timeOf(one.createdAt)}`;
}
