import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useSearchParams } from 'wouter-preact';
import type { ChartData } from '../lazy/chart';
import type { Editor } from '../lazy/editor';
import { useLoad } from '../load';
import { save } from '../save';
import { useSession } from '../session';
import {
  csvOf,
  FORMAT,
  isClock,
  isNumeric,
  isTime,
  jsonOf,
  numbersOf,
  readResult,
  textOf,
  zoneOf,
  type SqlColumn,
  type SqlResult,
} from '../sql-result';
import { ChartBox } from '../ui/chart';
import { CodeBox, type Given } from '../ui/code-box';
import { Detail } from '../ui/detail';
import { Empty, Failure, Loading, Page } from '../ui/parts';
import { Rows } from '../ui/rows';
import { count, plural } from '../words';

/** The service ends a statement itself, an hour after it began at the latest (`SQL_MAX_SECONDS`); until then a person calls it off. */
const TIMEOUT_MS = 3_720_000;
/** What is written and was not run, among the drafts of the tab. */
const DRAFT = 'sql';
const FILE = 'statement.sql';
const COLUMN_PX = 150;
/** As much text is shown of an answer that is no table. */
const MOST_TEXT = 200_000;
/** Bars that are told apart on a screen. */
const MOST_BARS = 500;
/** A longer statement stands in no address. */
const MOST_IN_ADDRESS = 2_000;
const COLUMNS = `SELECT table, name, type FROM system.columns WHERE database = currentDatabase() ORDER BY table, position`;
/** They are there for every tenant; what is not among them is a view that the data has made. */
const TABLES: ReadonlySet<string> = new Set([
  'events',
  'aggregate_states',
  'projection_states',
  'notifications',
  'watermarks',
]);

interface Table {
  readonly name: string;
  readonly columns: readonly SqlColumn[];
}

interface Answer {
  readonly text: string;
  /** ClickHouse's name of it. */
  readonly format: string;
  /** Undefined: the statement names a format of its own. */
  readonly result: SqlResult | undefined;
  readonly seconds: number;
}

/** Statements over the tenant's own events and states: the typed views as a tree, and an answer as table and chart. */
export function SqlPage(): JSX.Element {
  const { client, drafts } = useSession();
  const [search, setSearch] = useSearchParams();
  const [given, setGiven] = useState<Given>(() => ({
    text: drafts.get(DRAFT)?.sources[FILE] ?? search.get('query') ?? '',
  }));
  const [answer, setAnswer] = useState<Answer>();
  const [error, setError] = useState<unknown>();
  const [running, setRunning] = useState<AbortController>();
  const latest = useRef(given.text);
  const editor = useRef<Editor>();
  const under = useRef<AbortController>();
  useEffect(() => () => under.current?.abort(), []);
  const tables = useLoad(
    async (signal): Promise<Table[]> => {
      const found = new Map<string, SqlColumn[]>();
      const all = await client.sql<SqlColumn & { readonly table: string }>(COLUMNS, { signal });
      for (const { table, name, type } of all) {
        const columns = found.get(table);
        if (columns === undefined) found.set(table, [{ name, type }]);
        else columns.push({ name, type });
      }
      return [...found].map(([name, columns]) => ({ name, columns }));
    },
    [client],
  );
  const known = useMemo(
    () => Object.fromEntries(tables.value?.map(({ name, columns }) => [name, columns.map((one) => one.name)]) ?? []),
    [tables.value],
  );
  const run = (): void => {
    const query = latest.current.trim();
    if (query === '') return;
    under.current?.abort();
    const ended = new AbortController();
    under.current = ended;
    setRunning(ended);
    setError(undefined);
    const isInAddress = query.length <= MOST_IN_ADDRESS;
    setSearch(isInAddress ? { query } : {}, { replace: true });
    if (isInAddress) drafts.delete(DRAFT);
    else drafts.set(DRAFT, { sources: { [FILE]: latest.current }, base: undefined });
    const began = performance.now();
    const { signal } = ended;
    client
      .sqlText(query, FORMAT, { signal, timeoutMs: TIMEOUT_MS })
      .then(async ({ text, format }) => {
        const result = format === FORMAT ? await readResult(text, signal) : undefined;
        setAnswer({ text, format, result, seconds: (performance.now() - began) / 1000 });
      })
      .catch((failed: unknown) => {
        if (signal.aborted) return;
        // What was answered before was to another statement.
        setAnswer(undefined);
        setError(failed);
      })
      .finally(() => under.current === ended && setRunning(undefined));
  };
  const write = (text: string): void => {
    latest.current = text;
    if (text.trim() === '' || text.trim() === search.get('query')) drafts.delete(DRAFT);
    else drafts.set(DRAFT, { sources: { [FILE]: text }, base: undefined });
  };
  const ask = (table: string): void => {
    latest.current = `SELECT * FROM ${identifier(table)} LIMIT 100`;
    setGiven({ text: latest.current });
    run();
  };
  return (
    <Page
      title="SQL"
      aside={
        <>
          {running !== undefined && (
            <button type="button" onClick={() => running.abort()}>
              Cancel
            </button>
          )}
          <button type="button" class="primary" disabled={running !== undefined} onClick={run}>
            {running === undefined ? 'Run' : 'Running…'}
          </button>
          <kbd>Ctrl Enter</kbd>
        </>
      }
    >
      <div class="sql">
        <section class="tree" aria-label="Views and tables">
          {tables.error !== undefined && <Failure error={tables.error} onRetry={tables.reload} />}
          {tables.value === undefined ? (
            tables.error === undefined && <Loading />
          ) : (
            <>
              <Branch
                title="Typed views"
                hint="There is one for each type of aggregate and each class of a projection, from its first row on."
                tables={tables.value.filter(({ name }) => !TABLES.has(name))}
                onAsk={ask}
                onInsert={(name) => editor.current?.insert(name)}
              />
              <Branch
                title="Tables"
                hint=""
                tables={tables.value.filter(({ name }) => TABLES.has(name))}
                onAsk={ask}
                onInsert={(name) => editor.current?.insert(name)}
              />
              <button type="button" onClick={tables.reload}>
                Look again
              </button>
            </>
          )}
        </section>
        <div class="sql-side">
          <CodeBox
            language="sql"
            label="Statement"
            given={given}
            tables={known}
            onChange={write}
            onRun={run}
            onEditor={(opened) => (editor.current = opened)}
          />
          {error !== undefined && <Failure error={error} />}
          {answer !== undefined ? (
            <Result answer={answer} />
          ) : (
            error === undefined && (
              <Empty title={running === undefined ? 'No statement has run yet' : 'The statement runs'}>
                <p>
                  Write one statement of ClickHouse’s SQL, or choose a view on the left. It sees the events and states
                  of this tenant, and changes nothing.
                </p>
              </Empty>
            )
          )}
        </div>
      </div>
    </Page>
  );
}

