import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useDeeds } from '../deed';
import { LONG_MS } from '../long';
import { useSession } from '../session';
import { Confirm } from '../ui/dialogs';
import { Failure } from '../ui/parts';

type Fault = Operations['listAggregateFaults']['answer']['faults'][number];
type Outcome = Operations['retryAggregate']['answer']['outcome'];

const WORDS: Readonly<Record<Outcome, string>> = {
  released: 'It goes on.',
  faulted: 'It was stopped again.',
  pending: 'It is under way.',
};

/** What an aggregate that stands at an event is released by: the event is run again, or passed over. */
export function ReleaseAggregate({
  type,
  fault: { aggregateId: id, version, eventId },
  onReleased,
}: {
  readonly type: string;
  readonly fault: Fault;
  /** `words`: what became of it. */
  readonly onReleased: (words: string) => void;
}): JSX.Element {
  const session = useSession();
  const { busy, error, run } = useDeeds();
  const [isSkipping, setSkipping] = useState(false);
  if (!session.may('deploy')) return <></>;
  const release = async (operation: 'retryAggregate' | 'skipAggregate'): Promise<void> => {
    const { outcome } = await session.client.request(operation, {
      path: { type, id },
      body: { version, eventId },
      timeoutMs: LONG_MS,
    });
    onReleased(WORDS[outcome]);
  };
  const isBusy = busy !== undefined;
  return (
    <>
      <button type="button" disabled={isBusy} onClick={() => run('retry', () => release('retryAggregate'))}>
        {isBusy ? 'Retrying…' : 'Retry'}
      </button>
      <button type="button" disabled={isBusy} onClick={() => setSkipping(true)}>
        Skip the event
      </button>
      {error !== undefined && <Failure error={error} />}
      {isSkipping && (
        <Confirm
          title={`Skip version ${version} of ${id}?`}
          deed="Skip it"
          onClose={() => setSkipping(false)}
          run={() => release('skipAggregate')}
        >
          <p>It leaves no mark on the state. Code that is deployed later sees it again.</p>
        </Confirm>
      )}
    </>
  );
}
