import type { Operations, StatefoldClient, WebhookEndpoint } from '@statefold/client';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { useLoad } from '../load';
import { useDeeds } from '../deed';
import { allPages, usePages, useRefreshed } from '../pages-of';
import { useSession } from '../session';
import { useShown } from '../shown';
import { isUnanswered } from '../unanswered';
import { nameLines, namesIn } from '../name-lines';
import { Dialog, FormButtons, ShownOnce } from '../ui/dialogs';
import { Badge, Empty, Failure, Loading, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { count } from '../words';

type New = Operations['createWebhookEndpoint']['body'];
type Change = Operations['changeWebhookEndpoint']['body'];

const EVERY_MS = 5_000;
const KINDS = { healthy: 'good', failing: 'bad', paused: 'plain', disabled: 'bad' } as const;

export const Health = ({ of: { state } }: { readonly of: WebhookEndpoint }): JSX.Element => (
  <Badge kind={KINDS[state.status]}>{state.status}</Badge>
);

/** What it follows, in words. */
export function followed({ source }: WebhookEndpoint): string {
  if ('projectionId' in source) return `projection ${source.projectionId}`;
  const { aggregateTypes = [], eventTypes = [] } = source.feed;
  const types = [...aggregateTypes, ...eventTypes];
  return types.length === 0 ? 'all events' : `events: ${types.join(', ')}`;
}

/** Nothing tells a secret again. */
export const secretNotShown = (id: string): string =>
  `The page of the endpoint ${id} was left before its new secret came, so it was not shown: rotate the secret there.`;

export function WebhooksPage(): JSX.Element {
  const { client } = useSession();
  const [, go] = useLocation();
  const isShown = useShown();
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<{ readonly id: string; readonly secret: string }>();
  const list = usePages(
    async (cursor, signal) => {
      const page = await client.request('listWebhookEndpoints', { query: { limit: 100, cursor }, signal });
      return { items: page.endpoints, nextCursor: page.nextCursor };
    },
    [client],
  );
  useRefreshed(list, EVERY_MS);
  return (
    <Page
      title="Webhooks"
      aside={
        <>
          <button type="button" onClick={list.reload}>
            Reload
          </button>
          <button type="button" class="primary" onClick={() => setMaking(true)}>
            New endpoint
          </button>
        </>
      }
    >
      <Outdated of={list} />
      {list.items.length > 0 ? (
        <Rows
          count={list.items.length}
          label="Webhook endpoints"
          columns="minmax(12rem, 2fr) minmax(10rem, 2fr) 7rem 6rem 7rem 11rem"
          heads={['URL', 'Follows', 'State', 'Pending', 'Dead letters', 'Since']}
          onEnd={list.more}
          onSelect={(index) => go(`/webhooks/${list.items[index]?.endpointId ?? ''}`)}
          row={(index) => {
            const one = list.items[index];
            if (one === undefined) return { key: index, cells: [] };
            return {
              key: one.endpointId,
              cells: [
                <Link href={`/webhooks/${one.endpointId}`} tabIndex={-1} title={one.description ?? one.endpointId}>
                  {one.url}
                </Link>,
                followed(one),
                <Health of={one} />,
                <span class="number">{count(one.pending)}</span>,
                <span class="number">{count(one.parked)}</span>,
                <Time at={one.state.since} />,
              ],
            };
          }}
        />
      ) : list.isLoading ? (
        <Loading />
      ) : (
        list.error === undefined && (
          <Empty title="There are no webhook endpoints">
            <p>
              An endpoint is an address of yours that the service posts signed messages to: events as they are appended,
              or the changes of a projection.
            </p>
          </Empty>
        )
      )}
      {isMaking && (
        <Dialog title="New endpoint" onClose={() => setMaking(false)}>
          <EndpointForm
            deed="Create"
            onCancel={() => setMaking(false)}
            send={async (fields) => {
              const created = await client
                .request('createWebhookEndpoint', { body: newOf(fields) })
                .catch((failed: unknown) => {
                  // It may be there all the same.
                  if (isUnanswered(failed)) list.reload();
                  throw failed;
                });
              setMaking(false);
              setMade({ id: created.endpointId, secret: created.secret });
              return isShown() ? undefined : secretNotShown(created.endpointId);
            }}
          />
        </Dialog>
      )}
      {made && (
        <ShownOnce title="The endpoint’s secret" value={made.secret} onClose={() => go(`/webhooks/${made.id}`)}>
          Messages are signed with this secret, by which their receiver knows that they come from here.
        </ShownOnce>
      )}
    </Page>
  );
}

/** As they stand in the form. */
export interface Fields {
  readonly url: string;
  /** Empty: it follows the feed. */
  readonly projectionId: string;
  readonly aggregateTypes: string;
  readonly eventTypes: string;
  readonly keys: string;
  readonly description: string;
  readonly ratePerSecond: string;
  /** One a line, `Name: value`. */
  readonly headers: string;
  readonly isolateSecret: boolean;
  readonly from: 'now' | 'start';
}

const NONE: Fields = {
  url: '',
  projectionId: '',
  aggregateTypes: '',
  eventTypes: '',
  keys: '',
  description: '',
  ratePerSecond: '',
  headers: '',
  isolateSecret: true,
  from: 'now',
};

/** @throws Error for a line that is no header */
function headersOf(text: string): Record<string, string> {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf(':');
      if (at < 1) throw new Error(`“${line.trim()}” is no header: write its name, a colon and its value.`);
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()] as const;
    }),
  );
}

