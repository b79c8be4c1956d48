import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useDeeds } from '../deed';
import { usePages } from '../pages-of';
import { LONG_MS } from '../long';
import { useSession } from '../session';
import { Confirm } from '../ui/dialogs';
import { Failure, Outdated } from '../ui/parts';
import { plural } from '../words';
import { FaultAt } from './fault-at';
import { KeyName } from './key-states';
import type { Projection } from './projections';

type KeyFault = Operations['listKeyFaults']['answer']['faults'][number];
type Released = Operations['retryKeys']['answer'];
type Asked = { readonly what: 'skip'; readonly fault: KeyFault } | { readonly what: 'skip all' };
const PAGE = 100;

/** What stopped keys, and what releases them: an event is tried again, or passed over for the key. */
export function KeyFaults({
  of: one,
  onChanged,
}: {
  readonly of: Projection;
  readonly onChanged: () => void;
}): JSX.Element {
  const { id, faultCount = 0 } = one;
  const session = useSession();
  const { client } = session;
  const { busy, error, told: toldOfRetry, run: act } = useDeeds();
  const [asked, setAsked] = useState<Asked>();
  /** What became of a skip, which a dialog has asked for. */
  const [toldOfSkip, setToldOfSkip] = useState<string>();
  const list = usePages(
    async (cursor, signal) => {
      if (faultCount === 0) return { items: [], nextCursor: undefined };
      const page = await client.request('listKeyFaults', { path: { id }, query: { limit: PAGE, cursor }, signal });
      return { items: page.faults, nextCursor: page.nextCursor };
    },
    [client, id, faultCount],
  );
  const told = toldOfSkip ?? toldOfRetry;
  const run: typeof act = (...deed) => {
    setToldOfSkip(undefined);
    act(...deed);
  };
  if (faultCount === 0) return <>{told !== undefined && <p role="status">{told}</p>}</>;
  const mayDeploy = session.may('deploy');
  const isBusy = busy !== undefined;
  const changed = (): void => {
    list.reload();
    onChanged();
  };
  /** Without `fault`: all of them. The empty key has no path of its own, and two classes may stop at one key. */
  const release = async (operation: 'retryKeys' | 'skipKeys', fault?: KeyFault): Promise<string> => {
    const body = fault === undefined ? {} : { key: fault.key, className: fault.className, eventId: fault.eventId };
    const words = wordsOf(await client.request(operation, { path: { id }, body, timeoutMs: LONG_MS }));
    changed();
    return words;
  };
  const skip = async (fault?: KeyFault): Promise<string> => {
    const words = await release('skipKeys', fault);
    setToldOfSkip(words);
    return words;
  };
  return (
    <section aria-label="Faults">
      <div class="filters">
        <h2>{plural(faultCount, 'fault')}</h2>
        {mayDeploy && faultCount > 1 && (
          <>
            <button type="button" disabled={isBusy} onClick={() => run('retry', () => release('retryKeys'))}>
              {busy === 'retry' ? 'Retrying…' : 'Retry all'}
            </button>
            <button type="button" disabled={isBusy} onClick={() => setAsked({ what: 'skip all' })}>
              Skip all
            </button>
          </>
        )}
      </div>
      {error !== undefined && <Failure error={error} />}
      <Outdated of={list} />
      {list.items.some(({ key }) => key === '') && (
        <p class="faint">
          An event that stopped the code before it gave a key can’t be tried again: skip it, or rebuild the projection.
        </p>
      )}
      {told !== undefined && <p role="status">{told}</p>}
      <ul class="faults">
        {list.items.map((fault) => (
          <li key={`${fault.key} ${fault.className}`}>
            <strong>
              <KeyName of={fault.key} />
            </strong>{' '}
            {fault.message} <FaultAt of={fault} />
            {mayDeploy && (
              <>
                {/* Its event stopped the code before there was a key: nothing can be tried again for one. */}
                {fault.key !== '' && (
                  <button
                    type="button"
                    disabled={isBusy}
                    onClick={() => run('retry one', () => release('retryKeys', fault))}
                  >
                    Retry
                  </button>
                )}
                <button type="button" disabled={isBusy} onClick={() => setAsked({ what: 'skip', fault })}>
                  Skip the event
                </button>
              </>
            )}
          </li>
        ))}
      </ul>
      {!list.isWhole && !list.isLoading && (
        <button type="button" onClick={list.more}>
          Show more
        </button>
      )}
      {asked?.what === 'skip' && (
        <Confirm
          title={`Skip the event for ${asked.fault.key === '' ? 'all keys' : `the key ${asked.fault.key}`}?`}
          deed="Skip it"
          onClose={() => setAsked(undefined)}
          run={() => skip(asked.fault)}
        >
          <p>
            {asked.fault.eventType}, version {asked.fault.version} of {asked.fault.aggregateId}, leaves no mark on its
            state. Code that is deployed later sees it again.
          </p>
        </Confirm>
      )}
      {asked?.what === 'skip all' && (
        <Confirm
          title={`Skip the events that stop ${plural(faultCount, 'key')}?`}
          deed="Skip them"
          onClose={() => setAsked(undefined)}
          run={() => skip()}
        >
          <p>
            None of them leaves a mark on the states; up to 1,000 keys are released at once. Code that is deployed later
            sees the events again.
          </p>
        </Confirm>
      )}
    </section>
  );
}

function wordsOf({ keys }: Released): string {
  const of = (wanted: Released['keys'][number]['outcome']): number =>
    keys.filter(({ outcome }) => outcome === wanted).length;
  const [released, still, later] = [of('released'), of('faulted'), of('pending')];
  return [
    `${plural(released, 'key')} released`,
    ...(still > 0 ? [`${plural(still, 'key')} stopped again`] : []),
    ...(later > 0 ? [`${plural(later, 'key')} under way`] : []),
  ].join(', ');
}
