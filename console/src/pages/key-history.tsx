import { isRefused, type Operations, type StatefoldClient } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { usePages } from '../pages-of';
import { useSession } from '../session';
import { Difference } from '../ui/json';
import { Loading, Outdated, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { jsonBytes } from '../words';

type Change = Operations['pollNotifications']['answer']['notifications'][number];
type ProjectionState = Operations['listStates']['answer']['states'][number];

const PAGE = 500;
/** Changes of all keys that are looked through at first for those of one; more each time that few were found. */
const SPAN = 1_000;
const LEAST_SPAN = 8;
const FEW = 50;
/** Each change has a state: of large ones fewer are looked through at once. */
const MOST_BYTES = 1024 * 1024;

const CAUSES: Readonly<Record<string, string>> = { live: 'event' };

const spanOf = ({ state }: ProjectionState): number =>
  Math.min(Math.max(Math.floor(MOST_BYTES / Math.max(jsonBytes(state), 1)), LEAST_SPAN), SPAN);

/** About as many bytes as a state and its first changes take at most. */
export const historyBytes = (of: ProjectionState): number => jsonBytes(of.state) * (1 + spanOf(of));

/** What is looked through next: changes up to and with `to`, as many as `span`. */
interface Place {
  readonly to: number;
  readonly span: number;
}

/** The changes of one key that are kept, newest first, each with the state before it. */
export function KeyHistory({ id, of }: { readonly id: string; readonly of: ProjectionState }): JSX.Element {
  const { client } = useSession();
  const { key, className, sequence, lastModified } = of;
  const [chosen, setChosen] = useState<number>();
  const changes = usePages<Change>(
    async (cursor, signal) => {
      const from: Place = cursor === undefined ? { to: sequence, span: spanOf(of) } : (JSON.parse(cursor) as Place);
      const { found, next } = await earlier(client, id, { key, className }, from, signal);
      return { items: found, nextCursor: next === undefined ? undefined : JSON.stringify(next) };
    },
    [client, id, key, className, sequence],
  );
  // Of a key that has just changed the change is shown that was chosen, or the newest.
  const at = Math.max(
    changes.items.findIndex((one) => one.sequence === chosen),
    0,
  );
  const shown = changes.items[at];
  const earlierOne = changes.items[at + 1];
  const needsEarlier = shown !== undefined && earlierOne === undefined && !changes.isWhole;
  useEffect(() => {
    if (needsEarlier) changes.more();
  }, [needsEarlier, changes.items.length]);
  if (changes.items.length === 0)
    return changes.error !== undefined ? (
      <Outdated of={changes} />
    ) : changes.isLoading ? (
      <Loading />
    ) : (
      <p class="faint">
        None of its changes is kept any more. The state above is whole, as of <Time at={lastModified} />; the history
        begins with its next change.
      </p>
    );
  return (
    <>
      <Outdated of={changes} />
      <div class="short">
        <Rows
          count={changes.items.length}
          label="Changes of the key, newest first"
          columns="6rem 7rem minmax(9rem, 1fr)"
          heads={['Sequence', 'By', 'Time']}
          onEnd={changes.more}
          selected={(index) => index === at}
          onSelect={(index) => setChosen(changes.items[index]?.sequence)}
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
      {shown?.cause === 'build' && earlierOne === undefined && (
        <p class="faint">
          The history begins here, at <Time at={shown.timestamp} />: the first build folded all events until then into
          this one change. What each of them did is not kept; the events are, in the feed.
        </p>
      )}
      {shown && <Difference before={earlierOne?.state ?? null} after={shown.state} />}
    </>
  );
}

/** Changes are told oldest first only: a span before what is known is read, and one that is longer where it had few of the key. */
async function earlier(
  client: StatefoldClient,
  id: string,
  of: Pick<ProjectionState, 'key' | 'className'>,
  { to, span }: Place,
  signal: AbortSignal,
): Promise<{ readonly found: readonly Change[]; readonly next: Place | undefined }> {
  let after = Math.max(to - span, 0);
  const begin = after;
  let isWhole = begin === 0;
  const found: Change[] = [];
  while (after < to) {
    const query = { key: [of.key], limit: PAGE, afterSequence: after };
    try {
      const page = await client.request('pollNotifications', { path: { id }, query, signal });
      found.push(...page.notifications.filter((one) => one.className === of.className && one.sequence <= to));
      if (page.cursor === undefined || page.cursor <= after) break;
      after = page.cursor;
    } catch (error) {
      const oldest = isRefused(error, 'CURSOR_EXPIRED') ? error.problem.oldestSequence : undefined;
      if (oldest === undefined || oldest <= after) throw error;
      // What is before is not kept.
      isWhole = true;
      after = oldest - 1;
    }
  }
  found.reverse();
  if (isWhole) return { found, next: undefined };
  const next = { to: begin, span: found.length < Math.min(FEW, span / 4) ? span * 4 : span };
  // An empty page would be taken for one to go on from: the list goes on by itself only when it has rows in sight.
  return found.length === 0 ? earlier(client, id, of, next, signal) : { found, next };
}
