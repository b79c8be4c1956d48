import { isRefused, type Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Link, useLocation, useSearchParams } from 'wouter-preact';
import { useDeeds } from '../deed';
import { useLoad, type Loaded } from '../load';
import { usePages } from '../pages-of';
import { useSession } from '../session';
import { Confirm } from '../ui/dialogs';
import { Json } from '../ui/json';
import { Badge, Empty, Failure, Loading, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { ago, count, plural, shortJson } from '../words';
import { KeyHistory } from './key-history';
import { Revisions } from './revisions';

type Projection = Operations['getProjection']['answer'];
type ProjectionState = Operations['listStates']['answer']['states'][number];
type KeyFault = NonNullable<Projection['faults']>[number];
const PAGE = 500;
const EVERY_MS = 3_000;

const nameOf = (one: Projection): string => one.discovered?.map(({ className }) => className).join(', ') ?? one.id;

function Status({ of }: { readonly of: Projection }): JSX.Element {
  if (of.faulted !== undefined) return <Badge kind="bad">stopped</Badge>;
  if (of.status === 'failed') return <Badge kind="bad">not compiled</Badge>;
  if (of.build?.status === 'running')
    return (
      <Badge kind="busy">
        {of.build.cause}: {count(of.build.processed)} of {count(of.build.total)}
      </Badge>
    );
  if (of.live !== undefined) return <Badge kind="good">live</Badge>;
  return <Badge kind={of.status === 'compiled' ? 'good' : 'busy'}>{of.status}</Badge>;
}

export function ProjectionsPage(): JSX.Element {
  const { client } = useSession();
  const [, go] = useLocation();
  const list = usePages(
    async (cursor, signal) => {
      const page = await client.request('listProjections', { query: { limit: 100, cursor }, signal });
      return { items: page.projections, nextCursor: page.nextCursor };
    },
    [client],
  );
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && list.refresh(), EVERY_MS);
    return () => clearInterval(timer);
  }, [list.refresh]);
  return (
    <Page
      title="Projections"
      aside={
        <button type="button" onClick={list.reload}>
          Reload
        </button>
      }
    >
      {list.error !== undefined && <Failure error={list.error} onRetry={list.more} />}
      {list.items.length > 0 ? (
        <Rows
          count={list.items.length}
          label="Projections"
          columns="minmax(10rem, 2fr) 11rem 8rem 7rem 5rem 5rem 11rem"
          minWidth={820}
          heads={['Projection', 'Status', 'Behind by', 'Events/s', 'Revision', 'Faults', 'Uploaded']}
          onEnd={list.more}
          onSelect={(index) => go(`/projections/${list.items[index]?.id ?? ''}`)}
          row={(index) => {
            const one = list.items[index];
            if (one === undefined) return { key: index, cells: [] };
            return {
              key: one.id,
              cells: [
                <Link href={`/projections/${one.id}`} tabIndex={-1} title={one.id}>
                  {nameOf(one)}
                </Link>,
                <Status of={one} />,
                one.lag === undefined ? (
                  <span class="faint">{one.live && 'nothing'}</span>
                ) : (
                  <span title={`since ${one.lag.since}`}>
                    {plural(one.lag.commits, 'commit')}, {ago(one.lag.since)}
                  </span>
                ),
                <span class="number">{one.eventsPerSecond !== undefined && count(one.eventsPerSecond)}</span>,
                <span class="number">{one.live?.revision ?? one.revision}</span>,
                <span class="number">{count(one.faultCount ?? 0)}</span>,
                <Time at={one.createdAt} />,
              ],
            };
          }}
        />
      ) : list.isLoading ? (
        <Loading />
      ) : (
        list.error === undefined && (
          <Empty title="There are no projections">
            <p>A projection keeps states across aggregates, each under a key. Upload its C# code to make one.</p>
          </Empty>
        )
      )}
    </Page>
  );
}

