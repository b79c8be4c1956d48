import { isRefused } from '@statefold/client';
import type { JSX } from 'preact';
import { Link } from 'wouter-preact';
import { noneYet } from '../event-types';
import { useLoad } from '../load';
import { useSession } from '../session';
import { Json } from '../ui/json';
import { Badge, Loading, Outdated, Page, Time } from '../ui/parts';
import { plural } from '../words';
import { EventSchema } from './event-schema';

const EVERY_MS = 5_000;

/** What there is of a type of events, and the schema that their data must fit. */
export function EventTypePage({ id: name }: { readonly id: string }): JSX.Element {
  const session = useSession();
  const { client } = session;
  const seen = useLoad(
    (signal) => client.request('getEventType', { path: { type: name }, signal }),
    [client, name],
    EVERY_MS,
  );
  const isMissing = isRefused(seen.error, 'NOT_FOUND');
  const type = isMissing ? noneYet(name) : seen.value;
  if (type === undefined)
    return <Page title={name}>{seen.error === undefined ? <Loading /> : <Outdated of={seen} />}</Page>;
  const { events, aggregateTypes, firstSeen, lastSeen, schemaVersion, schema } = type;
  return (
    <Page
      title={name}
      aside={
        <>
          {schemaVersion === undefined ? (
            <Badge>no schema</Badge>
          ) : (
            <Badge kind="good">schema version {schemaVersion}</Badge>
          )}
          <Link href={`/feed?eventType=${encodeURIComponent(name)}`}>In the feed</Link>
        </>
      }
    >
      {!isMissing && <Outdated of={seen} />}
      <p>
        {plural(events, 'event')}
        {aggregateTypes.length > 0 && ' of aggregates of the '}
        {aggregateTypes.length > 0 && (aggregateTypes.length === 1 ? 'type ' : 'types ')}
        {aggregateTypes.map((one, n) => (
          <>
            {n > 0 && ', '}
            <Link href={`/types/${encodeURIComponent(one)}`}>{one}</Link>
          </>
        ))}
        {firstSeen !== undefined && lastSeen !== undefined && (
          <>
            , the first <Time at={firstSeen} />, the last <Time at={lastSeen} />
          </>
        )}
        .
        {isMissing && (
          <>
            {' '}
            <button type="button" class="link" disabled={seen.isLoading} onClick={seen.reload}>
              Look again
            </button>
          </>
        )}
      </p>
      {session.may('deploy') ? (
        <EventSchema of={type} onChanged={seen.reload} />
      ) : schema === undefined ? (
        <p class="faint">It has no schema: the data of its events may be anything.</p>
      ) : (
        <Json value={schema} label="JSON Schema" />
      )}
    </Page>
  );
}
