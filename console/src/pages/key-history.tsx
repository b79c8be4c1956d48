import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { usePages } from '../pages-of';
import { useSession } from '../session';
import { Difference } from '../ui/difference';
import { Failure, Loading, Time } from '../ui/parts';
import { Rows } from '../ui/rows';

type Change = Operations['pollNotifications']['answer']['notifications'][number];

/** A page is looked for among the changes of all keys: each answer passes some. */
const PAGE = 500;

const CAUSES: Readonly<Record<string, string>> = { live: 'event' };

/** The changes of one key that are kept, oldest first, each with the state before it. */
export function KeyHistory({ id, name }: { readonly id: string; readonly name: string }): JSX.Element {
  const { client } = useSession();
  const [chosen, setChosen] = useState<number>();
  const changes = usePages<Change>(
    async (cursor, signal) => {
      let after = cursor === undefined ? undefined : Number(cursor);
      for (;;) {
        const query = { key: [name], limit: PAGE, ...(after !== undefined && { afterSequence: after }) };
        const page = await client.request('pollNotifications', { path: { id }, query, signal });
        const isEnd = page.cursor === undefined || page.cursor === after;
        after = page.cursor;
        if (isEnd || page.notifications.length > 0)
          return { items: page.notifications, nextCursor: isEnd ? undefined : String(after) };
      }
    },
    [client, id, name],
  );
  const at = chosen ?? changes.items.length - 1;
  const shown = changes.items[at];
  if (changes.items.length === 0)
    return changes.error !== undefined ? (
      <Failure error={changes.error} onRetry={changes.more} />
    ) : changes.isLoading ? (
      <Loading />
    ) : (
      <p class="faint">None of its changes is kept any more.</p>
    );
  return (
    <>
      {changes.error !== undefined && <Failure error={changes.error} onRetry={changes.more} />}
      <div class="short">
        <Rows
          count={changes.items.length}
          label="Changes of the key, oldest first"
          columns="6rem 7rem minmax(9rem, 1fr)"
          heads={['Sequence', 'By', 'Time']}
          onEnd={changes.more}
          selected={(index) => index === at}
          onSelect={setChosen}
          row={(index) => {
            const change = changes.items[index];
            return {
              key: change?.sequence ?? index,
              cells: [
                <span class="number">{change?.sequence}</span>,
                CAUSES[change?.cause ?? 'live'] ?? change?.cause,
                change && <Time at={change.timestamp} />,
              ],
            };
          }}
        />
      </div>
      {shown && <Difference before={changes.items[at - 1]?.state ?? null} after={shown.state} />}
    </>
  );
}
