import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useSearchParams } from 'wouter-preact';
import { aggregateTypesOf, type AggregateType } from '../aggregate-types';
import { useLoad } from '../load';
import { allPages } from '../pages-of';
import { sameSources, type Base } from '../drafts';
import { reducersOf, type Reducer } from '../reducers';
import { useSession } from '../session';
import { fixturesIn, readFolder, type Kind, type Sources } from '../sources';
import { storedCode } from '../stored-code';
import { Confirm } from '../ui/dialogs';
import { Empty, Failure, Loading, Page } from '../ui/parts';
import { classesOf, plural, timeOf } from '../words';
import { Workbench, type DeployedCode } from './workbench';

/** What is open in the workbench; `n` is another one each time that other files are. */
interface Opened {
  /** What is made of them: what the address names may be another one already. */
  readonly kind: Kind;
  readonly id: string | undefined;
  readonly sources: Sources;
  readonly base: Base | undefined;
  readonly n: number;
}

/** What drafts are kept by, and choices are made by. */
const draftOf = ({ kind, id }: Pick<Opened, 'kind' | 'id'>): string => `${kind} ${id ?? ''}`;

/** Code as files: written, compiled, tried on fixtures and on the stored history, and deployed. */
export function CodePage(): JSX.Element {
  const session = useSession();
  const { client, drafts, fixtures } = session;
  const [search, setSearch] = useSearchParams();
  const kind: Kind = search.get('kind') === 'reducers' ? 'reducers' : 'projections';
  const id = search.get('id') ?? undefined;
  const draft = draftOf({ kind, id });
  const chosen = useRef(draft);
  chosen.current = draft;
  // The sources of a projection are found by its live revision.
  const isHidden = kind === 'projections' && id !== undefined && !session.may('read');
  const [opened, setOpened] = useState<Opened>();
  const [nothing, setNothing] = useState<string>();
  /** The files of a folder, while it is asked whether they take the place of what was written. */
  const [taken, setTaken] = useState<Sources>();
  /** What was just made of the files that are open: they stay open. */
  const made = useRef<string>();
  const open = (files: Pick<Opened, 'sources' | 'base'>): void => {
    made.current = undefined;
    setOpened((before) => ({ kind, id, ...files, n: (before?.n ?? 0) + 1 }));
  };
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
  const stored = useLoad(
    async (signal) =>
      made.current === draft || isHidden
        ? undefined
        : storedCode(client, { kind, id, mayRead: session.may('read') }, signal),
    [client, kind, id],
  );
  useEffect(() => {
    if (stored.value === undefined) return;
    const written = drafts.get(draft);
    const { sources, base } = stored.value;
    open(
      written === undefined
        ? { sources: { ...sources, ...fixtures.get(draft) }, base }
        : { sources: written.sources, base: written.base ?? base },
    );
  }, [stored.value]);
  const choose = (value: string): void => {
    made.current = undefined;
    setNothing(undefined);
    setTaken(undefined);
    setOpened(undefined);
    const [kindChosen = 'projections', of = ''] = value.split(' ');
    setSearch(of === '' ? { kind: kindChosen } : { kind: kindChosen, id: of });
  };
  const take = (input: HTMLInputElement): void => {
    const files = [...(input.files ?? [])];
    // So that the same folder can be taken once more.
    input.value = '';
    if (files.length === 0) return;
    void readFolder(files).then((sources) => {
      // Another one was chosen while the files were read.
      if (chosen.current !== draft) return;
      const isEmpty = Object.keys(sources).length === 0;
      setNothing(isEmpty ? `Of the ${plural(files.length, 'file')} of the folder none is C# code.` : undefined);
      if (isEmpty) return;
      if (drafts.has(draft)) setTaken(sources);
      else put(sources);
    });
  };
  const put = (sources: Sources): void => {
    const base = opened !== undefined && draftOf(opened) === draft ? opened.base : undefined;
    drafts.set(draft, { sources, base });
    open({ sources, base });
  };
  const discard = (): void => {
    drafts.delete(draft);
    made.current = undefined;
    stored.reload();
  };
  /** Once `sent` is deployed as `of`: what was written since stays a draft, of what it is now. */
  const deployed = (from: Opened, { of, sent, isCompiled, base, isShown }: DeployedCode): void => {
    const written = drafts.get(draftOf(from));
    const now = { kind: from.kind, id: of };
    drafts.delete(draftOf(from));
    // The service keeps none: this may be the only copy.
    fixtures.set(draftOf(now), fixturesIn(sent));
    if (written !== undefined && !(isCompiled && sameSources(written.sources, sent)))
      drafts.set(draftOf(now), { sources: written.sources, base });
    list.reload();
    if (!isShown || of === from.id) return;
    // What is deployed next is a revision of it.
    made.current = draftOf(now);
    setOpened((before) => (before?.n === from.n ? { ...before, ...now } : before));
    setSearch(now, { replace: true });
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
      {taken !== undefined && (
        <Confirm
          title="Put the files of the folder in place of what was written?"
          deed="Put them in its place"
          onClose={() => setTaken(undefined)}
          run={() => {
            put(taken);
            return Promise.resolve();
          }}
        >
          <p>
            What was written here and is not deployed is lost:{' '}
            {Object.keys(drafts.get(draft)?.sources ?? {}).join(', ')}.
          </p>
        </Confirm>
      )}
      {stored.error !== undefined && <Failure error={stored.error} onRetry={stored.reload} />}
      {opened === undefined || draftOf(opened) !== draft ? (
        isHidden ? (
          <Empty title="Your key may not see the code of this projection">
            <p>
              Its scopes leave out “read”. It may deploy the projection anew all the same: take the files of a folder,
              or begin with the template.
            </p>
          </Empty>
        ) : (
          stored.error === undefined && <Loading />
        )
      ) : (
        <Workbench
          key={opened.n}
          kind={opened.kind}
          id={opened.id}
          given={opened.sources}
          base={opened.base}
          hasDraft={drafts.has(draft)}
          onChange={(written) => drafts.set(draft, written)}
          onDiscard={discard}
          onTake={({ id: of, now }) => {
            drafts.delete(draft);
            if (of === id) open({ sources: now.sources, base: now });
            else choose(`${kind} ${of}`);
          }}
          onDeployed={(what) => deployed(opened, what)}
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
