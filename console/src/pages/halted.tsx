import type { JSX } from 'preact';
import { useDeeds } from '../deed';
import type { Reducer } from '../reducers';
import { useSession } from '../session';
import { Failure, Time } from '../ui/parts';
import { plural } from '../words';

/** Why the code of a reducer is not run, and what lets it run again. */
export function Halted({
  reducerId: id,
  of: { at, strikes, className, message },
  onRevived,
}: {
  readonly reducerId: string;
  readonly of: NonNullable<Reducer['faulted']>;
  readonly onRevived: () => void;
}): JSX.Element {
  const session = useSession();
  const { busy, error, run } = useDeeds();
  const revive = async (): Promise<void> => {
    await session.client.request('reviveReducer', { path: { id } });
    onRevived();
  };
  return (
    <div class="failure" role="alert">
      <p>
        The code was stopped after {plural(strikes, 'strike')}, <Time at={at} />: no process runs it.
        {className !== undefined && ` Last by ${className}`}
        {message !== undefined && `: ${message}`}
      </p>
      {session.may('deploy') && (
        <button type="button" disabled={busy !== undefined} onClick={() => run('revive', revive)}>
          Let it run again
        </button>
      )}
      {error !== undefined && <Failure error={error} />}
    </div>
  );
}
