import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { Link, useLocation } from 'wouter-preact';
import { useAddress } from '../address';
import { Rows } from '../ui/rows';
import { count, plural } from '../words';

type Activity = Operations['getProcessActivity']['answer'];
type Load = Omit<Activity['samples'][number]['tenants'][number], 'tenantId'>;

interface Served extends Load {
  readonly tenantId: string;
  /** Partitions of it that are open here, as far as the moves tell. */
  readonly partitions: number;
}

/** As many samples of 15 s each are summed up: five minutes. */
const LATEST = 20;
const NONE: Load = { events: 0, folded: 0, changes: 0 };
const loadOf = ({ events, folded, changes }: Load): number => events + folded + changes;

/** How many partitions of each tenant came to the process and did not leave it. */
function partitionsHere(moves: Activity['moves']): ReadonlyMap<string, number> {
  const open = new Map<string, Set<number>>();
  for (const { tenantId, partition, what } of moves) {
    const partitions = open.get(tenantId) ?? new Set<number>();
    open.set(tenantId, partitions);
    if (what === 'closed') partitions.delete(partition);
    else partitions.add(partition);
  }
  return new Map([...open].map(([tenantId, partitions]) => [tenantId, partitions.size]));
}

function loads(samples: Activity['samples']): ReadonlyMap<string, Load> {
  const sums = new Map<string, Load>();
  for (const { tenants } of samples)
    for (const { tenantId, ...more } of tenants) {
      const { events, folded, changes } = sums.get(tenantId) ?? NONE;
      sums.set(tenantId, {
        events: events + more.events,
        folded: folded + more.folded,
        changes: changes + more.changes,
      });
    }
  return sums;
}

/** By name, and else whoever has most of it first. */
const ORDERS = ['all', 'events', 'folded', 'changes', 'partitions', 'name'] as const;
type Order = (typeof ORDERS)[number];
const ORDER_NAMES: Readonly<Record<Order, string>> = {
  all: 'All that it took',
  events: 'Appended',
  folded: 'Folded',
  changes: 'Changes',
  partitions: 'Partitions',
  name: 'Name',
};

function comparedBy(order: Order, nameOf: (tenantId: string) => string): (a: Served, b: Served) => number {
  const byName = (a: Served, b: Served): number => nameOf(a.tenantId).localeCompare(nameOf(b.tenantId));
  if (order === 'name') return byName;
  const most = (tenant: Served): number => (order === 'all' ? loadOf(tenant) : tenant[order]);
  return (a, b) => most(b) - most(a) || byName(a, b);
}

/** Those that took something of late, and those that are open. */
function servedOf({ samples, moves }: Pick<Activity, 'samples' | 'moves'>): readonly Served[] {
  const sums = loads(samples.slice(-LATEST));
  const partitions = partitionsHere(moves);
  return [...new Set([...sums.keys(), ...partitions.keys()])]
    .map((tenantId) => ({ tenantId, partitions: partitions.get(tenantId) ?? 0, ...(sums.get(tenantId) ?? NONE) }))
    .filter((tenant) => tenant.partitions > 0 || loadOf(tenant) > 0);
}

const pathOf = (tenantId = ''): string => `/?tenant=${encodeURIComponent(tenantId)}`;

/** By its name; its id where it has none any more, or where it is called so. */
export const TenantLink = ({
  id,
  names,
  tabIndex,
}: {
  readonly id: string;
  readonly names: Activity['tenantNames'];
  readonly tabIndex?: number;
}): JSX.Element => (
  <Link href={pathOf(id)} title={id} {...(tabIndex !== undefined && { tabIndex })}>
    {names[id] ?? id}
  </Link>
);

/** The tenants that a process serves, by what they take of it. */
export function ServedTenants({
  activity,
}: {
  readonly activity: Pick<Activity, 'samples' | 'moves' | 'figures' | 'tenantNames'>;
}): JSX.Element {
  const [, go] = useLocation();
  const { search, change } = useAddress();
  const order = ORDERS.find((one) => one === search.get('sort')) ?? 'all';
  const served = servedOf(activity).toSorted(comparedBy(order, (id) => activity.tenantNames[id] ?? id));
  if (served.length === 0) return <></>;
  const others = (activity.figures['active_tenants'] ?? 0) - served.length;
  return (
    <section aria-label="Tenants served here">
      <h2>Tenants served here, and what they took in the last five minutes</h2>
      <p class="filters">
        <label>
          <span>Sort by</span>
          <select
            value={order}
            onChange={({ currentTarget: { value } }) => change({ sort: value === 'all' ? undefined : value })}
          >
            {ORDERS.map((one) => (
              <option key={one} value={one}>
                {ORDER_NAMES[one]}
              </option>
            ))}
          </select>
        </label>
      </p>
      <div class="short">
        <Rows
          count={served.length}
          label="Tenants served here"
          columns="minmax(8rem, 2fr) 8rem 8rem 8rem 8rem"
          minWidth={640}
          heads={['Tenant', 'Appended', 'Folded', 'Changes', 'Partitions']}
          onSelect={(index) => go(pathOf(served[index]?.tenantId))}
          row={(index) => {
            const tenant = served[index];
            if (tenant === undefined) return { key: index, cells: [] };
            return {
              key: tenant.tenantId,
              cells: [
                <TenantLink id={tenant.tenantId} names={activity.tenantNames} tabIndex={-1} />,
                ...[tenant.events, tenant.folded, tenant.changes, tenant.partitions].map((value) => (
                  <span class="number">{count(value)}</span>
                )),
              ],
            };
          }}
        />
      </div>
      <p class="faint">
        Of each 15 seconds the process tells the ten tenants that took most
        {others > 0 && `, and ${plural(others, 'active tenant is', 'active tenants are')} not listed`}.
      </p>
    </section>
  );
}
