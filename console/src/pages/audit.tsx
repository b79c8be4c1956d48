import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useAddress } from '../address';
import { useFurtherPages, usePages } from '../pages-of';
import { useSession } from '../session';
import { Detail } from '../ui/detail';
import { Empty, Loading, Outdated, Page, Time } from '../ui/parts';
import { Rows } from '../ui/rows';
import { plural } from '../words';
import { AuditEntry, Outcome, whatOf, whoOf, type Entry } from './audit-entry';

const PAGE = 200;
/** An entry that is asked for by its address is looked for among so many; further down whoever scrolls comes to it. */
const MOST_LOOKED_AT = 10_000;

const OUTCOMES = ['done', 'refused', 'failed', 'unknown'] as const;
type Filter = 'tenant' | 'action' | 'object' | 'key' | 'outcome' | 'from' | 'to';
interface FilterField {
  readonly words: string;
  readonly type?: 'datetime-local';
  readonly placeholder?: string;
}
/** What entries are told apart by, as the address has them. Times are of the viewer's zone. */
const FILTERS: Readonly<Record<Filter, FilterField>> = {
  tenant: { words: 'Tenant', placeholder: 'all of them' },
  action: { words: 'What', placeholder: 'projection.rollback, projection' },
  object: { words: 'On', placeholder: 'an id' },
  key: { words: 'By the key', placeholder: 'its keyId' },
  outcome: { words: 'Outcome' },
  from: { words: 'From', type: 'datetime-local' },
  to: { words: 'To', type: 'datetime-local' },
};
type Chosen = Readonly<Partial<Record<Filter, string>>>;

/** Those that are looked for less often. */
const MORE: readonly Filter[] = ['key', 'outcome', 'from', 'to'];
const NAMES = Object.keys(FILTERS) as readonly Filter[];
/** Undefined where it is empty, or no time. */
function timeOf(local: string | undefined): string | undefined {
  const at = new Date(local ?? '');
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}
const outcomeOf = (text: string | undefined): (typeof OUTCOMES)[number] | undefined =>
  OUTCOMES.find((one) => one === text);
const orNone = (text: string | undefined): string | undefined => (text === '' ? undefined : text);

interface Column {
  readonly head: string;
  /** Of a CSS grid. */
  readonly track: string;
  readonly cell: (entry: Entry) => ComponentChildren;
}

/** Beside an entry that is open there is room for less, and the entry tells the rest. */
const columnsOf = ({
  namesTenants,
  isOpen,
}: {
  readonly namesTenants: boolean;
  readonly isOpen: boolean;
}): readonly Column[] => [
  { head: 'Time', track: '11rem', cell: ({ at }) => <Time at={at} /> },
  { head: 'What', track: 'minmax(9rem, 1fr)', cell: ({ action }) => action },
  ...(isOpen && namesTenants ? [] : [{ head: 'On', track: 'minmax(9rem, 2fr)', cell: whatOf }]),
  ...(namesTenants ? [{ head: 'Tenant', track: 'minmax(6rem, 1fr)', cell: ({ tenantId }: Entry) => tenantId }] : []),
  { head: 'Outcome', track: '8rem', cell: (entry) => <Outcome of={entry} /> },
  ...(isOpen
    ? []
    : [
        { head: 'By the key', track: 'minmax(7rem, 1fr)', cell: whoOf },
        { head: 'From', track: '8rem', cell: ({ remoteAddress }: Entry) => remoteAddress },
      ]),
];