/** Status, keys with their states, faults with what releases them, and revisions. */
export function ProjectionPage({ id }: { readonly id: string }): JSX.Element {
  const { client } = useSession();
  const status = useLoad((signal) => client.request('getProjection', { path: { id }, signal }), [client, id], EVERY_MS);
  const one = status.value;
  if (one === undefined)
    return (
      <Page title={id}>
        {isRefused(status.error, 'NOT_FOUND') ? (
          <Empty title="There is no such projection">
            <p>
              It may have been deleted. <Link href="/projections">See those that are there</Link>.
            </p>
          </Empty>
        ) : status.error === undefined ? (
          <Loading />
        ) : (
          <Outdated of={status} />
        )}
      </Page>
    );
  return (
    <Page
      title={nameOf(one)}
      aside={
        <>
          <Status of={one} />
          {one.lag && (
            <Badge kind="busy">
              behind by {plural(one.lag.commits, 'commit')}, {ago(one.lag.since)}
            </Badge>
          )}
          <span class="faint">
            {one.eventsPerSecond !== undefined && `${count(one.eventsPerSecond)} events/s · `}
            revision {one.live?.revision ?? one.revision} · <code>{id}</code>
          </span>
        </>
      }
    >
      <Outdated of={status} />
      {one.faulted?.message !== undefined && <p class="failure">{one.faulted.message}</p>}
      {one.compilationError !== undefined && <pre class="failure">{one.compilationError}</pre>}
      <Faults of={one} onChanged={status.reload} />
      <States of={one} />
      <Revisions of={one} onChanged={status.reload} />
    </Page>
  );
}

function Faults({ of: one, onChanged }: { readonly of: Projection; readonly onChanged: () => void }): JSX.Element {
  const session = useSession();
  const { client } = session;
  const { busy, error, run } = useDeeds();
  const [skipped, setSkipped] = useState<KeyFault>();
  const { faults = [], faultCount = faults.length } = one;
  if (faults.length === 0) return <></>;
  const mayDeploy = session.may('deploy');
  const release = async (operation: 'retryKey' | 'skipKey', { key, eventId }: KeyFault): Promise<void> => {
    await client.request(operation, { path: { id: one.id, key }, body: { eventId } });
    onChanged();
  };
  return (
    <section aria-label="Faults">
      <h2>{plural(faultCount, 'fault')}</h2>
      {error !== undefined && <Failure error={error} />}
      <ul class="faults">
        {faults.map((fault) => (
          <li key={`${fault.key} ${fault.className}`}>
            <strong>{fault.key}</strong> {fault.message}{' '}
            <span class="faint">
              {fault.file !== null && `${fault.file}:${fault.line ?? '?'} · `}
              {fault.eventType}, version {fault.version} of{' '}
              <Link href={`/aggregates/${encodeURIComponent(fault.aggregateId)}?version=${fault.version}`}>
                {fault.aggregateId}
              </Link>
            </span>
            {mayDeploy && (
              <>
                <button
                  type="button"
                  disabled={busy !== undefined}
                  onClick={() => run('retry', () => release('retryKey', fault))}
                >
                  Retry
                </button>
                <button type="button" disabled={busy !== undefined} onClick={() => setSkipped(fault)}>
                  Skip the event
                </button>
              </>
            )}
          </li>
        ))}
      </ul>
      {faults.length < faultCount && (
        <p class="faint">The {count(faults.length)} that came first are shown; others follow as these are released.</p>
      )}
      {skipped !== undefined && (
        <Confirm
          title={`Skip the event for the key ${skipped.key}?`}
          deed="Skip it"
          onClose={() => setSkipped(undefined)}
          run={() => release('skipKey', skipped)}
        >
          <p>
            {skipped.eventType}, version {skipped.version} of {skipped.aggregateId}, leaves no mark on its state. A
            rebuild folds it again.
          </p>
        </Confirm>
      )}
    </section>
  );
}

/** Two classes may keep a state under one key each. */
const isOf = (state: ProjectionState | undefined, key: string | null, className: string | null): boolean =>
  state !== undefined && state.key === key && (className === null || state.className === className);

