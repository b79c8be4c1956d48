import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { loadBank } from '../bank-sample';
import { useDeeds } from '../deed';
import { useSession } from '../session';
import { Badge, Command, Failure } from '../ui/parts';

/** What of them the tenant has already. */
export interface Done {
  readonly append: boolean;
  readonly reducer: boolean;
}

const KEY = '-H "X-API-Key: $STATEFOLD_API_KEY"';

/** How an event is appended by hand. */
export const AppendCommand = (): JSX.Element => (
  <Command
    text={`curl -s ${location.origin}/events ${KEY} -H 'Content-Type: application/json' \\\n  -d '{"aggregateId":"account-1","eventType":"Opened","data":{"owner":"Ada"}}'`}
  />
);

/** How a tenant begins. It stays until its reader closes it: each step is marked once it is done. */
export function FirstSteps({
  done,
  onLoaded,
  onClose,
}: {
  readonly done: Done;
  readonly onLoaded: () => void;
  readonly onClose: () => void;
}): JSX.Element {
  const session = useSession();
  const url = location.origin;
  const [mayAppend, mayDeploy] = [session.may('append'), session.may('deploy')];
  const mayLoad = mayAppend && mayDeploy;
  return (
    <section aria-label="First steps">
      <div class="page-head">
        <h2>Begin here</h2>
        <button type="button" onClick={onClose}>
          Close the first steps
        </button>
      </div>
      <p>
        {done.append ? 'The tenant has its first events. ' : `${session.name} has no events yet. `}
        Paste these into a terminal in the folder of the checkout, where <code>STATEFOLD_API_KEY</code> is exported.
        {!mayLoad &&
          ' Your key may not do all of it: where that is said, another one is needed, which the owner of the service makes.'}
      </p>
      <ol class="steps">
        <li>
          <h3>
            Append an event{!mayAppend && ' (needs the scope “append”)'}{' '}
            {done.append && <Badge kind="good">done</Badge>}
          </h3>
          <AppendCommand />
        </li>
        <li>
          <h3>
            Upload a reducer, which makes states of events{!mayDeploy && ' (needs the scope “deploy”)'}{' '}
            {done.reducer && <Badge kind="good">done</Badge>}
          </h3>
          <Command
            text={`curl -s "${url}/reducers/upload?waitSeconds=20" ${KEY} \\\n  -F file=@samples/bank/AccountReducer.cs -F file=@samples/bank/Events.cs`}
          />
        </li>
        <li>
          <h3>Follow all events</h3>
          <Command text={`curl -sN "${url}/feed?follow=true" ${KEY} -H 'Accept: application/x-ndjson'`} />
          <p>
            The page <Link href="/feed">Feed</Link> follows them, too.
          </p>
        </li>
      </ol>
      {mayLoad && <BankSample onLoaded={onLoaded} />}
    </section>
  );
}

function BankSample({ onLoaded }: { readonly onLoaded: () => void }): JSX.Element {
  const { client } = useSession();
  const [step, setStep] = useState<string>();
  const { busy, error, told, run } = useDeeds();
  const load = (): void =>
    run('load', async () => {
      setStep('Beginning');
      await loadBank(client, setStep).finally(() => setStep(undefined));
      onLoaded();
      return 'The bank sample is loaded: its accounts are among the aggregates, its transfers among the projections.';
    });
  return (
    <section>
      <h3>Or look at a bank first</h3>
      <p>The sample uploads a reducer and a projection, and appends three accounts with transfers between them.</p>
      <button type="button" class="primary" disabled={busy !== undefined} onClick={load}>
        {step === undefined ? 'Load the bank sample' : `${step}…`}
      </button>
      {error !== undefined && <Failure error={error} onRetry={load} />}
      {told !== undefined && <p role="status">{told}</p>}
    </section>
  );
}
