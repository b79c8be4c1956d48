import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link, useSearchParams } from 'wouter-preact';
import { aggregateTypesOf, type AggregateType } from '../aggregate-types';
import { useLoad } from '../load';
import { reducersOf, type Reducer } from '../reducers';
import { useSession } from '../session';
import { useShown } from '../shown';
import { Detail } from '../ui/detail';
import { Confirm } from '../ui/dialogs';
import { Badge, Empty, Loading, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { classesOf, plural } from '../words';
import { Halted } from './halted';

const EVERY_MS = 5_000;

/** A reducer with the types that are bound to it. */
interface Listed {
  readonly reducer: Reducer;
  readonly types: readonly AggregateType[];
}

/** Uploads of reducers, the newest first; of the one that is chosen what became of it. */
export function ReducersPage(): JSX.Element {
  const session = useSession();
  const { client } = session;
  const [search, setSearch] = useSearchParams();
  const id = search.get('id') ?? undefined;
  const list = useLoad(
    async (signal): Promise<readonly Listed[]> => {
      const [reducers, types] = await Promise.all([reducersOf(client, signal), aggregateTypesOf(client, signal)]);
      return reducers
        .map((reducer) => ({ reducer, types: types.filter(({ reducerId }) => reducerId === reducer.id) }))
        .sort((a, b) => b.reducer.createdAt.localeCompare(a.reducer.createdAt));
    },
    [client],
    EVERY_MS,
  );
  if (list.value === undefined)
    return <Page title="Reducers">{list.error === undefined ? <Loading /> : <Outdated of={list} />}</Page>;
  const all = list.value;
  const chosen = all.find(({ reducer }) => reducer.id === id);
  return (
    <Page
      title="Reducers"
      aside={
        <>
          <span class="faint">{plural(all.length, 'upload')}</span>
          {session.may('deploy') && <Link href="/code?kind=reducers">Write a new one</Link>}
        </>
      }
    >
      <Outdated of={list} />
      {all.length === 0 ? (
        <Empty title="There are no reducers">
          <p>A reducer makes the states of the aggregates of a type. Upload its C# code to make one.</p>
        </Empty>
      ) : (
        <div class={id === undefined ? '' : 'split'}>
          <Rows
            count={all.length}
            label="Reducers, the newest first"
            columns="minmax(10rem, 2fr) 8rem minmax(6rem, 1fr) 11rem"
            heads={['Classes', 'Status', 'Bound to', 'Uploaded']}
            minWidth={560}
            shows={chosen && all.indexOf(chosen)}
            selected={(index) => all[index] === chosen && chosen !== undefined}
            onSelect={(index) => setSearch({ id: all[index]?.reducer.id ?? '' }, { replace: true })}
            row={(index) => {
              const one = all[index];
              if (one === undefined) return { key: index, cells: [] };
              return {
                key: one.reducer.id,
                cells: [
                  classesOf(one.reducer),
                  <Status of={one} />,
                  one.types.map(({ aggregateType }) => aggregateType).join(', '),
                  <Time at={one.reducer.createdAt} />,
                ],
              };
            }}
          />
          {id !== undefined && (
            <Detail onClose={() => setSearch({}, { replace: true })}>
              {chosen === undefined ? (
                <p>There is no reducer {id}: it may have been deleted.</p>
              ) : (
                <OfReducer
                  key={id}
                  of={chosen}
                  onChanged={list.reload}
                  onDeleted={(isShown) => {
                    if (isShown) setSearch({}, { replace: true });
                    list.reload();
                  }}
                />
              )}
            </Detail>
          )}
        </div>
      )}
    </Page>
  );
}

function Status({ of: { reducer, types } }: { readonly of: Listed }): JSX.Element {
  if (reducer.faulted !== undefined) return <Badge kind="bad">stopped</Badge>;
  if (reducer.status === 'failed') return <Badge kind="bad">not compiled</Badge>;
  if (reducer.status === 'pending_compilation') return <Badge kind="busy">compiling</Badge>;
  return types.length > 0 ? <Badge kind="good">bound</Badge> : <Badge>not bound</Badge>;
}

function OfReducer({
  of,
  onChanged,
  onDeleted,
}: {
  readonly of: Listed;
  readonly onChanged: () => void;
  /** `isShown`: no other one was chosen meanwhile. */
  readonly onDeleted: (isShown: boolean) => void;
}): JSX.Element {
  const session = useSession();
  const isShown = useShown();
  const [isDeleting, setDeleting] = useState(false);
  const { reducer, types } = of;
  const { id, status, discovered = [], compilationError, compiledAt, unboundTypes = [], faulted } = reducer;
  const mayDeploy = session.may('deploy');
  return (
    <section aria-label="The reducer">
      <h2>
        {classesOf(reducer)} <Status of={of} />
      </h2>
      {faulted !== undefined && <Halted reducerId={id} of={faulted} onRevived={onChanged} />}
      {compilationError !== undefined && (
        <pre class="failure" tabIndex={0} role="region" aria-label="What the compiler says">
          {compilationError}
        </pre>
      )}
      <dl>
        <dt>Id</dt>
        <dd>
          <code>{id}</code>
        </dd>
        {discovered.map(({ className, aggregateType, stateTypeName }) => (
          <>
            <dt>Class</dt>
            <dd>
              {className}, of the type{' '}
              {aggregateType === undefined ? 'that it is bound to' : <OfType name={aggregateType} />}; its state is{' '}
              {stateTypeName}
            </dd>
          </>
        ))}
        {types.map(({ aggregateType, className, boundAt }) => (
          <>
            <dt>Bound</dt>
            <dd>
              {className} to <OfType name={aggregateType} />
              {boundAt !== undefined && (
                <>
                  , since <Time at={boundAt} />
                </>
              )}
            </dd>
          </>
        ))}
        {unboundTypes.map(({ aggregateType, classNames, reason }) => (
          <>
            <dt>Not bound</dt>
            <dd>
              {classNames.join(', ')} to <OfType name={aggregateType} />: {reason}
            </dd>
          </>
        ))}
        {compiledAt !== undefined && (
          <>
            <dt>Compiled</dt>
            <dd>
              <Time at={compiledAt} />
            </dd>
          </>
        )}
      </dl>
      {mayDeploy && (
        <p class="filters">
          <Link href={`/code?kind=reducers&id=${id}`}>Change the code</Link>
          {types.length === 0 && status !== 'pending_compilation' && (
            <button type="button" class="danger" onClick={() => setDeleting(true)}>
              Delete
            </button>
          )}
        </p>
      )}
      {isDeleting && (
        <Confirm
          title={`Delete ${classesOf(reducer)}?`}
          deed="Delete"
          onClose={() => setDeleting(false)}
          run={async () => {
            await session.client.request('deleteReducer', { path: { id } });
            onDeleted(isShown());
          }}
        >
          <p>
            Nothing is bound to it. Its sources and its compiled code go with it, and no type can be bound to it again.
          </p>
        </Confirm>
      )}
    </section>
  );
}

const OfType = ({ name }: { readonly name: string }): JSX.Element => (
  <Link href={`/types/${encodeURIComponent(name)}`}>{name}</Link>
);