/** As it has to stand in a statement. */
const identifier = (name: string): string =>
  /^[A-Za-z_]\w*$/.test(name) ? name : `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;

function Branch({
  title,
  hint,
  tables,
  onAsk,
  onInsert,
}: {
  readonly title: string;
  readonly hint: string;
  readonly tables: readonly Table[];
  readonly onAsk: (table: string) => void;
  readonly onInsert: (name: string) => void;
}): JSX.Element {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const turn = (name: string, isOpen: boolean): void => {
    const next = new Set(open);
    if (isOpen) next.add(name);
    else next.delete(name);
    setOpen(next);
  };
  return (
    <section>
      <h2>{title}</h2>
      {tables.length === 0 && <p class="faint">{hint}</p>}
      <ul>
        {tables.map(({ name, columns }) => (
          <li key={name}>
            <details onToggle={({ currentTarget }) => turn(name, currentTarget.open)}>
              <summary>{name}</summary>
              {open.has(name) && (
                <ul>
                  <li>
                    <button type="button" class="link" onClick={() => onAsk(name)}>
                      Show 100 rows
                    </button>
                  </li>
                  {columns.map((column) => (
                    <li key={column.name}>
                      <button
                        type="button"
                        class="link"
                        title={`Insert ${column.name}`}
                        onClick={() => onInsert(identifier(column.name))}
                      >
                        {column.name}
                      </button>{' '}
                      <span class="faint">{column.type}</span>
                    </li>
                  ))}
                </ul>
              )}
            </details>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Result({ answer: { text, format, result, seconds } }: { readonly answer: Answer }): JSX.Element {
  const [view, setView] = useState<'table' | 'chart'>('table');
  const [chosen, setChosen] = useState<number>();
  useEffect(() => setChosen(undefined), [result]);
  const took = `${seconds.toFixed(2)} s`;
  if (result === undefined)
    return (
      <>
        <div class="filters">
          <span role="status">
            The statement asks for the format {format}, so the answer is shown as text. {took}
          </span>
          <button type="button" onClick={() => save('answer.txt', 'text/plain', text)}>
            Save
          </button>
        </div>
        {text.length > MOST_TEXT && (
          <p class="faint">
            Its first {count(MOST_TEXT)} characters are shown; Save has all {count(text.length)}.
          </p>
        )}
        <pre class="json" tabIndex={0} role="region" aria-label="Answer">
          {text.slice(0, MOST_TEXT)}
        </pre>
      </>
    );
  const { columns, rows } = result;
  const row = chosen === undefined ? undefined : rows[chosen];
  return (
    <>
      <div class="filters">
        <div class="chips" role="group" aria-label="Shown as">
          <button type="button" aria-pressed={view === 'table'} onClick={() => setView('table')}>
            Table
          </button>
          <button type="button" aria-pressed={view === 'chart'} onClick={() => setView('chart')}>
            Chart
          </button>
        </div>
        <span role="status" class="number">
          {plural(rows.length, 'row')} · {took}
        </span>
        <button type="button" onClick={() => save('answer.csv', 'text/csv', csvOf(result))}>
          Save as CSV
        </button>
        <button type="button" onClick={() => save('answer.json', 'application/json', jsonOf(result))}>
          Save as JSON
        </button>
      </div>
      {view === 'chart' ? (
        <ResultChart result={result} />
      ) : (
        <div class={row ? 'split' : 'whole'}>
          <Rows
            count={rows.length}
            label="Rows of the answer"
            columns={`repeat(${columns.length}, minmax(${COLUMN_PX}px, 1fr))`}
            minWidth={columns.length * (COLUMN_PX + 10) + 20}
            heads={columns.map((column) => (isClock(column) ? `${column.name} (${zoneOf(column)})` : column.name))}
            selected={(index) => index === chosen}
            onSelect={setChosen}
            row={(index) => ({
              key: index,
              cells: columns.map((column, n) => {
                const value = textOf(rows[index]?.[n]);
                if (value === undefined) return <span class="faint">NULL</span>;
                return isNumeric(column) ? <span class="number">{value}</span> : value;
              }),
            })}
          />
          {row && chosen !== undefined && (
            <Detail onClose={() => setChosen(undefined)}>
              <h2>Row {count(chosen + 1)}</h2>
              <dl>
                {columns.map(({ name, type }, n) => (
                  <>
                    <dt title={type}>{name}</dt>
                    <dd>
                      <code>{textOf(row[n]) ?? 'NULL'}</code>
                    </dd>
                  </>
                ))}
              </dl>
            </Detail>
          )}
        </div>
      )}
    </>
  );
}

/** Lines of the numeric columns over a time or a number, or bars of one of them over the first column that is neither. */
function ResultChart({ result: { columns, rows } }: { readonly result: SqlResult }): JSX.Element {
  const numeric = columns.filter(isNumeric);
  const usual =
    columns.find(isTime) ??
    columns.find((column) => !isNumeric(column)) ??
    (numeric.length > 1 ? numeric[0] : undefined);
  const [over, setOver] = useState<string>();
  const x = columns.find(({ name }) => name === over) ?? usual;
  const others = numeric.filter((column) => column !== x);
  // Bars of several columns would stand in front of each other.
  const isBars = x !== undefined && !isTime(x) && !isNumeric(x);
  const [of, setOf] = useState<string>();
  const series = isBars
    ? [others.find(({ name }) => name === of) ?? others[0]].filter((one) => one !== undefined)
    : others;
  const data = useMemo((): ChartData => {
    const at = x === undefined ? -1 : columns.indexOf(x);
    const kind = x === undefined ? 'number' : isTime(x) ? 'time' : isNumeric(x) ? 'number' : 'names';
    const numberOf = x === undefined || kind === 'names' ? undefined : numbersOf(x);
    const numbered = rows.map((row, n) => ({ row, at: numberOf === undefined ? n : numberOf(row[at]) }));
    const all = numbered.filter((one): one is { row: readonly unknown[]; at: number } => one.at !== null);
    all.sort((a, b) => a.at - b.at);
    const places = kind === 'names' ? all.slice(0, MOST_BARS) : all;
    return {
      kind,
      x: places.map((one) => one.at),
      ...(kind === 'names' ? { names: places.map(({ row }) => textOf(row[at]) ?? 'NULL') } : {}),
      ...(x === undefined ? {} : { texts: places.map(({ row }) => textOf(row[at]) ?? 'NULL') }),
      ...(x !== undefined && kind === 'time' ? { zone: zoneOf(x) } : {}),
      series: series.map((column) => {
        const place = columns.indexOf(column);
        const numberOf = numbersOf(column);
        return {
          name: column.name,
          values: places.map(({ row }) => numberOf(row[place])),
          texts: places.map(({ row }) => textOf(row[place])),
        };
      }),
    };
  }, [columns, rows, x, of]);
  if (rows.length === 0 || series.length === 0)
    return (
      <Empty title="There is nothing to draw">
        <p>A chart needs rows, and a column of numbers beside the one that they are drawn over.</p>
      </Empty>
    );
  return (
    <>
      <div class="filters">
        <label>
          <span>Drawn over</span>
          <select value={x?.name ?? ''} onChange={({ currentTarget }) => setOver(currentTarget.value)}>
            {x === undefined && <option value="">the order of the rows</option>}
            {columns.map(({ name }) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        {isBars && others.length > 1 && (
          <label>
            <span>Bars of</span>
            <select value={series[0]?.name} onChange={({ currentTarget }) => setOf(currentTarget.value)}>
              {others.map(({ name }) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      {data.x.length < rows.length && isBars && (
        <p class="faint">
          The first {count(data.x.length)} of {plural(rows.length, 'row')} are drawn: order and limit them in the
          statement.
        </p>
      )}
      <ChartBox
        data={data}
        label={`${series.map(({ name }) => name).join(', ')} over ${x?.name ?? 'the rows'}; the table has the values`}
      />
    </>
  );
}
