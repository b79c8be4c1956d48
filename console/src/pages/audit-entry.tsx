import type { Operations } from '@statefold/client';
import { Fragment, type ComponentChildren, type JSX } from 'preact';
import { Link } from 'wouter-preact';
import { useSession, type Session } from '../session';
import { Json } from '../ui/json';
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
const PATHS: Readonly<Record<string, (id: string) => string>> = {
  projectionId: (id) => `/projections/${encodeURIComponent(id)}`,
  aggregateId: (id) => `/aggregates/${encodeURIComponent(id)}`,
  endpointId: (id) => `/webhooks/${encodeURIComponent(id)}`,
  reducerId: (id) => `/code?kind=reducers&id=${encodeURIComponent(id)}`,
  aggregateType: (type) => `/aggregates?type=${encodeURIComponent(type)}`,
  eventType: (type) => `/feed?eventType=${encodeURIComponent(type)}`,
};

/** Undefined where the object has no page that this key opens: the owner's console has pages of tenants alone. */
function pathOf(name: string, id: string, kind: Session['kind']): string | undefined {
  if (kind === 'admin') return name === 'tenantId' ? tenantPath(id) : undefined;
  return PATHS[name]?.(id);
}

/** An entry of the audit log with all that it tells. */
export function AuditEntry({ of: entry }: { readonly of: Entry }): JSX.Element {
  const { kind } = useSession();
  const { at, endedAt, tenantId, status, details } = entry;
  const members: readonly (readonly [string, ComponentChildren])[] = [
    ['When', <Time at={at} />],
    ...(endedAt === undefined ? [] : [['Took', milliseconds(Date.parse(endedAt) - Date.parse(at))] as const]),
    ...(tenantId === undefined || 'tenantId' in entry.object
      ? []
      : [['tenantId', <Named name="tenantId" id={tenantId} kind={kind} />] as const]),
    ...Object.entries(entry.object).map(([name, id]) => [name, <Named name={name} id={id} kind={kind} />] as const),
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
  kind,
}: {
  readonly name: string;
  readonly id: string;
  readonly kind: Session['kind'];
}): JSX.Element {
  const path = pathOf(name, id, kind);
  return path === undefined ? <code>{id}</code> : <Link href={path}>{id}</Link>;
}
