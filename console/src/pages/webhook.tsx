import { isRefused, type WebhookAttempt, type WebhookEndpoint } from '@statefold/client';
import { Fragment, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { useAddress } from '../address';
import { useLoad } from '../load';
import { useDeeds } from '../deed';
import { LONG_MS } from '../long';
import { useFurtherPages, usePages } from '../pages-of';
import { useSession } from '../session';
import { useShown } from '../shown';
import { Detail } from '../ui/detail';
import { Cancel, Confirm, Dialog, ShownOnce } from '../ui/dialogs';
import { Json } from '../ui/json';
import { Name } from '../ui/name';
import { Badge, Empty, Failure, Loading, Missing, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { count, plural } from '../words';
import { KeyName } from './key-states';
import { changeOf, EndpointForm, fieldsOf, followed, Health, secretNotShown, type Fields } from './webhooks';

const EVERY_MS = 3_000;
type Open = 'edit' | 'replay' | 'rotate' | 'delete';

/** An endpoint: its health, what can be done with it, its latest attempts, and its dead letters. */
export function WebhookPage({ id }: { readonly id: string }): JSX.Element {
  const { client } = useSession();
  const [, go] = useLocation();
  const isShown = useShown();
  const [open, setOpen] = useState<Open>();
  const [secret, setSecret] = useState<string>();
  const { busy, error, told, run } = useDeeds();
  /** As it was when the form was opened: what others change meanwhile stays theirs. */
  const [edited, setEdited] = useState<Fields>();
  const [round, setRound] = useState(0);
  const path = { id };
  const status = useLoad((signal) => client.request('getWebhookEndpoint', { path, signal }), [client, id], EVERY_MS);
  const one = status.value;
  if (one === undefined)
    return (
      <Page title="Webhook endpoint">
        {isRefused(status.error, 'NOT_FOUND') ? (
          <Missing title="There is no such endpoint" of={status}>
            <p>
              It may have been deleted. <Link href="/webhooks">See those that are there</Link>.
            </p>
          </Missing>
        ) : status.error === undefined ? (
          <Loading />
        ) : (
          <Outdated of={status} />
        )}
      </Page>
    );
  const changed = (): void => {
    status.reload();
    setRound((before) => before + 1);
  };
  const deed = (name: string, act: () => Promise<string | undefined>): void =>
    run(name, async () => {
      const words = await act();
      changed();
      return words;
    });
  const isBusy = busy !== undefined;
  const isStopped = one.state.status === 'paused' || one.state.status === 'disabled';
  const close = (): void => setOpen(undefined);
  const test = async (): Promise<string> => {
    const {
      delivered,
      status: answered,
      durationMs,
      error: why,
    } = await client.request('testWebhookEndpoint', { path, timeoutMs: LONG_MS });
    return delivered
      ? `The test was delivered: ${answered ?? ''} after ${count(durationMs)} ms.`
      : `The test failed: ${why ?? `answered ${answered ?? 'nothing'}`}.`;
  };
  const toggle = async (): Promise<undefined> => {
    await client.request(isStopped ? 'resumeWebhookEndpoint' : 'pauseWebhookEndpoint', { path });
  };
  return (
    <Page
      title={one.url}
      aside={
        <>
          <Health of={one} />
          <button type="button" disabled={isBusy} onClick={() => deed('test', test)}>
            {busy === 'test' ? 'Sending…' : 'Send a test'}
          </button>
          <button type="button" disabled={isBusy} onClick={() => deed('toggle', toggle)}>
            {isStopped ? 'Resume' : 'Pause'}
          </button>
          <button type="button" onClick={() => setOpen('replay')}>
            Replay
          </button>
          <button
            type="button"
            onClick={() => {
              setEdited(fieldsOf(one));
              setOpen('edit');
            }}
          >
            Edit
          </button>
          {one.isolated && (
            <button type="button" onClick={() => setOpen('rotate')}>
              Rotate the secret
            </button>
          )}
          <button type="button" class="danger" onClick={() => setOpen('delete')}>
            Delete
          </button>
        </>
      }
    >
      <Outdated of={status} />
      {error !== undefined && <Failure error={error} />}
      {told !== undefined && <p role="status">{told}</p>}
      <Facts of={one} />
      <Attempts of={one} round={round} onChanged={changed} />
      {one.parked > 0 && (
        <GivenUp of={one} onChanged={changed} onResent={(words) => deed('resend-all', () => Promise.resolve(words))} />
      )}
      {open === 'edit' && edited && (
        <Dialog title="Edit the endpoint" onClose={close}>
          <EndpointForm
            of={edited}
            deed="Save"
            onCancel={close}
            send={async (fields) => {
              const body = changeOf(edited, fields);
              const answer = await client.request('changeWebhookEndpoint', { path, body });
              close();
              changed();
              setSecret(answer.secret);
              return answer.secret === undefined || isShown() ? undefined : secretNotShown(id);
            }}
          />
        </Dialog>
      )}
      {open === 'replay' && (
        <Replay
          of={one}
          onClose={close}
          onDone={(words) => {
            close();
            deed('replay', async () => Promise.resolve(words));
          }}
        />
      )}
      {open === 'rotate' && (
        <Confirm
          title="Rotate the secret?"
          deed="Rotate"
          onClose={close}
          run={async () => {
            setSecret((await client.request('rotateWebhookEndpointSecret', { path })).secret);
            return isShown() ? undefined : secretNotShown(id);
          }}
        >
          <p>Messages are signed with a new secret from now on, and for 24 hours with the one of before as well.</p>
        </Confirm>
      )}
      {open === 'delete' && (
        <Confirm
          title="Delete the endpoint?"
          deed="Delete"
          onClose={close}
          run={async () => {
            await client.request('deleteWebhookEndpoint', { path });
            if (isShown()) go('/webhooks');
          }}
        >
          <p>
            Its place goes with it: an endpoint that is made later begins anew. Messages that were not delivered are not
            sent any more.
          </p>
        </Confirm>
      )}
      {secret !== undefined && (
        <ShownOnce title="The endpoint’s secret" value={secret} onClose={() => setSecret(undefined)}>
          Messages are signed with this secret from now on.
        </ShownOnce>
      )}
    </Page>
  );
}

function Facts({ of: one }: { readonly of: WebhookEndpoint }): JSX.Element {
  const { source, state } = one;
  const mayRead = useSession().may('read');
  const facts: readonly (readonly [string, JSX.Element | string | undefined])[] = [
    [
      'Follows',
      'projectionId' in source && mayRead ? (
        <Link href={`/projections/${encodeURIComponent(source.projectionId)}`}>{followed(one)}</Link>
      ) : (
        followed(one)
      ),
    ],
    ['Only keys', one.keys && <Names of={one.keys} />],
    [
      'State',
      <>
        {state.status}
        {state.reason !== undefined && `: ${state.reason}`}, since <Time at={state.since} />
      </>,
    ],
    [
      'Delivered up to',
      `${count(one.through)}; ${plural(one.pending, 'message')} pending, ${plural(one.parked, 'dead letter')}`,
    ],
    ['Secret', one.isolated ? 'of its own' : 'shared with other endpoints of the tenant'],
    ['Headers', one.headerNames?.join(', ')],
    ['Most a second', one.ratePerSecond === undefined ? undefined : count(one.ratePerSecond)],
    ['Description', one.description],
    ['Endpoint', <code>{one.endpointId}</code>],
  ];
  return (
    <dl>
      {facts.map(
        ([name, value]) =>
          value !== undefined && (
            <Fragment key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </Fragment>
          ),
      )}
    </dl>
  );
}

/** Each may have commas of its own. */
const Names = ({ of }: { readonly of: readonly string[] }): JSX.Element => (
  <>
    {of.map((name, n) => (
      <Fragment key={name}>
        {n > 0 && ', '}
        <code>
          <Name of={name} />
        </code>
      </Fragment>
    ))}
  </>
);

interface AttemptsOf {
  readonly of: WebhookEndpoint;
  readonly round: number;
  readonly onChanged: () => void;
}

function Attempts({ of: one, round, onChanged }: AttemptsOf): JSX.Element {
  const { client } = useSession();
  const { search, change } = useAddress();
  const status = search.get('attempts') ?? '';
  const chosenName = search.get('attempt');
  const list = usePages(
    async (cursor, signal) => {
      const query = { limit: 100, cursor, ...(status === '' ? {} : { status }) };
      const page = await client.request('listWebhookAttempts', { path: { id: one.endpointId }, query, signal });
      return { items: page.attempts, nextCursor: page.nextCursor };
    },
    [client, one.endpointId, status, round],
  );
  const at = chosenName === null ? -1 : list.items.findIndex((attempt) => nameOf(attempt) === chosenName);
  const chosen = list.items[at];
  const isLookedFor = chosenName !== null && chosen === undefined && list.error === undefined;
  useFurtherPages(list, isLookedFor);
  const close = (): void => change({ attempt: undefined });
  return (
    <>
      <div class="filters">
        <h2>Latest attempts</h2>
        <label>
          <span>Show</span>
          <select
            value={status}
            onChange={({ currentTarget: { value } }) => change({ attempts: value, attempt: undefined })}
          >
            <option value="">all</option>
            <option value="delivered">delivered</option>
            <option value="failed">failed</option>
          </select>
        </label>
        <button type="button" onClick={list.reload}>
          Reload
        </button>
      </div>
      <Outdated of={list} />
      {list.items.length > 0 ? (
        <div class={chosenName === null ? '' : 'split'}>
          <Rows
            count={list.items.length}
            label="Latest attempts"
            columns="11rem 6rem minmax(9rem, 2fr) 5rem 6rem"
            heads={['Time', 'Of', 'Outcome', 'Attempt', 'ms']}
            onEnd={list.more}
            shows={at < 0 ? undefined : at}
            selected={(index) => index === at}
            onSelect={(index) => {
              const attempt = list.items[index];
              if (attempt !== undefined) change({ attempt: nameOf(attempt) });
            }}
            row={(index) => {
              const attempt = list.items[index];
              if (attempt === undefined) return { key: index, cells: [] };
              return {
                key: nameOf(attempt),
                cells: [
                  <Time at={attempt.at} />,
                  <span class="number">{attempt.sequence ?? attempt.position ?? 'test'}</span>,
                  <>
                    <Badge kind={attempt.error === undefined ? 'good' : 'bad'}>{attempt.status ?? 'no answer'}</Badge>{' '}
                    {attempt.error}
                  </>,
                  <span class="number">{attempt.attempt}</span>,
                  <span class="number">{count(attempt.durationMs)}</span>,
                ],
              };
            }}
          />
          {chosen ? (
            <Attempt of={chosen} endpoint={one} onChanged={onChanged} onClose={close} />
          ) : (
            chosenName !== null && (
              <Detail onClose={close}>
                {isLookedFor && !list.isWhole ? <Loading /> : <p>The attempt is not among those that are kept.</p>}
              </Detail>
            )
          )}
        </div>
      ) : list.isLoading ? (
        <Loading />
      ) : (
        list.error === undefined && (
          <Empty title="There are no such attempts">
            <p>The latest 100 that were delivered are kept, and the latest 100 that failed.</p>
          </Empty>
        )
      )}
    </>
  );
}

/** In the address: a message may be sent again, and then begins anew with its first attempt. */
const nameOf = ({ messageId, attempt, at }: WebhookAttempt): string => `${messageId} ${attempt} ${at}`;

/** An attempt with what was answered, and what had been sent: the record is read again from where it came from. */
function Attempt({
  of: { messageId, sequence, position, at, status, error, durationMs, responseExcerpt },
  endpoint: { endpointId, source, pending },
  onChanged,
  onClose,
}: {
  readonly of: WebhookAttempt;
  readonly endpoint: WebhookEndpoint;
  readonly onChanged: () => void;
  readonly onClose: () => void;
}): JSX.Element {
  const session = useSession();
  const { client } = session;
  const [isAsked, setAsked] = useState(false);
  const isOfRecord = sequence !== undefined || position !== undefined;
  const mayRead = session.may('read');
  const sent = useLoad(
    async (signal): Promise<unknown> => {
      if (!mayRead) return undefined;
      if ('projectionId' in source && sequence !== undefined) {
        const query = { afterSequence: sequence - 1, limit: 1, waitSeconds: 0 };
        const page = await client.request('pollNotifications', { path: { id: source.projectionId }, query, signal });
        return page.notifications.find((one) => one.sequence === sequence);
      }
      if (position === undefined) return undefined;
      const page = await client.request('readFeed', { query: { after: position - 1, limit: 1 }, signal });
      return page.events.find((one) => one.position === position);
    },
    [client, messageId, mayRead],
  );
  return (
    <Detail onClose={onClose}>
      <h2>
        {status ?? 'No answer'} after {count(durationMs)} ms
      </h2>
      {error !== undefined && <p class="failure">{error}</p>}
      <dl>
        <dt>Message</dt>
        <dd>
          <code>{messageId}</code>
        </dd>
        <dt>Time</dt>
        <dd>
          <Time at={at} />
        </dd>
      </dl>
      {error !== undefined && isOfRecord && pending > 0 && (
        <button type="button" onClick={() => setAsked(true)}>
          Attempt it now
        </button>
      )}
      {isAsked && (
        <Confirm
          title="Attempt the message now?"
          deed="Attempt it"
          onClose={() => setAsked(false)}
          run={async () => {
            await client.request('retryWebhookMessage', { path: { id: endpointId, messageId } });
            onChanged();
          }}
        >
          <p>
            If it still waits, it is sent at once, whatever the pauses of the endpoint. What comes of it is among the
            attempts; where it fails it is due at the time that it waits for now.
          </p>
        </Confirm>
      )}
      {responseExcerpt !== undefined && (
        <section aria-label="What was answered">
          <h2>What was answered</h2>
          <pre class="json" tabIndex={0} role="region" aria-label="Body of the answer">
            {responseExcerpt}
          </pre>
        </section>
      )}
      {!isOfRecord ? (
        <p class="faint">A test: a message “endpoint.test”, which tells of nothing that happened.</p>
      ) : (
        <section aria-label="What was sent">
          <h2>What was sent</h2>
          <p class="faint">
            Attempts keep no bodies: {'projectionId' in source ? 'the change' : 'the event'} is read again, from where
            the message was made of.
          </p>
          {!mayRead ? (
            <p class="faint">The scopes of the key leave out “read”: what the message told is not shown.</p>
          ) : sent.error !== undefined ? (
            isRefused(sent.error, 'CURSOR_EXPIRED') ? (
              <p class="faint">The change is kept no longer.</p>
            ) : (
              <Failure error={sent.error} onRetry={sent.reload} />
            )
          ) : sent.value !== undefined ? (
            <Json value={sent.value} label="Data of the message" />
          ) : sent.isLoading ? (
            <Loading />
          ) : (
            <p class="faint">What the message told is there no longer.</p>
          )}
        </section>
      )}
    </Detail>
  );
}

function GivenUp({
  of: { endpointId, parked },
  onChanged,
  onResent,
}: {
  readonly of: WebhookEndpoint;
  readonly onChanged: () => void;
  /** All of them, or those since a time, are sent again: with what is said of it. */
  readonly onResent: (words: string) => void;
}): JSX.Element {
  const { client } = useSession();
  const [isAsked, setAsked] = useState(false);
  const { busy, error, run } = useDeeds();
  const list = usePages(
    async (cursor, signal) => {
      const query = { limit: 100, cursor };
      const page = await client.request('listParkedMessages', { path: { id: endpointId }, query, signal });
      return { items: page.parked, nextCursor: page.nextCursor };
    },
    [client, endpointId, parked],
  );
  const resend = (messageId: string): void =>
    run('resend', async () => {
      await client.request('resendParkedMessage', { path: { id: endpointId, messageId } });
      onChanged();
    });
  return (
    <section aria-label="Dead letters">
      <div class="filters">
        <h2>{plural(parked, 'dead letter')}</h2>
        <button type="button" onClick={() => setAsked(true)}>
          Send all again
        </button>
      </div>
      {isAsked && (
        <ResendAll
          endpointId={endpointId}
          onClose={() => setAsked(false)}
          onDone={(words) => {
            setAsked(false);
            onResent(words);
          }}
        />
      )}
      {error !== undefined && <Failure error={error} />}
      <Outdated of={list} />
      <ul class="faults">
        {list.items.map((one) => (
          <li key={one.messageId}>
            <strong>
              <KeyName of={one.key} />
            </strong>{' '}
            {one.reason}, after {plural(one.attempts, 'attempt')}{' '}
            <span class="faint">
              {one.sequence ?? one.position} · <Time at={one.at} />
            </span>
            <button type="button" disabled={busy !== undefined} onClick={() => resend(one.messageId)}>
              Send again
            </button>
          </li>
        ))}
      </ul>
      {!list.isWhole && (
        <button type="button" onClick={list.more}>
          Show more
        </button>
      )}
    </section>
  );
}

interface ResentAll {
  readonly endpointId: string;
  readonly onClose: () => void;
  readonly onDone: (words: string) => void;
}

const ResendAll = (resent: ResentAll): JSX.Element => (
  <Dialog title="Send all dead letters again?" onClose={resent.onClose}>
    <ResendAllForm {...resent} />
  </Dialog>
);

function ResendAllForm({ endpointId, onClose, onDone }: ResentAll): JSX.Element {
  const { client } = useSession();
  const [since, setSince] = useState('');
  const { busy, error, run } = useDeeds();
  const go = (event: Event): void => {
    event.preventDefault();
    run('resend-all', async () => {
      const body = since === '' ? {} : { since: new Date(since).toISOString() };
      const { messages } = await client.request('resendParkedMessages', { path: { id: endpointId }, body });
      onDone(messages === 0 ? 'There are none to send again.' : `Sends ${plural(messages, 'dead letter')} again.`);
    });
  };
  return (
    <form class="fields" onSubmit={go}>
      <p>Each is sent as it was, and stays here until it is delivered. What the source keeps no longer is left out.</p>
      <label>
        <span>Given up at, or after; empty: all of them</span>
        <input
          type="datetime-local"
          step="1"
          autoFocus
          value={since}
          onInput={({ currentTarget: { value } }) => setSince(value)}
        />
      </label>
      {error !== undefined && <Failure error={error} />}
      <div class="buttons">
        <button type="submit" class="danger" disabled={busy !== undefined}>
          Send them again
        </button>
        <Cancel onClick={onClose} />
      </div>
    </form>
  );
}

interface Replayed {
  readonly of: WebhookEndpoint;
  readonly onClose: () => void;
  readonly onDone: (words: string) => void;
}

const Replay = (replayed: Replayed): JSX.Element => (
  <Dialog title="Send a range again" onClose={replayed.onClose}>
    <ReplayForm {...replayed} />
  </Dialog>
);

function ReplayForm({ of: { endpointId, source, through }, onClose, onDone }: Replayed): JSX.Element {
  const { client } = useSession();
  const [from, setFrom] = useState('');
  const [to, setTo] = useState('');
  /** What would be sent was read, and is asked for once more. */
  const [isAsked, setAsked] = useState(false);
  const { busy, error, run } = useDeeds();
  const place = 'projectionId' in source ? 'sequence' : 'position';
  const go = (event: Event): void => {
    event.preventDefault();
    if (!isAsked) setAsked(true);
    else send();
  };
  const send = (): void =>
    run('replay', async () => {
      const body = { from: Number(from), ...(to === '' ? {} : { to: Number(to) }) };
      const range = await client.request('replayWebhookEndpoint', { path: { id: endpointId }, body });
      onDone(`Sends ${count(range.from)} to ${count(range.to)} again.`);
    });
  return (
    <form class="fields" onSubmit={go}>
      <label>
        <span>From {place}</span>
        <input
          type="number"
          min={1}
          required
          autoFocus
          value={from}
          onInput={({ currentTarget: { value } }) => {
            setFrom(value);
            setAsked(false);
          }}
        />
      </label>
      <label>
        <span>To {place}; empty: up to what is live</span>
        <input
          type="number"
          min={1}
          value={to}
          onInput={({ currentTarget: { value } }) => {
            setTo(value);
            setAsked(false);
          }}
        />
      </label>
      <div role="status">
        {isAsked && (
          <p>
            All that the endpoint follows from {place} {count(Number(from))} to{' '}
            {to === '' ? `what was delivered last, ${count(through)},` : count(Number(to))} is sent again, also what it
            took before: its receiver gets those messages twice.
          </p>
        )}
      </div>
      {error !== undefined && <Failure error={error} />}
      <div class="buttons">
        <button
          key={isAsked ? 'send' : 'ask'}
          type="submit"
          class={isAsked ? 'danger' : 'primary'}
          disabled={busy !== undefined}
        >
          {isAsked ? 'Send them again' : 'Go on'}
        </button>
        <Cancel onClick={onClose} />
      </div>
    </form>
  );
}
