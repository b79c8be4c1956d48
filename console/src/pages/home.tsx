import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { aggregateTypesOf } from '../aggregate-types';
import { eventTypesOf, type EventTypes } from '../event-types';
import { closeFirstSteps, firstStepsOf, keepFirstStepsOpen } from '../first-steps';
import { useLoad, type Loaded } from '../load';
import { useSession, type Scope } from '../session';
import { Name } from '../ui/name';
import { Empty, Loading, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { UsageBars, type Usage } from '../ui/usage';
import { count, plural } from '../words';
import { AppendCommand, FirstSteps } from './first-steps';

const EVERY_MS = 5_000;

/** What a tenant has, and how it begins. */
export const HomePage = (): JSX.Element => (useSession().may('read') ? <Overview /> : <WithoutRead />);

function Overview(): JSX.Element {
  const { client, owner } = useSession();
  const [choice, setChoice] = useState(() => firstStepsOf(owner));
  const types = useLoad((signal) => eventTypesOf(client, signal), [client], EVERY_MS);
  const usage = useLoad((signal) => client.request('getUsage', { signal }), [client], EVERY_MS);
  const isClosed = choice === 'closed';
  const hasReducer = useLoad(
    async (signal) =>
      isClosed || (await aggregateTypesOf(client, signal)).some(({ reducerId }) => reducerId !== undefined),
    [client, isClosed],
    EVERY_MS,
  );
  const hasEvents = types.value === undefined ? undefined : eventsOf(types.value) > 0;
  const isDone = hasEvents === true && hasReducer.value === true;
  const isBeginning = choice === undefined && hasReducer.value !== undefined && hasEvents !== undefined && !isDone;
  const open = (): void => {
    keepFirstStepsOpen(owner);
    setChoice('open');
  };
  useEffect(() => {
    // What is done next would hide them else.
    if (isBeginning) open();
  }, [isBeginning]);
  const close = (): void => {
    closeFirstSteps(owner);
    setChoice('closed');
  };
  if (types.value === undefined)
    return <Page title="Overview">{types.error === undefined ? <Loading /> : <Outdated of={types} />}</Page>;
  const hasSteps = choice === 'open' || isBeginning;
  return (
    <Page
      title="Overview"
      aside={
        <>
          <span class="faint">{plural(eventsOf(types.value), 'event')}</span>
          {!hasSteps && (
            <button type="button" class="link" onClick={open}>
              First steps
            </button>
          )}
        </>
      }
    >
      <Outdated of={types} />
      {hasSteps && (
        <FirstSteps
          done={{ append: hasEvents === true, reducer: hasReducer.value === true }}
          onLoaded={() => {
            types.reload();
            hasReducer.reload();
          }}
          onClose={close}
        />
      )}
      <UsageOf usage={usage} />
      {types.value.eventTypes.length > 0 ? (
        <Types of={types.value} />
      ) : (
        !hasSteps && (
          <Empty title="There are no events yet">
            <p>The first steps show how one is appended.</p>
          </Empty>
        )
      )}
    </Page>
  );
}

const eventsOf = ({ eventTypes, otherEvents }: EventTypes): number =>
  eventTypes.reduce((sum, { events }) => sum + events, otherEvents);

const Types = ({ of: { eventTypes } }: { readonly of: EventTypes }): JSX.Element => (
  <Rows
    count={eventTypes.length}
    label="Types of events"
    columns="minmax(12rem, 2fr) minmax(8rem, 2fr) 8rem 12rem"
    heads={['Event type', 'Of aggregates', 'Events', 'Last']}
    row={(index) => {
      const type = eventTypes[index];
      return {
        key: type?.eventType ?? index,
        cells: [
          <Link href={`/feed?eventType=${encodeURIComponent(type?.eventType ?? '')}`}>
            <Name of={type?.eventType} />
          </Link>,
          type?.aggregateTypes.join(', '),
          <span class="number">{count(type?.events ?? 0)}</span>,
          type?.lastSeen === undefined ? '–' : <Time at={type.lastSeen} />,
        ],
      };
    }}
  />
);

const UsageOf = ({ usage }: { readonly usage: Loaded<Usage> }): JSX.Element => (
  <>
    <Outdated of={usage} />
    {usage.value && (
      <section aria-label="Usage">
        <h2>Usage</h2>
        <UsageBars of={usage.value} />
      </section>
    )}
  </>
);

/** Where a key that reads nothing gets on. */
const OTHERS: readonly (readonly [scope: Scope, path: string, name: string, words: string])[] = [
  ['deploy', '/code', 'Code', 'write reducers and projections, check them, and deploy them'],
  ['sql', '/sql', 'SQL', 'ask the events and states by statements'],
  ['webhooks', '/webhooks', 'Webhooks', 'run the endpoints that the service posts to'],
  ['audit', '/audit', 'Audit log', 'see who changed what'],
];

function WithoutRead(): JSX.Element {
  const session = useSession();
  const others = OTHERS.filter(([scope]) => session.may(scope) && (scope !== 'sql' || session.hasReadStore));
  return (
    <Page title="Overview">
      <h2>This key reads nothing</h2>
      <p>
        Its scopes leave out “read”, so events and states of {session.name} are not shown.
        {others.length > 0 && ' What it may do:'}
      </p>
      {others.length > 0 && (
        <ul class="faults">
          {others.map(([, path, title, words]) => (
            <li key={path}>
              <Link href={path}>{title}</Link>: {words}
            </li>
          ))}
        </ul>
      )}
      {session.may('append') && (
        <section aria-label="Append an event">
          <h2>Append an event</h2>
          <AppendCommand />
        </section>
      )}
      {others.length === 0 && !session.may('append') && <p>Sign in with a key that has it to look at the tenant.</p>}
    </Page>
  );
}
