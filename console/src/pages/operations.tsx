import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { useAddress } from '../address';
import type { ChartData } from '../lazy/chart';
import { useLoad } from '../load';
import { useSession } from '../session';
import { ChartBox } from '../ui/chart';
import { Badge, Empty, Loading, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { bytes, count, milliseconds, plural, timeOf } from '../words';
import { ReadStore } from './read-store';
import { ServedTenants, TenantLink } from './served-tenants';

type Process = Operations['listProcesses']['answer']['processes'][number];
type Activity = Operations['getProcessActivity']['answer'];
type Sample = Activity['samples'][number];
type Move = Activity['moves'][number];

const EVERY_MS = 5_000;
/** Lines that are told apart in one chart. */
const TENANT_LINES = 4;
/** A slice of work should not be longer. */
const LONG_HOLD_MS = 50;
const HOUR_MS = 3_600_000;

/** For the owner of the service: its processes, and what each has done in the last hour. */
export function OperationsPage(): JSX.Element {
  const { client } = useSession();
  const { search, change } = useAddress();
  const chosen = search.get('process') ?? undefined;
  const processes = useLoad((signal) => client.request('listProcesses', { signal }), [client], EVERY_MS);
  const activity = useLoad(
    (signal) => client.request('getProcessActivity', { query: { url: chosen }, signal }),
    [client, chosen],
    EVERY_MS,
  );
  const { value } = activity;
  return (
    <Page
      title="Operations"
      aside={
        value && (
          <span class="faint">
            version {value.version}, since <Time at={value.startedAt} />
          </span>
        )
      }
    >
      <Outdated of={processes} />
      {processes.value && (
        <Processes list={processes.value.processes} shown={value?.url} onChoose={(url) => change({ process: url })} />
      )}
      <Outdated of={activity} />
      {value === undefined ? (
        activity.error === undefined && <Loading />
      ) : (
        <Shown activity={value} onChanged={activity.reload} />
      )}
    </Page>
  );
}

function Processes({
  list,
  shown,
  onChoose,
}: {
  readonly list: readonly Process[];
  readonly shown: string | undefined;
  readonly onChoose: (url: string) => void;
}): JSX.Element {
  return (
    <section aria-label="Processes">
      <h2>{plural(list.length, 'process', 'processes')}</h2>
      <ul class="processes">
        {list.map(({ url, self, owned, standbys, notified }) => (
          <li key={url}>
            <button type="button" class="marks" aria-pressed={url === shown} onClick={() => onChoose(url)}>
              <code>{url}</code> {self && <Badge>answers here</Badge>}
              <span class="faint">
                owns {plural(owned, 'slot')}, {plural(standbys, 'standby', 'standbys')}, notifies of {count(notified)}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Shown({ activity, onChanged }: { readonly activity: Activity; readonly onChanged: () => void }): JSX.Element {
  const { samples, tenantNames } = activity;
  const last = samples.at(-1);
  return (
    <>
      <State activity={activity} />
      {last === undefined ? (
        <Empty title="The process has just begun">
          <p>Its first figures come within 15 seconds.</p>
        </Empty>
      ) : (
        <>
          <Now sample={last} />
          <Charts samples={samples} names={tenantNames} />
        </>
      )}
      <ServedTenants activity={activity} />
      <Moves {...activity} />
      <ReadStore key={activity.url} activity={activity} onChanged={onChanged} />
      <div class="charts">
        <Holds holds={activity.holds} />
        <Memory {...activity} />
      </div>
    </>
  );
}

type Check = Activity['checks'][string];

/** What each part is there for, and what follows from how it is. */
const PARTS: Readonly<Record<string, Readonly<Partial<Record<Check, string>>>>> = {
  log: {
    up: 'The log of events takes and gives records.',
    degraded: 'The log of events is read, and takes no appends: the disk of the data directory is full.',
    down: 'The log of events does not answer. Appends are refused until it does.',
  },
  readStore: {
    up: 'Rows for SQL are written, and SQL is answered.',
    starting: 'ClickHouse starts, a second or more after the service serves. SQL is answered then.',
    degraded: 'SQL is answered. Rows of some tenants are refused, so what SQL finds of them grows old.',
    down: 'ClickHouse does not answer. SQL is refused until it does; nothing is lost, rows come later.',
  },
  codeHost: {
    up: 'Code of tenants is run, each tenant’s shut in on its own.',
    degraded: 'Code of tenants is run, and not as it should be: the log of the process says why.',
    down: 'Code of tenants is not run, since this machine can’t shut it in. The log of the process says what it lacks.',
  },
  replication: {
    up: 'No topic is known to have fewer copies than wanted.',
    degraded:
      'Topics have fewer copies than wanted: the loss of a broker may lose records, and `statefold topics raise` adds copies.',
    down: 'How many copies topics have can’t be told: the brokers do not say.',
  },
};
const BADGES = { up: 'good', starting: 'busy', degraded: 'busy', down: 'bad' } as const;

const Parts = ({ of: checks }: { readonly of: Activity['checks'] }): JSX.Element => (
  <ul class="faults" aria-label="Parts">
    {Object.entries(checks).map(([name, check]) => (
      <li key={name}>
        <Badge kind={BADGES[check]}>
          {name} {check}
        </Badge>{' '}
        {PARTS[name]?.[check] ?? 'The log of the process says more.'}
      </li>
    ))}
  </ul>
);

/** What works less well than it should beside the parts, in words, with what to look at. */
function troublesOf({ checks, figures }: Pick<Activity, 'checks' | 'figures'>): readonly string[] {
  const of = (name: string): number => figures[name] ?? 0;
  return [
    ...(of('log_topics_short_of_copies') > 0
      ? [
          `${plural(of('log_topics_short_of_copies'), 'topic has', 'topics have')} fewer copies than wanted: the loss of a broker may lose records, and \`statefold topics raise\` adds copies.`,
        ]
      : []),
    ...(of('read_store_behind_tenants') > 0 && checks['readStore'] === 'down'
      ? [`Rows of ${plural(of('read_store_behind_tenants'), 'tenant')} wait for the read store.`]
      : []),
    ...(of('read_store_refused_tenants') > 0
      ? [`The read store refuses the rows of ${plural(of('read_store_refused_tenants'), 'tenant')}.`]
      : []),
    ...(of('runners_waiting') > 0
      ? [`The code of ${plural(of('runners_waiting'), 'tenant')} waits for a process: all slots for runners are taken.`]
      : []),
    ...(of('faulted_artefacts') > 0
      ? [`${plural(of('faulted_artefacts'), 'artefact is', 'artefacts are')} halted until a new upload or a revival.`]
      : []),
    ...(of('faulted_keys') + of('faulted_aggregates') > 0
      ? [
          `${plural(of('faulted_aggregates'), 'aggregate')} and ${plural(of('faulted_keys'), 'key')} of projections are faulted.`,
        ]
      : []),
  ];
}

const faultsOf = ({ aggregates, keys, artefacts }: Omit<Activity['faulted'][number], 'tenantId'>): string =>
  [
    ...(aggregates > 0 ? [`has ${plural(aggregates, 'aggregate')} that stopped at an event`] : []),
    ...(keys > 0 ? [`has ${plural(keys, 'key')} of projections that stopped at one`] : []),
    ...(artefacts > 0 ? [`has code that was halted (${plural(artefacts, 'artefact')})`] : []),
  ].join(', ');

function State({ activity }: { readonly activity: Activity }): JSX.Element {
  const troubles = troublesOf(activity);
  const { figures, roles } = activity;
  return (
    <section aria-label="State">
      <Parts of={activity.checks} />
      <p class="faint">
        {roles.join(', ')}; {plural(figures['active_tenants'] ?? 0, 'active tenant')};{' '}
        {plural(figures['runners'] ?? 0, 'runner')} with {bytes(figures['runners_resident_bytes'] ?? 0)}
      </p>
      {troubles.length > 0 && (
        <ul class="faults" aria-label="What is amiss">
          {troubles.map((trouble) => (
            <li key={trouble}>{trouble}</li>
          ))}
          {activity.faulted.map(({ tenantId, ...counts }) => (
            <li key={tenantId}>
              <TenantLink id={tenantId} names={activity.tenantNames} /> {faultsOf(counts)}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

const rate = (value: number, { seconds }: Sample): number => value / Math.max(seconds, 0.001);

function Now({ sample }: { readonly sample: Sample }): JSX.Element {
  const figures: readonly (readonly [string, string])[] = [
    ['Requests a second', count(Math.round(rate(sample.requests, sample)))],
    ['Answered 5xx', count(sample.failures)],
    ['Events a second', count(Math.round(rate(sample.events, sample)))],
    ['Appends, median', sample.appendP50Ms === undefined ? '–' : milliseconds(sample.appendP50Ms)],
    ['Appends, p99', sample.appendP99Ms === undefined ? '–' : milliseconds(sample.appendP99Ms)],
    ['Projections behind', plural(sample.lagCommits, 'commit')],
    ['Resident memory', bytes(sample.residentBytes)],
  ];
  return (
    <dl class="figures" aria-label="The last 15 seconds">
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

interface Line {
  readonly name: string;
  readonly of: (sample: Sample) => number | undefined;
}

const lines = (samples: readonly Sample[], series: readonly Line[]): ChartData => ({
  kind: 'time',
  fromZero: true,
  x: samples.map(({ at }) => Date.parse(at) / 1000),
  series: series.map(({ name, of }) => ({ name, values: samples.map((sample) => of(sample) ?? null) })),
});

/** Those that took most in the whole time. */
function busiest(samples: readonly Sample[]): readonly string[] {
  const sums = new Map<string, number>();
  for (const { tenants } of samples)
    for (const { tenantId, events, folded, changes } of tenants)
      sums.set(tenantId, (sums.get(tenantId) ?? 0) + events + folded + changes);
  return [...sums]
    .filter(([, sum]) => sum > 0)
    .sort(([, a], [, b]) => b - a)
    .slice(0, TENANT_LINES)
    .map(([tenantId]) => tenantId);
}

function Charts({
  samples,
  names,
}: {
  readonly samples: readonly Sample[];
  readonly names: Activity['tenantNames'];
}): JSX.Element {
  // The answer is a new object each time, and has a new sample every third time only.
  const charts = useMemo(() => {
    const tenants = busiest(samples);
    const tenantLines = (figure: 'events' | 'folded' | 'changes'): readonly Line[] =>
      tenants.map((id) => ({
        name: names[id] ?? id,
        of: (sample) => rate(sample.tenants.find(({ tenantId }) => tenantId === id)?.[figure] ?? 0, sample),
      }));
    return [
      {
        title: 'Requests and events a second',
        data: lines(samples, [
          { name: 'requests', of: (sample) => rate(sample.requests, sample) },
          { name: 'events', of: (sample) => rate(sample.events, sample) },
        ]),
      },
      {
        title: 'Appends, milliseconds',
        data: lines(samples, [
          { name: 'median', of: ({ appendP50Ms }) => appendP50Ms },
          { name: 'p99', of: ({ appendP99Ms }) => appendP99Ms },
        ]),
      },
      {
        title: 'Commits that projections are behind',
        data: lines(samples, [{ name: 'commits', of: ({ lagCommits }) => lagCommits }]),
      },
      {
        title: 'Events appended a second, by tenant',
        data: lines(samples, [{ name: 'all', of: (sample) => rate(sample.events, sample) }, ...tenantLines('events')]),
      },
      {
        title: 'Events folded a second, by tenant',
        data: lines(samples, [{ name: 'all', of: (sample) => rate(sample.folded, sample) }, ...tenantLines('folded')]),
      },
      {
        title: 'Changes of projections a second, by tenant',
        data: lines(samples, [
          { name: 'all', of: (sample) => rate(sample.changes, sample) },
          ...tenantLines('changes'),
        ]),
      },
      {
        title: 'Resident memory, MiB',
        data: lines(samples, [{ name: 'MiB', of: ({ residentBytes }) => residentBytes / 1024 ** 2 }]),
      },
      {
        title: 'Longest hold of the event loop, milliseconds',
        data: lines(samples, [{ name: 'ms', of: ({ longestHoldMs }) => longestHoldMs }]),
      },
    ];
  }, [samples.at(-1)?.at, samples.length]);
  return (
    <div class="charts">
      {charts.map(({ title, data }) => (
        <figure key={title}>
          <figcaption>{title}</figcaption>
          <ChartBox data={data} label={`${title}, over the last hour; the latest values stand above`} />
        </figure>
      ))}
    </div>
  );
}

const MOVED: Readonly<Record<Move['what'], string>> = {
  restored: 'restored here',
  promoted: 'taken over by the standby here',
  closed: 'closed here',
};

function Moves({ moves, tenantNames: names }: Pick<Activity, 'moves' | 'tenantNames'>): JSX.Element {
  if (moves.length === 0) return <></>;
  const latest = moves.toReversed();
  return (
    <section aria-label="Tenants that came and went">
      <h2>Tenants that came and went</h2>
      <TimeLine moves={moves} />
      <div class="short">
        <Rows
          count={latest.length}
          label="Tenants that came and went"
          columns="12rem minmax(8rem, 2fr) 5rem 16rem 8rem"
          heads={['When', 'Tenant', 'Partition', '', 'Took']}
          row={(index) => {
            const move = latest[index];
            return {
              key: latest.length - index,
              cells: move
                ? [
                    <Time at={move.at} />,
                    <TenantLink id={move.tenantId} names={names} />,
                    count(move.partition),
                    MOVED[move.what],
                    move.tookMs === undefined ? '' : milliseconds(move.tookMs),
                  ]
                : [],
            };
          }}
        />
      </div>
    </section>
  );
}

/** A mark for each, where it was in the last hour. The table below has them as text. */
function TimeLine({ moves }: { readonly moves: readonly Move[] }): JSX.Element {
  const now = Date.now();
  const shown = moves.filter(({ at }) => Date.parse(at) > now - HOUR_MS);
  return (
    <svg
      class="time-line"
      viewBox="0 0 1000 24"
      preserveAspectRatio="none"
      role="img"
      aria-label={`${plural(shown.length, 'move')} in the last hour; the table has them`}
    >
      <line x1="0" y1="12" x2="1000" y2="12" />
      {shown.map(({ at, what, tenantId }, n) => (
        <rect key={n} class={what} x={1000 - ((now - Date.parse(at)) / HOUR_MS) * 1000} y="3" width="3" height="18">
          <title>{`${timeOf(at)} ${tenantId} ${MOVED[what]}`}</title>
        </rect>
      ))}
    </svg>
  );
}

function Holds({ holds }: Pick<Activity, 'holds'>): JSX.Element {
  return (
    <section aria-label="Longest holds">
      <h2>Longest holds of the event loop, the last two minutes</h2>
      <ul class="usage">
        {holds.map(({ work, longestMs, long }) => (
          <li key={work}>
            <span>{work.replaceAll('_', ' ')}</span>
            <span class="number">
              {milliseconds(longestMs)}
              {long > 0 && `, over ${LONG_HOLD_MS} ms ${count(long)} times since the start`}
            </span>
            <meter aria-label={work} min={0} max={LONG_HOLD_MS} value={Math.min(longestMs, LONG_HOLD_MS)} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Memory({ memory: { limitBytes, held } }: Pick<Activity, 'memory'>): JSX.Element {
  return (
    <section aria-label="Memory of work under way">
      <h2>Held of {bytes(limitBytes)} for work under way</h2>
      <ul class="usage">
        {Object.entries(held).map(([kind, value]) => (
          <li key={kind}>
            <span>{kind.replaceAll('_', ' ')}</span>
            <span class="number">{bytes(value)}</span>
            <meter aria-label={kind} min={0} max={limitBytes} value={value} />
          </li>
        ))}
      </ul>
    </section>
  );
}
