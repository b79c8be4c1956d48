import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { loadBank } from '../bank-sample';
import { useDeeds } from '../deed';
import { eventTypesOf } from '../event-types';
import { useLoad, type Loaded } from '../load';
import { useSession } from '../session';
import { Command, Empty, Failure, Loading, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { UsageBars, type Usage } from '../ui/usage';
import { count } from '../words';

const EVERY_MS = 5_000;

/** What a tenant has; where that is nothing, how it begins. */
export function HomePage(): JSX.Element {
  const session = useSession();
  const { client } = session;
  const mayRead = session.may('read');
  const types = useLoad(
    async (signal) => (mayRead ? await eventTypesOf(client, signal) : undefined),
    [client],
    EVERY_MS,
  );
  const usage = useLoad(
    async (signal) => (mayRead ? await client.request('getUsage', { signal }) : undefined),
    [client],
    EVERY_MS,
  );
  if (!mayRead)
    return (
      <Page title="Overview">
        <Empty title="This key reads nothing">
          <p>Its scopes leave out “read”, so there is nothing to look at with it. Sign in with a key that has it.</p>
        </Empty>
      </Page>
    );
  if (types.value === undefined)
    return <Page title="Overview">{types.error === undefined ? <Loading /> : <Outdated of={types} />}</Page>;
  const { eventTypes, otherEvents } = types.value;
  if (eventTypes.length === 0)
    return (
      <FirstRun onLoaded={types.reload}>
        <UsageOf usage={usage} />
      </FirstRun>
    );
  const all = eventTypes.reduce((sum, { events }) => sum + events, otherEvents);
  return (
    <Page title="Overview" aside={<span class="faint">{count(all)} events</span>}>
      <Outdated of={types} />
      <UsageOf usage={usage} />
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
              <Link href={`/feed?eventType=${encodeURIComponent(type?.eventType ?? '')}`}>{type?.eventType}</Link>,
              type?.aggregateTypes.join(', '),
              <span class="number">{count(type?.events ?? 0)}</span>,
              type?.lastSeen === undefined ? '–' : <Time at={type.lastSeen} />,
            ],
          };
        }}
      />
    </Page>
  );
}

const UsageOf = ({ usage }: { readonly usage: Loaded<Usage | undefined> }): JSX.Element => (
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

function FirstRun({
  onLoaded,
  children,
}: {
  readonly onLoaded: () => void;
  readonly children: ComponentChildren;
}): JSX.Element {
  const session = useSession();
  const [step, setStep] = useState<string>();
  const { busy, error, run } = useDeeds();
  const url = location.origin;
  const key = '-H "X-API-Key: $STATEFOLD_API_KEY"';
  const load = (): void =>
    run('load', async () => {
      setStep('Beginning');
      await loadBank(session.client, setStep).finally(() => setStep(undefined));
      onLoaded();
    });
  const [mayAppend, mayDeploy] = [session.may('append'), session.may('deploy')];
  const mayLoad = mayAppend && mayDeploy;
  return (
    <Page title="Begin here">
      <p>
        {session.name} has no events yet. Paste these into a terminal in the folder of the checkout, where{' '}
        <code>STATEFOLD_API_KEY</code> is exported.
        {!mayLoad &&
          ' Your key may not do all of it: where that is said, another one is needed, which the owner of the service makes.'}
      </p>
      <ol class="steps">
        <li>
          <h2>Append an event{!mayAppend && ' (needs the scope “append”)'}</h2>
          <Command
            text={`curl -s ${url}/events ${key} -H 'Content-Type: application/json' \\\n  -d '{"aggregateId":"account-1","eventType":"Opened","data":{"owner":"Ada"}}'`}
          />
        </li>
        <li>
          <h2>Upload a reducer, which makes states of events{!mayDeploy && ' (needs the scope “deploy”)'}</h2>
          <Command
            text={`curl -s "${url}/reducers/upload?waitSeconds=20" ${key} \\\n  -F file=@samples/bank/AccountReducer.cs -F file=@samples/bank/Events.cs`}
          />
        </li>
        <li>
          <h2>Follow all events</h2>
          <Command text={`curl -sN "${url}/feed?follow=true" ${key} -H 'Accept: application/x-ndjson'`} />
        </li>
      </ol>
      {mayLoad && (
        <section>
          <h2>Or look at a bank first</h2>
          <p>The sample uploads a reducer and a projection, and appends three accounts with transfers between them.</p>
          <button type="button" class="primary" disabled={busy !== undefined} onClick={load}>
            {step === undefined ? 'Load the bank sample' : `${step}…`}
          </button>
          {error !== undefined && <Failure error={error} onRetry={load} />}
        </section>
      )}
      {children}
    </Page>
  );
}
