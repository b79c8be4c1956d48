import { isRefused } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Binding } from '../aggregate-types';
import { useDeeds } from '../deed';
import type { Loaded } from '../load';
import { LONG_MS } from '../long';
import { allPages, usePages } from '../pages-of';
import { useSession, type Session } from '../session';
import { Confirm } from '../ui/dialogs';
import { Name } from '../ui/name';
import { Failure, Outdated } from '../ui/parts';
import { count, plural } from '../words';
import { FaultAt } from './fault-at';
import { ReleaseAggregate } from './release-aggregate';

type Client = Session['client'];
const PAGE = 100;

/** Aggregates that the code stopped at an event of theirs, with what releases each. */
export function AggregateFaults({
  of: { aggregateType: type, faultCount },
  seen: { at, reload },
}: {
  readonly of: Binding;
  /** What told of `of`: the list is asked for again with it. */
  readonly seen: Pick<Loaded<unknown>, 'at' | 'reload'>;
}): JSX.Element {
  const session = useSession();
  const { client } = session;
  const { busy, error, told: toldOfAll, run } = useDeeds();
  const [told, setTold] = useState<string>();
  const [isSkipping, setSkipping] = useState(false);
  const [done, setDone] = useState(0);
  const hasFaults = faultCount > 0;
  const list = usePages(
    async (cursor, signal) => {
      if (!hasFaults) return { items: [], nextCursor: undefined };
      const page = await client.request('listAggregateFaults', {
        path: { type },
        query: { limit: PAGE, cursor },
        signal,
      });
      return { items: page.faults, nextCursor: page.nextCursor };
    },
    [client, type, hasFaults],
  );
  useEffect(() => {
    if (hasFaults) list.refresh();
  }, [at]);
  const words = told ?? toldOfAll;
  const outcome = words !== undefined && <p role="status">{words}</p>;
  if (!hasFaults) return <>{outcome}</>;
  const releaseAll = async (operation: Release): Promise<string> => {
    setTold(undefined);
    setDone(0);
    try {
      return await releaseEach(client, { type, operation, onOne: () => setDone((before) => before + 1) });
    } finally {
      list.refresh();
      reload();
    }
  };
  const isBusy = busy !== undefined;
  return (
    <section aria-label="Faults">
      <div class="filters">
        <h2>{plural(faultCount, 'aggregate')} stopped at an event</h2>
        {session.may('deploy') && faultCount > 1 && (
          <>
            <button type="button" disabled={isBusy} onClick={() => run('retry', () => releaseAll('retryAggregate'))}>
              {busy === 'retry' ? `Retrying, ${count(done)} so far…` : 'Retry all'}
            </button>
            <button type="button" disabled={isBusy} onClick={() => setSkipping(true)}>
              Skip all
            </button>
          </>
        )}
      </div>
      {outcome}
      {error !== undefined && <Failure error={error} />}
      <Outdated of={list} />
      <ul class="faults">
        {list.items.map((fault) => (
          <li key={fault.aggregateId}>
            <strong>
              <Name of={fault.aggregateId} />
            </strong>{' '}
            {fault.message} <FaultAt of={fault} hasId={false} />
            {fault.stopped && <span class="faint"> · the code was ended on it: a retry may do better</span>}
            <ReleaseAggregate
              type={type}
              fault={fault}
              onReleased={(words) => {
                setTold(`${fault.aggregateId}: ${words}`);
                list.refresh();
                reload();
              }}
            />
          </li>
        ))}
      </ul>
      {!list.isWhole && !list.isLoading && (
        <button type="button" onClick={list.more}>
          Show more
        </button>
      )}
      {isSkipping && (
        <Confirm
          title={`Skip the events that stop ${plural(faultCount, 'aggregate')}?`}
          deed="Skip them"
          onClose={() => setSkipping(false)}
          run={async () => setTold(await releaseAll('skipAggregate'))}
        >
          <p>
            None of them leaves a mark on the states. An aggregate that stops again further on stays so. Code that is
            deployed later sees the events again.
          </p>
        </Confirm>
      )}
    </section>
  );
}

type Release = 'retryAggregate' | 'skipAggregate';

/** Those that stand when it begins, one after the other, each once; what became of them, in words. */
async function releaseEach(
  client: Client,
  { type, operation, onOne }: { readonly type: string; readonly operation: Release; readonly onOne: () => void },
): Promise<string> {
  const standing = await allPages(async (cursor) => {
    const page = await client.request('listAggregateFaults', { path: { type }, query: { limit: 1_000, cursor } });
    return { items: page.faults, nextCursor: page.nextCursor };
  });
  const counts = { released: 0, faulted: 0, pending: 0 };
  for (const { aggregateId: id, version, eventId } of standing) {
    try {
      const body = { version, eventId };
      counts[(await client.request(operation, { path: { type, id }, body, timeoutMs: LONG_MS })).outcome]++;
    } catch (error) {
      // Somebody else was there before.
      if (!isRefused(error, 'NOT_FAULTED', 'FAULT_MISMATCH', 'GONE')) throw error;
    }
    onOne();
  }
  return [
    `${plural(counts.released, 'aggregate')} released`,
    ...(counts.faulted > 0 ? [`${plural(counts.faulted, 'aggregate')} stopped again`] : []),
    ...(counts.pending > 0 ? [`${plural(counts.pending, 'aggregate')} under way`] : []),
  ].join(', ');
}