/** @throws Error for a line that is no name */
function feedOf(fields: Fields): { aggregateTypes?: string[]; eventTypes?: string[] } {
  const [aggregateTypes, eventTypes] = [namesIn(fields.aggregateTypes), namesIn(fields.eventTypes)];
  return { ...(aggregateTypes.length > 0 && { aggregateTypes }), ...(eventTypes.length > 0 && { eventTypes }) };
}

function newOf(fields: Fields): New {
  const { url, projectionId, description, ratePerSecond, headers, isolateSecret, from } = fields;
  const keys = namesIn(fields.keys);
  return {
    url: url.trim(),
    source: projectionId === '' ? { feed: feedOf(fields) } : { projectionId },
    isolateSecret,
    from,
    ...(keys.length > 0 && { keys }),
    ...(description.trim() !== '' && { description: description.trim() }),
    ...(ratePerSecond !== '' && { ratePerSecond: Number(ratePerSecond) }),
    ...(headers.trim() !== '' && { headers: headersOf(headers) }),
  };
}

/** What of an endpoint can be changed, as the form has it. Values of headers are never shown: those that are written are merged. */
export function fieldsOf({ url, source, keys, description, ratePerSecond, isolated }: WebhookEndpoint): Fields {
  return {
    ...NONE,
    url,
    ...('projectionId' in source
      ? { projectionId: source.projectionId }
      : {
          aggregateTypes: nameLines(source.feed.aggregateTypes),
          eventTypes: nameLines(source.feed.eventTypes),
        }),
    keys: nameLines(keys),
    description: description ?? '',
    ratePerSecond: ratePerSecond === undefined ? '' : String(ratePerSecond),
    isolateSecret: isolated,
  };
}

/** What the form changed; what it left as it was is left out. */
export function changeOf(before: Fields, fields: Fields): Change {
  const has = (...names: (keyof Fields)[]): boolean => names.some((name) => before[name] !== fields[name]);
  const keys = namesIn(fields.keys);
  return {
    ...(has('url') && { url: fields.url.trim() }),
    ...(has('aggregateTypes', 'eventTypes') && { source: { feed: feedOf(fields) } }),
    ...(has('keys') && { keys: keys.length > 0 ? keys : null }),
    ...(has('description') && { description: fields.description.trim() || null }),
    ...(has('ratePerSecond') && { ratePerSecond: fields.ratePerSecond === '' ? null : Number(fields.ratePerSecond) }),
    ...(has('headers') && { headers: headersOf(fields.headers) }),
    ...(has('isolateSecret') && { isolateSecret: fields.isolateSecret }),
  };
}

