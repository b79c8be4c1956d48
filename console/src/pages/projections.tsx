import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link, useLocation, useSearchParams } from 'wouter-preact';
import { useLoad } from '../load';
import { usePages } from '../pages-of';
import { useSession } from '../session';
import { Badge, Empty, Failure, Json, Loading, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { count, plural } from '../words';
import { KeyHistory } from './key-history';
import { Revisions } from './revisions';

type Projection = Operations['getProjection']['answer'];
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
          columns="minmax(10rem, 2fr) 12rem 6rem 6rem 12rem"
          heads={['Projection', 'Status', 'Revision', 'Faults', 'Uploaded']}
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
  const session = useSession();
  const { client } = session;
  const status = useLoad((signal) => client.request('getProjection', { path: { id }, signal }), [client, id], EVERY_MS);
  const [search, setSearch] = useSearchParams();
  const prefix = search.get('prefix') ?? '';
  const [chosen, setChosen] = useState<string>();
  const [refused, setRefused] = useState<unknown>();
  const states = usePages(
    async (cursor, signal) => {
      const query = { limit: PAGE, cursor, ...(prefix === '' ? {} : { prefix }) };
      const page = await client.request('listStates', { path: { id }, query, signal });
      return { items: page.states, nextCursor: page.nextCursor };
    },
    [client, id, prefix],
  );
  const one = status.value;
  if (one === undefined)
    return (
      <Page title={id}>
        {status.error === undefined ? <Loading /> : <Failure error={status.error} onRetry={status.reload} />}
      </Page>
    );
  const release = (operation: 'retryKey' | 'skipKey', key: string, eventId: string): void => {
    setRefused(undefined);
    client.request(operation, { path: { id, key }, body: { eventId } }).then(() => {
      status.reload();
      states.reload();
    }, setRefused);
  };
  const selected = states.items.find(({ key }) => key === chosen);
  const mayDeploy = session.may('deploy');
  return (
    <Page
      title={nameOf(one)}
      aside={
        <>
          <Status of={one} />
          {one.lag && (
            <Badge kind="busy">
              behind by {plural(one.lag.commits, 'commit')}, since <Time at={one.lag.since} />
            </Badge>
          )}
          <span class="faint">
            revision {one.live?.revision ?? one.revision} · <code>{id}</code>
          </span>
        </>
      }
    >
      {one.faulted?.message !== undefined && <p class="failure">{one.faulted.message}</p>}
      {one.compilationError !== undefined && <pre class="failure">{one.compilationError}</pre>}
      {refused !== undefined && <Failure error={refused} />}
      {one.faults !== undefined && one.faults.length > 0 && (
        <section aria-label="Faults">
          <h2>{plural(one.faultCount ?? one.faults.length, 'fault')}</h2>
          <ul class="faults">
            {one.faults.map((fault) => (
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
                    <button type="button" onClick={() => release('retryKey', fault.key, fault.eventId)}>
                      Retry
                    </button>
                    <button type="button" onClick={() => release('skipKey', fault.key, fault.eventId)}>
                      Skip the event
                    </button>
                  </>
                )}
              </li>
            ))}
          </ul>
        </section>
      )}
      <div class="filters">
        <label>
          <span>Keys that begin with</span>
          <input
            type="search"
            value={prefix}
            onInput={({ currentTarget: { value } }) =>
              setSearch(value === '' ? {} : { prefix: value }, { replace: true })
            }
          />
        </label>
      </div>
      {states.error !== undefined && <Failure error={states.error} onRetry={states.more} />}
      {states.items.length > 0 ? (
        <div class={selected ? 'split' : ''}>
          <Rows
            count={states.items.length}
            label="Keys and states"
            columns="minmax(8rem, 1fr) minmax(10rem, 3fr) 6rem 11rem"
            heads={['Key', 'State', 'Sequence', 'Changed']}
            onEnd={states.more}
            selected={(index) => states.items[index]?.key === chosen}
            onSelect={(index) => setChosen(states.items[index]?.key)}
            row={(index) => {
              const state = states.items[index];
              return {
                key: `${state?.key ?? index} ${state?.className ?? ''}`,
                cells: [
                  state?.key,
                  <code>{JSON.stringify(state?.state)}</code>,
                  <span class="number">{state?.sequence}</span>,
                  state && <Time at={state.lastModified} />,
                ],
              };
            }}
          />
          {selected && (
            <div class="detail">
              <h2>{selected.key}</h2>
              <Json value={selected.state} label="State of the key" />
              <button type="button" onClick={() => setChosen(undefined)}>
                Close
              </button>
              <section aria-label="History of the key">
                <h2>History</h2>
                <KeyHistory key={selected.key} id={id} name={selected.key} />
              </section>
            </div>
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
      <Revisions of={one} onChanged={status.reload} />
    </Page>
  );
}
