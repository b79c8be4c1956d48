import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { Difference } from '../ui/json';
import { Badge } from '../ui/parts';
import { count, plural } from '../words';

type Answer = Operations['verifyProjection']['answer'];
type Found = Pick<Answer['differences'][number], 'className' | 'store' | 'readStore' | 'stored' | 'recomputed'>;

/** What came of folding some states again from the log: of a projection's keys, or of aggregates. */
export interface Verification extends Pick<
  Answer,
  'complete' | 'cut' | 'checked' | 'equal' | 'different' | 'absent' | 'readStore' | 'seconds'
> {
  /** `name`: the key, or the id of the aggregate. */
  readonly differences: readonly (Found & { readonly name: string })[];
}

export function Verified({ of, onClose }: { readonly of: Verification; readonly onClose: () => void }): JSX.Element {
  const { checked, equal, different, absent, readStore, cut, differences } = of;
  const isRight = different + absent === 0;
  return (
    <section aria-label="Verification">
      <h2>Folded again from the log</h2>
      <p role="status">
        <Badge kind={isRight ? 'good' : 'bad'}>{isRight ? 'all as stored' : 'not as stored'}</Badge>{' '}
        {plural(checked, 'state')} looked at: {count(equal)} equal, {count(different)} different, {count(absent)}{' '}
        missing.
        {readStore &&
          ` In the read store: ${count(readStore.equal)} equal, ${count(readStore.different)} different, ${count(readStore.absent)} missing, ${count(readStore.behind)} not there yet.`}
      </p>
      {cut !== undefined && <p class="faint">{cut}</p>}
      {differences.map((one) => (
        <details key={`${one.name} ${one.className}`}>
          <summary>
            {one.name} <span class="faint">{one.className}</span> {one.store}
            {one.readStore !== undefined && `, in the read store ${one.readStore}`}
          </summary>
          <Difference of={one.name} names={['stored', 'folded again']} before={one.stored} after={one.recomputed} />
        </details>
      ))}
      <button type="button" onClick={onClose}>
        Close
      </button>
    </section>
  );
}