/** Keys with their states, which follow what is folded. What is looked for and what is chosen is in the address. */
function States({ of: one }: { readonly of: Projection }): JSX.Element {
  const { id, lastSequence } = one;
  const { client } = useSession();
  const [search, setSearch] = useSearchParams();
  const prefix = search.get('prefix') ?? '';
  const key = search.get('key');
  const className = search.get('class');
  const hasClasses = (one.discovered?.length ?? 1) > 1;
  const set = (change: Readonly<Record<string, string | undefined>>): void =>
    setSearch(
      (before) => {
        const all: Record<string, string | undefined> = { ...Object.fromEntries(before), ...change };
        return Object.entries(all).filter((entry): entry is [string, string] => (entry[1] ?? '') !== '');
      },
      { replace: true },
    );
  const states = usePages(
    async (cursor, signal) => {
      const query = { limit: PAGE, cursor, ...(prefix === '' ? {} : { prefix }) };
      const page = await client.request('listStates', { path: { id }, query, signal });
      return { items: page.states, nextCursor: page.nextCursor };
    },
    [client, id, prefix],
  );
  // Also of a key that no page has brought yet.
  const chosen = useLoad(
    async (signal) =>
      key === null
        ? undefined
        : (await client.request('getStates', { path: { id, key }, signal })).states.find((state) =>
            isOf(state, key, className),
          ),
    [client, id, key, className],
  );
  useEffect(() => {
    states.refresh();
    chosen.reload();
  }, [lastSequence]);
  return (
    <>
      <div class="filters">
        <label>
          <span>Keys that begin with</span>
          <input type="search" value={prefix} onInput={({ currentTarget: { value } }) => set({ prefix: value })} />
        </label>
      </div>
      {states.error !== undefined && <Failure error={states.error} onRetry={states.more} />}
      {states.items.length > 0 || key !== null ? (
        <div class={key === null ? '' : 'split'}>
          <Rows
            count={states.items.length}
            label="Keys and states"
            columns={`minmax(8rem, 1fr) ${hasClasses ? '8rem ' : ''}minmax(10rem, 3fr) 6rem 11rem`}
            heads={['Key', ...(hasClasses ? ['Class'] : []), 'State', 'Sequence', 'Changed']}
            onEnd={states.more}
            selected={(index) => isOf(states.items[index], key, className)}
            onSelect={(index) => set({ key: states.items[index]?.key, class: states.items[index]?.className })}
            row={(index) => {
              const state = states.items[index];
              return {
                key: `${state?.key ?? index} ${state?.className ?? ''}`,
                cells: [
                  state?.key,
                  ...(hasClasses ? [state?.className] : []),
                  <code>{shortJson(state?.state)}</code>,
                  <span class="number">{state?.sequence}</span>,
                  state && <Time at={state.lastModified} />,
                ],
              };
            }}
          />
          {key !== null && (
            <Chosen
              id={id}
              name={key}
              hasClasses={hasClasses}
              of={chosen}
              onClose={() => set({ key: '', class: '' })}
            />
          )}
        </div>
      ) : states.isLoading ? (
        <Loading />
      ) : (
        states.error === undefined && (
          <Empty title="There are no keys here">
            <p>No event has led to a state under such a key yet.</p>
          </Empty>
        )
      )}
    </>
  );
}

function Chosen({
  id,
  name,
  hasClasses,
  of,
  onClose,
}: {
  readonly id: string;
  readonly name: string;
  readonly hasClasses: boolean;
  readonly of: Loaded<ProjectionState | undefined>;
  readonly onClose: () => void;
}): JSX.Element {
  const { value: state, error, isLoading } = of;
  const isMissing = state === undefined && (isRefused(error, 'NOT_FOUND') || (error === undefined && !isLoading));
  return (
    <div class="detail">
      <h2>
        {name} {hasClasses && state && <span class="faint">{state.className}</span>}
      </h2>
      {isMissing ? (
        <p>There is no state under this key.</p>
      ) : (
        <>
          <Outdated of={of} />
          {state === undefined && error === undefined && <Loading />}
        </>
      )}
      {state !== undefined && <Json value={state.state} label="State of the key" />}
      <button type="button" onClick={onClose}>
        Close
      </button>
      {state !== undefined && (
        <section aria-label="History of the key">
          <h2>History</h2>
          <KeyHistory key={`${state.key} ${state.className}`} id={id} of={state} />
        </section>
      )}
    </div>
  );
}
