import type { StatefoldClient } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link, useLocation, useSearchParams } from 'wouter-preact';
import { aggregateTypesOf, type AggregateType } from '../aggregate-types';
import { useLoad } from '../load';
import { isRefreshed, usePages, useRefreshed } from '../pages-of';
import { useSession } from '../session';
import { Badge, Empty, Loading, Outdated, Page, Time } from '../ui/parts';
import { Name } from '../ui/name';
import { Rows } from '../ui/rows';
import { count, plural } from '../words';

const PAGE = 500;
const EVERY_MS = 5_000;
/** As many aggregates of a type are marked that stopped. */
const STOPPED = 500;
/** Types with a button of their own, the largest first. */
const CHIPS = 12;

/** Ids of aggregates that stand at an event which the code threw at. @throws ClientError */
async function stoppedOf(
  client: StatefoldClient,
  types: readonly AggregateType[],
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const lists = await Promise.all(
    types.map(({ aggregateType: type }) =>
      client.request('listAggregateFaults', { path: { type }, query: { limit: STOPPED }, signal }),
    ),
  );
  return new Set(lists.flatMap(({ faults }) => faults.map(({ aggregateId }) => aggregateId)));
}

export function AggregatesPage(): JSX.Element {
  const { client } = useSession();
  const [, go] = useLocation();
  const [search, setSearch] = useSearchParams();
  const [id, setId] = useState('');
  const type = search.get('type') ?? undefined;
  const types = useLoad((signal) => aggregateTypesOf(client, signal), [client], EVERY_MS);
  const bySize = [...(types.value ?? [])].sort((a, b) => b.aggregates - a.aggregates);
  const [chips, others] = [bySize.slice(0, CHIPS), bySize.slice(CHIPS)];
  const list = usePages(
    async (cursor, signal) => {
      const { aggregates, nextCursor } = await client.request('listAggregates', {
        query: { type, limit: PAGE, cursor },
        signal,
      });
      return { items: aggregates, nextCursor };
    },
    [client, type],
  );
  useRefreshed(list, EVERY_MS);
  const folded = (type === undefined ? chips : bySize.filter(({ aggregateType }) => aggregateType === type)).filter(
    ({ reducerId }) => reducerId !== undefined,
  );
  const stopped = useLoad(
    (signal) => stoppedOf(client, folded, signal),
    [client, folded.map(({ aggregateType }) => aggregateType).join('\n')],
    EVERY_MS,
  );
  const [told, setTold] = useState<string>();
  const open = (aggregateId: string): void => {
    const isStep = aggregateId === '.' || aggregateId === '..';
    setTold(isStep ? `No address leads to “${aggregateId}”: a browser takes it for a step of the path.` : undefined);
    if (!isStep) go(`/aggregates/${encodeURIComponent(aggregateId)}`);
  };
  return (
    <Page
      title="Aggregates"
      aside={
        <form
          role="search"
          onSubmit={(event) => {
            event.preventDefault();
            if (id !== '') open(id);
          }}
        >
          <input
            type="search"
            aria-label="Open an aggregate by its id"
            placeholder="Open by id  /"
            value={id}
            onInput={({ currentTarget }) => setId(currentTarget.value)}
          />
        </form>
      }
    >
      <Outdated of={types} />
      <div class="chips" role="group" aria-label="Type of aggregates">
        <button type="button" aria-pressed={type === undefined} onClick={() => setSearch({})}>
          All
        </button>
        {chips.map(({ aggregateType, aggregates, eventsPerSecond = 0, faulted }) => (
          <button
            key={aggregateType}
            type="button"
            aria-pressed={type === aggregateType}
            onClick={() => setSearch({ type: aggregateType })}
          >
            <span class="cut">{aggregateType}</span>
            {faulted !== undefined && <Badge kind="bad">halted</Badge>}
            <span class="faint">
              {count(aggregates)}
              {eventsPerSecond > 0 && ` · ${count(eventsPerSecond)} events/s`}
            </span>
          </button>
        ))}
        {others.length > 0 && (
          <label>
            <span class="faint">Others</span>{' '}
            <select
              value={others.some(({ aggregateType }) => aggregateType === type) ? type : ''}
              onChange={({ currentTarget: { value } }) => setSearch(value === '' ? {} : { type: value })}
            >
              <option value="">{plural(others.length, 'type')}</option>
              {others.map(({ aggregateType, aggregates }) => (
                <option key={aggregateType} value={aggregateType}>
                  {aggregateType} ({count(aggregates)})
                </option>
              ))}
            </select>
          </label>
        )}
        {type !== undefined && <Link href={`/types/${encodeURIComponent(type)}`}>What makes the states of {type}</Link>}
      </div>
      {told !== undefined && <p role="status">{told}</p>}
      <Outdated of={list} />
      {list.items.length > 0 ? (
        <Rows
          count={list.items.length}
          label="Aggregates"
          columns="minmax(12rem, 3fr) minmax(6rem, 1fr) 9rem 12rem"
          heads={['Aggregate', 'Type', 'Version', 'Last event']}
          onEnd={list.more}
          onSelect={(index) => open(list.items[index]?.aggregateId ?? '')}
          row={(index) => {
            const one = list.items[index];
            return {
              key: one?.aggregateId ?? index,
              cells: [
                <Link href={`/aggregates/${encodeURIComponent(one?.aggregateId ?? '')}`} tabIndex={-1}>
                  <Name of={one?.aggregateId} />
                </Link>,
                one?.aggregateType,
                <>
                  <span class="number">{count(one?.version ?? 0)}</span>{' '}
                  {one !== undefined && stopped.value?.has(one.aggregateId) && <Badge kind="bad">stopped</Badge>}
                </>,
                one && <Time at={one.lastModified} />,
              ],
            };
          }}
        />
      ) : list.isLoading ? (
        <Loading />
      ) : (
        list.error === undefined && (
          <Empty title="There are no aggregates here">
            <p>An aggregate exists from its first event on. The overview shows how to append one.</p>
          </Empty>
        )
      )}
      {!(list.isLoading && list.items.length === 0) && (
        <p class="faint" role="status">
          {plural(list.items.length, 'aggregate')}
          {list.isWhole ? '' : ' so far; scroll for more'}
          {!isRefreshed(list) && list.at !== undefined && (
            <>
              , as of <Time at={list.at.toISOString()} />{' '}
              <button type="button" onClick={list.reload}>
                Reload
              </button>
            </>
          )}
        </p>
      )}
    </Page>
  );
}
