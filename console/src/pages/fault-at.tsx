import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { Link } from 'wouter-preact';
import { Name } from '../ui/name';

type Fault = Operations['listAggregateFaults']['answer']['faults'][number];

/** Where code threw, and the event that it threw at. */
export function FaultAt({
  of: { file, line, eventType = 'an event', version, aggregateId },
  hasId = true,
}: {
  readonly of: Fault;
  /** It says of which aggregate the event is. */
  readonly hasId?: boolean;
}): JSX.Element {
  const href = `/aggregates/${encodeURIComponent(aggregateId)}?version=${version}`;
  const event = `${eventType}, version ${version}`;
  return (
    <span class="faint">
      {file !== null && `${file}:${line ?? '?'} · `}
      {hasId ? (
        <>
          {event} of{' '}
          <Link href={href}>
            <Name of={aggregateId} />
          </Link>
        </>
      ) : (
        <Link href={href}>{event}</Link>
      )}
    </span>
  );
}
