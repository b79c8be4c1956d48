import type { Operations } from '@statefold/client';
import { Fragment, type ComponentChildren, type JSX } from 'preact';
import { Link } from 'wouter-preact';
import { useSession, type Scope, type Session } from '../session';
import { Json } from '../ui/json';
import { Name } from '../ui/name';
import { Badge, Time } from '../ui/parts';
import { milliseconds } from '../words';

export type Entry = Operations['listAudit']['answer']['entries'][number];

const KINDS = { done: 'good', refused: 'plain', failed: 'bad', unknown: 'busy' } as const;
const OUTCOMES: Readonly<Record<Entry['outcome'], string>> = {
  done: 'The change was made.',
  refused: 'Nothing was changed.',
  failed: 'The change may have been made in part.',
  unknown: 'The change is under way, or its process ended before the outcome was written: it may have been made.',
};

/** Ids of what was changed, in one line. */
export const whatOf = ({ object }: Entry): string => Object.values(object).join(', ');
export const whoOf = ({ keyName, keyId }: Entry): string => keyName ?? keyId;
export const Outcome = ({ of: { outcome, code } }: { readonly of: Entry }): JSX.Element => (
  <Badge kind={KINDS[outcome]}>{code ?? outcome}</Badge>
);

const tenantPath = (id: string): string => `/?tenant=${encodeURIComponent(id)}`;
/** Where an object has a page in the console of a tenant, by the name of its id. */
const PLACES: Readonly<Record<string, readonly [scope: Scope, pathOf: (id: string) => string]>> = {
  projectionId: ['read', (id) => `/projections/${encodeURIComponent(id)}`],
  aggregateId: ['read', (id) => `/aggregates/${encodeURIComponent(id)}`],
  endpointId: ['webhooks', (id) => `/webhooks/${encodeURIComponent(id)}`],
  reducerId: ['read', (id) => `/reducers?id=${encodeURIComponent(id)}`],
  aggregateType: ['read', (type) => `/types/${encodeURIComponent(type)}`],
  eventType: ['read', (type) => `/event-types/${encodeURIComponent(type)}`],
};

/** Undefined where the object has no page that this key opens: the owner's console has pages of tenants alone. */
function pathOf(name: string, id: string, { kind, may }: Pick<Session, 'kind' | 'may'>): string | undefined {
  if (kind === 'admin') return name === 'tenantId' ? tenantPath(id) : undefined;
  const [scope, path] = PLACES[name] ?? [];
  return scope !== undefined && may(scope) ? path?.(id) : undefined;
}

/** An entry of the audit log with all that it tells. */
export function AuditEntry({ of: entry }: { readonly of: Entry }): JSX.Element {
  const session = useSession();
  const { at, endedAt, tenantId, status, details } = entry;
  const members: readonly (readonly [string, ComponentChildren])[] = [
    ['When', <Time at={at} />],
    ...(endedAt === undefined ? [] : [['Took', milliseconds(Date.parse(endedAt) - Date.parse(at))] as const]),
    ...(tenantId === undefined || 'tenantId' in entry.object
      ? []
      : [['tenantId', <Named name="tenantId" id={tenantId} session={session} />] as const]),
    ...Object.entries(entry.object).map(
      ([name, id]) => [name, <Named name={name} id={id} session={session} />] as const,
    ),
    [
      'Outcome',
      <>
        <Outcome of={entry} /> {status !== undefined && <code>{status}</code>} {OUTCOMES[entry.outcome]}
      </>,
    ],
    ['By the key', whoOf(entry)],
    ['Key', <code>{entry.keyId}</code>],
    ['Request', <code>{entry.requestId}</code>],
    ...(entry.remoteAddress === undefined ? [] : [['From', <code>{entry.remoteAddress}</code>] as const]),
    ['Entry', <code>{entry.id}</code>],
  ];
  return (
    <section aria-label="The entry">
      <h2>{entry.action}</h2>
      <dl>
        {members.map(([name, value]) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </Fragment>
        ))}
      </dl>
      {details !== undefined && (
        <>
          <h2>What was asked for</h2>
          <Json value={details} label="What was asked for" />
        </>
      )}
    </section>
  );
}

function Named({
  name,
  id,
  session,
}: {
  readonly name: string;
  readonly id: string;
  readonly session: Session;
}): JSX.Element {
  const path = pathOf(name, id, session);
  return path === undefined ? (
    <code>
      <Name of={id} />
    </code>
  ) : (
    <Link href={path}>
      <Name of={id} />
    </Link>
  );
}