/** Who changed what: of the tenant, or of all for the owner of the service. */
export function AuditPage(): JSX.Element {
  const { client, kind } = useSession();
  const { search, change } = useAddress();
  const names = NAMES.filter((name) => name !== 'tenant' || kind === 'admin');
  const wanted: Chosen = Object.fromEntries(names.map((name) => [name, search.get(name) ?? '']));
  const { tenant = '', action, object, key, outcome, from, to } = wanted;
  const isFiltered = Object.values(wanted).some((value) => value !== '');
  const chosenId = search.get('entry');
  const list = usePages(
    async (cursor, signal) => {
      const query = {
        ...{ limit: PAGE, cursor, action: orNone(action), object: orNone(object), key: orNone(key) },
        ...{ outcome: outcomeOf(outcome), from: timeOf(from), to: timeOf(to) },
      };
      const page =
        kind === 'admin'
          ? await client.request('listAllAudit', { query: { ...query, ...(tenant !== '' && { tenant }) }, signal })
          : await client.request('listAudit', { query, signal });
      return { items: page.entries, nextCursor: page.nextCursor };
    },
    [client, kind, ...Object.values(wanted)],
  );
  const chosen = chosenId === null ? undefined : list.items.find(({ id }) => id === chosenId);
  const isLookedFor = chosenId !== null && chosen === undefined;
  const mayFind = !list.isWhole && list.error === undefined && list.items.length < MOST_LOOKED_AT;
  // A page of what is looked for may be empty, and more of it stand further down.
  useFurtherPages(list, (isLookedFor && mayFind) || list.items.length < (isFiltered ? PAGE : 1));
  const columns = columnsOf({ namesTenants: kind === 'admin' && tenant === '', isOpen: chosenId !== null });
  return (
    <Page
      title="Audit log"
      aside={
        <button type="button" onClick={list.reload}>
          Reload
        </button>
      }
    >
      <Filters
        names={names}
        chosen={wanted}
        onChange={(next) =>
          change({ ...Object.fromEntries(names.map((name) => [name, next[name]])), entry: undefined })
        }
      />
      <Outdated of={list} />
      {list.items.length > 0 ? (
        <div class={chosenId === null ? '' : 'split'}>
          <Rows
            count={list.items.length}
            label="Entries of the audit log"
            columns={columns.map(({ track }) => track).join(' ')}
            minWidth={columns.length * 130}
            heads={columns.map(({ head }) => head)}
            onEnd={list.more}
            shows={chosen && list.items.indexOf(chosen)}
            selected={(index) => list.items[index]?.id === chosenId}
            onSelect={(index) => change({ entry: list.items[index]?.id })}
            row={(index) => {
              const entry = list.items[index];
              return { key: entry?.id ?? index, cells: entry ? columns.map(({ cell }) => cell(entry)) : [] };
            }}
          />
          {chosenId !== null && (
            <Detail onClose={() => change({ entry: undefined })}>
              {chosen ? (
                <AuditEntry of={chosen} />
              ) : mayFind ? (
                <Loading />
              ) : (
                <p>
                  {list.isWhole
                    ? 'There is no such entry: it is older than the log keeps them, or another tenant’s.'
                    : 'The entry is further down: scroll, and it opens when it comes.'}
                </p>
              )}
            </Detail>
          )}
        </div>
      ) : !list.isWhole && list.error === undefined ? (
        <Loading />
      ) : (
        list.error === undefined && <Nothing isFiltered={isFiltered} />
      )}
      <p class="faint" role="status">
        {plural(list.items.length, 'entry', 'entries')}
        {list.isWhole ? '' : ' so far; scroll for more'}
      </p>
    </Page>
  );
}

/** What is written holds once it is sent. */
function Filters({
  names,
  chosen,
  onChange,
}: {
  readonly names: readonly Filter[];
  readonly chosen: Chosen;
  readonly onChange: (chosen: Chosen) => void;
}): JSX.Element {
  const [written, setWritten] = useState(chosen);
  // What the address names holds, also where Back has brought it. The form stays, and the focus in it.
  useEffect(() => setWritten(chosen), Object.values(chosen));
  const submit = useRef<HTMLButtonElement>(null);
  const set = (name: Filter, value: string): void => setWritten((before) => ({ ...before, [name]: value }));
  const field = (name: Filter): JSX.Element => {
    const { words, type = 'search', placeholder } = FILTERS[name];
    const value = written[name] ?? '';
    return (
      <label key={name}>
        <span>{words}</span>
        {name === 'outcome' ? (
          <select value={value} onChange={({ currentTarget }) => set(name, currentTarget.value)}>
            <option value="">any</option>
            {OUTCOMES.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        ) : (
          <input
            type={type}
            step={type === 'datetime-local' ? 1 : undefined}
            placeholder={placeholder}
            value={value}
            onInput={({ currentTarget }) => set(name, currentTarget.value)}
          />
        )}
      </label>
    );
  };
  return (
    <form
      role="search"
      class="filters"
      onSubmit={(event) => {
        event.preventDefault();
        onChange(Object.fromEntries(Object.entries(written).map(([name, value]) => [name, value.trim()])));
      }}
    >
      {names.filter((name) => !MORE.includes(name)).map(field)}
      <details open={MORE.some((name) => (chosen[name] ?? '') !== '')}>
        <summary>More</summary>
        <div class="filters">{MORE.map(field)}</div>
      </details>
      <button type="submit" ref={submit}>
        Show
      </button>
      {Object.values(chosen).some((value) => value !== '') && (
        <button
          type="button"
          onClick={() => {
            // The button goes with what it takes away.
            submit.current?.focus();
            onChange({});
          }}
        >
          Show all
        </button>
      )}
    </form>
  );
}

const Nothing = ({ isFiltered }: { readonly isFiltered: boolean }): JSX.Element =>
  isFiltered ? (
    <Empty title="Nothing like it was changed">
      <p>Ids and actions are written as entries have them. Entries of a tenant that was deleted stay.</p>
    </Empty>
  ) : (
    <Empty title="Nothing was changed yet">
      <p>Each change that a key asks for is an entry: deploys, configuration, keys, endpoints, erasures.</p>
    </Empty>
  );
