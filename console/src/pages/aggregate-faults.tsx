import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Loaded } from '../load';
import { usePages } from '../pages-of';
import { useSession } from '../session';
import { Failure } from '../ui/parts';
import { plural } from '../words';
import type { Binding } from './aggregate-type';
import { FaultAt } from './fault-at';
import { ReleaseAggregate } from './release-aggregate';

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
  const { client } = useSession();
  const [told, setTold] = useState<string>();
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
  const outcome = told !== undefined && <p role="status">{told}</p>;
  if (!hasFaults) return <>{outcome}</>;
  return (
    <section aria-label="Faults">
      <h2>{plural(faultCount, 'aggregate')} stopped at an event</h2>
      {outcome}
      {list.error !== undefined && <Failure error={list.error} onRetry={list.more} />}
      <ul class="faults">
        {list.items.map((fault) => (
          <li key={fault.aggregateId}>
            <strong>{fault.aggregateId}</strong> {fault.message} <FaultAt of={fault} hasId={false} />
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
    </section>
  );
}