/** `of`: the endpoint that is changed; without it, a new one. */
export function EndpointForm({
  of,
  deed,
  send,
  onCancel,
}: {
  readonly of?: Fields;
  readonly deed: string;
  /** What it gives is told where the page was left meanwhile. */
  readonly send: (fields: Fields) => Promise<string | undefined>;
  readonly onCancel: () => void;
}): JSX.Element {
  const session = useSession();
  const [fields, setFields] = useState<Fields>(of ?? NONE);
  const { busy, error, run } = useDeeds();
  const mayRead = session.may('read');
  const projections = useLoad(
    async (signal) => (of === undefined && mayRead ? await projectionsOf(session.client, signal) : []),
    [session.client],
  );
  const set = (change: Partial<Fields>): void => setFields((before) => ({ ...before, ...change }));
  const ofFeed = fields.projectionId === '';
  const text = (name: keyof Fields, label: string, rest: JSX.InputHTMLAttributes = {}): JSX.Element => (
    <label>
      <span>{label}</span>
      <input
        {...rest}
        value={String(fields[name])}
        onInput={({ currentTarget: { value } }) => set({ [name]: value })}
      />
    </label>
  );
  const names = (name: 'eventTypes' | 'aggregateTypes' | 'keys', label: string): JSX.Element => (
    <label>
      <span>{label}</span>
      <textarea rows={2} value={fields[name]} onInput={({ currentTarget: { value } }) => set({ [name]: value })} />
    </label>
  );
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        run(deed, async () => send(fields));
      }}
    >
      {text('url', 'URL', { type: 'url', required: true, autoFocus: true, placeholder: 'https://shop.example/hooks' })}
      {of === undefined && (
        <label>
          <span>Follows</span>
          <select value={fields.projectionId} onChange={({ currentTarget: { value } }) => set({ projectionId: value })}>
            <option value="">events of the tenant</option>
            {projections.value?.map(({ id, name }) => (
              <option key={id} value={id}>
                changes of {name}
              </option>
            ))}
          </select>
        </label>
      )}
      {ofFeed && names('eventTypes', 'Types of events, one a line; empty: all')}
      {ofFeed && names('aggregateTypes', 'Types of aggregates, one a line; empty: all')}
      {names(
        'keys',
        ofFeed ? 'Only these aggregates, one a line; empty: all' : 'Only these keys, one a line; empty: all',
      )}
      {text('description', 'Description')}
      {text('ratePerSecond', 'Most attempts a second', { type: 'number', min: 0.01, max: 10_000, step: 'any' })}
      <label>
        <span>Headers that go with each attempt, one a line{of && '; those that are there stay'}</span>
        <textarea
          rows={2}
          placeholder="Authorization: Bearer …"
          value={fields.headers}
          onInput={({ currentTarget: { value } }) => set({ headers: value })}
        />
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={fields.isolateSecret}
          onChange={({ currentTarget: { checked } }) => set({ isolateSecret: checked })}
        />
        A secret of its own, rather than the one that the tenant’s endpoints share
      </label>
      {of === undefined && (
        <label class="check">
          <input
            type="checkbox"
            checked={fields.from === 'start'}
            onChange={({ currentTarget: { checked } }) => set({ from: checked ? 'start' : 'now' })}
          />
          Begin with the oldest that is kept
        </label>
      )}
      {error !== undefined && <Failure error={error} />}
      <FormButtons deed={deed} isHeld={busy !== undefined} onCancel={onCancel} />
    </form>
  );
}

const projectionsOf = async (
  client: StatefoldClient,
  signal: AbortSignal,
): Promise<readonly { readonly id: string; readonly name: string }[]> => {
  const all = await allPages(async (cursor) => {
    const page = await client.request('listProjections', { query: { limit: 100, cursor }, signal });
    return { items: page.projections, nextCursor: page.nextCursor };
  });
  return all.map(({ id, discovered }) => ({
    id,
    name: discovered?.map(({ className }) => className).join(', ') ?? id,
  }));
};
