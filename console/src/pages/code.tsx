import { type Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Link, useSearchParams } from 'wouter-preact';
import type { Editor } from '../lazy/editor';
import { useLoad } from '../load';
import { useSession } from '../session';
import {
  check,
  deploy,
  dryRun,
  readFolder,
  sourcesOf,
  TEMPLATES,
  type Deployed,
  type DryRun,
  type Kind,
  type Sources,
} from '../sources';
import { CodeBox, type Given } from '../ui/code-box';
import { Failure, Json, Loading, Page } from '../ui/parts';
import { count, plural } from '../words';

type Diagnostic = NonNullable<Operations['checkProjection']['answer']['diagnostics']>[number];

interface Opened {
  readonly kind: Kind;
  /** Of what is there already: a projection is deployed anew, a reducer is uploaded beside the one before. */
  readonly id: string | undefined;
  readonly sources: Sources;
}

/** Code as files: written, compiled, tried on the stored history, and deployed. */
export function CodePage(): JSX.Element {
  const session = useSession();
  const { client } = session;
  const [search, setSearch] = useSearchParams();
  const kind: Kind = search.get('kind') === 'reducers' ? 'reducers' : 'projections';
  const id = search.get('id') ?? undefined;
  const [own, setOwn] = useState<{ readonly kind: Kind; readonly sources: Sources }>();
  const list = useLoad(
    async (signal) => {
      if (!session.may('read')) return [];
      const query = { limit: 500 };
      const [{ reducers }, { projections }] = await Promise.all([
        client.request('listReducers', { query, signal }),
        client.request('listProjections', { query, signal }),
      ]);
      return [
        ...reducers.map((one) => ({ kind: 'reducers' as const, one })),
        ...projections.map((one) => ({ kind: 'projections' as const, one })),
      ];
    },
    [client],
  );
  const stored = useLoad(
    async (signal): Promise<Opened> => {
      if (id === undefined) return { kind, id, sources: TEMPLATES[kind] };
      if (kind === 'reducers') {
        const { files } = await client.request('getReducerSources', { path: { id }, signal });
        return { kind, id, sources: sourcesOf(files) };
      }
      const { live, revision } = await client.request('getProjection', { path: { id }, signal });
      const { files } = await client.request('getRevisionSources', {
        path: { id, revision: String(live?.revision ?? revision) },
        signal,
      });
      return { kind, id, sources: sourcesOf(files) };
    },
    [client, kind, id],
  );
  const choose = (value: string): void => {
    setOwn(undefined);
    const [chosen = 'projections', of = ''] = value.split(' ');
    setSearch(of === '' ? { kind: chosen } : { kind: chosen, id: of });
  };
  const take = (files: FileList | null): void => {
    if (files === null) return;
    void readFolder(files).then((sources) => setOwn({ kind, sources }));
  };
  const opened = own?.kind === kind ? { ...own, id } : stored.value;
  return (
    <Page
      title="Code"
      aside={
        <>
          <label class="inline">
            <span class="faint">Code of</span>{' '}
            <select value={`${kind} ${id ?? ''}`} onChange={({ currentTarget: { value } }) => choose(value)}>
              <option value="projections ">a new projection, from the template</option>
              <option value="reducers ">a new reducer, from the template</option>
              {list.value?.map(({ kind: of, one }) => (
                <option key={one.id} value={`${of} ${one.id}`}>
                  {of === 'reducers' ? 'reducer' : 'projection'}{' '}
                  {one.discovered?.map(({ className }) => className).join(', ') ?? one.id}
                </option>
              ))}
            </select>
          </label>
          <label class="file">
            <span>Take the files of a folder</span>
            <input
              type="file"
              multiple
              aria-label="Take the files of a folder"
              ref={(input) => input?.setAttribute('webkitdirectory', '')}
              onChange={({ currentTarget }) => take(currentTarget.files)}
            />
          </label>
        </>
      }
    >
      {list.error !== undefined && <Failure error={list.error} onRetry={list.reload} />}
      {stored.error !== undefined && own === undefined && <Failure error={stored.error} onRetry={stored.reload} />}
      {opened === undefined ? (
        stored.error === undefined && <Loading />
      ) : (
        <Workbench key={`${kind} ${id ?? ''} ${own ? 'own' : ''}`} opened={opened} onDeployed={list.reload} />
      )}
    </Page>
  );
}

type Outcome =
  | { readonly of: 'check'; readonly names: readonly string[]; readonly isSame: boolean }
  | { readonly of: 'failed'; readonly text: string }
  | { readonly of: 'dry run'; readonly report: DryRun }
  | { readonly of: 'deploy'; readonly answer: Deployed };

function Workbench({
  opened: { kind, id, sources: given },
  onDeployed,
}: {
  readonly opened: Opened;
  readonly onDeployed: () => void;
}): JSX.Element {
  const { client } = useSession();
  const [files, setFiles] = useState<Sources>(given);
  const [path, setPath] = useState(() => Object.keys(given)[0] ?? '');
  const [shown, setShown] = useState<Given>(() => ({ text: given[path] ?? '' }));
  const [newName, setNewName] = useState('');
  const [diagnostics, setDiagnostics] = useState<readonly Diagnostic[]>([]);
  const [outcome, setOutcome] = useState<Outcome>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState<string>();
  const latest = useRef<Record<string, string>>({ ...given });
  const editor = useRef<Editor>();
  const jump = useRef<Diagnostic>();
  const open = (other: string): void => {
    setPath(other);
    setShown({ text: latest.current[other] ?? '' });
  };
  useEffect(() => {
    const to = jump.current;
    jump.current = undefined;
    if (to?.line) editor.current?.goTo(to.line, to.column ?? undefined);
  }, [shown]);
  const add = (event: Event): void => {
    event.preventDefault();
    const name = newName.trim();
    if (name === '') return;
    const added = /\.cs$/i.test(name) ? name : `${name}.cs`;
    latest.current[added] ??= '';
    setFiles({ ...latest.current });
    setNewName('');
    open(added);
  };
  const remove = (): void => {
    delete latest.current[path];
    setFiles({ ...latest.current });
    open(Object.keys(latest.current)[0] ?? '');
  };
  const run = (name: string, deed: () => Promise<Outcome>): void => {
    setBusy(name);
    setError(undefined);
    setOutcome(undefined);
    deed()
      .then(setOutcome, setError)
      .finally(() => setBusy(undefined));
  };
  /** What compiles not is told the same way, whatever was asked. */
  const compiled = (
    answer: {
      readonly status: string;
      readonly compilationError?: string;
      readonly diagnostics?: readonly Diagnostic[];
    },
    otherwise: () => Outcome,
  ): Outcome => {
    setDiagnostics(answer.diagnostics ?? []);
    return answer.status === 'failed' ? { of: 'failed', text: answer.compilationError ?? '' } : otherwise();
  };
  const deeds = {
    Check: async () => {
      const answer = await check(client, kind, latest.current, id);
      return compiled(answer, () => ({
        of: 'check',
        names: answer.status === 'compiled' ? answer.discovered.map(({ className }) => className) : [],
        isSame: answer.status === 'compiled' && answer.sameAs !== undefined,
      }));
    },
    'Dry run': async () => {
      const report = await dryRun(client, kind, latest.current, id);
      return compiled(report, () => ({ of: 'dry run', report }));
    },
    Deploy: async () => {
      const answer = await deploy(client, kind, latest.current, kind === 'projections' ? id : undefined);
      onDeployed();
      return compiled(answer, () => ({ of: 'deploy', answer }));
    },
  } satisfies Record<string, () => Promise<Outcome>>;
  const marks = diagnostics.flatMap(({ file, line, column, severity, message, code }) =>
    file === path && line !== null
      ? [{ severity, message: `${code}: ${message}`, line, column: column ?? undefined }]
      : [],
  );
  return (
    <div class="sql">
      <section class="tree" aria-label="Files">
        <ul>
          {Object.keys(files).map((one) => (
            <li key={one}>
              <button
                type="button"
                class="link"
                aria-current={one === path ? 'true' : undefined}
                onClick={() => open(one)}
              >
                {one}
              </button>
            </li>
          ))}
        </ul>
        <form onSubmit={add}>
          <input
            aria-label="Name of a new file"
            placeholder="NewFile.cs"
            size={14}
            value={newName}
            onInput={({ currentTarget: { value } }) => setNewName(value)}
          />{' '}
          <button type="submit">Add</button>
        </form>
        {Object.keys(files).length > 1 && (
          <p>
            <button type="button" onClick={remove}>
              Remove {path}
            </button>
          </p>
        )}
        <p class="faint">Escape, then Tab leaves the editor.</p>
      </section>
      <div class="sql-side">
        <div class="filters">
          {Object.entries(deeds).map(([name, deed]) => (
            <button
              key={name}
              type="button"
              class={name === 'Deploy' ? 'primary' : undefined}
              disabled={busy !== undefined}
              onClick={() => run(name, deed)}
            >
              {busy === name ? `${name}…` : name}
            </button>
          ))}
          <span class="faint">
            {kind === 'projections' && id !== undefined
              ? 'A deploy makes a further revision, which is live once it is folded to the end'
              : 'Ctrl Enter checks'}
          </span>
        </div>
        <CodeBox
          language="csharp"
          label={`Code of ${path}`}
          given={shown}
          marks={marks}
          onChange={(text) => (latest.current[path] = text)}
          onRun={() => run('Check', deeds.Check)}
          onEditor={(found) => (editor.current = found)}
        />
        <div class="outcome" role="status">
          {error !== undefined && <Failure error={error} />}
          {diagnostics.length > 0 && (
            <ul class="faults" aria-label="What the compiler says">
              {diagnostics.map((one, n) => (
                <li key={n}>
                  <button
                    type="button"
                    class="link"
                    onClick={() => {
                      jump.current = one;
                      open(one.file ?? path);
                    }}
                  >
                    {one.file === null ? 'the code' : `${one.file}:${one.line ?? '?'}`}
                  </button>{' '}
                  {one.severity} {one.code}: {one.message}
                </li>
              ))}
            </ul>
          )}
          {outcome && <Told outcome={outcome} hasDiagnostics={diagnostics.length > 0} />}
        </div>
      </div>
    </div>
  );
}

function Told({
  outcome,
  hasDiagnostics,
}: {
  readonly outcome: Outcome;
  readonly hasDiagnostics: boolean;
}): JSX.Element | null {
  if (outcome.of === 'failed') return hasDiagnostics ? null : <pre class="failure">{outcome.text}</pre>;
  if (outcome.of === 'check')
    return (
      <p>
        The code compiles: {outcome.names.join(', ')}.{outcome.isSame && ' The same sources are deployed already.'}
      </p>
    );
  if (outcome.of === 'deploy') {
    const { answer } = outcome;
    if ('projectionId' in answer)
      return (
        <p>
          {answer.message} <Link href={`/projections/${answer.projectionId}`}>Go to the projection</Link>
        </p>
      );
    return (
      <p>{answer.status === 'compiled' ? 'The reducer is compiled, and bound.' : 'The reducer is being compiled.'}</p>
    );
  }
  return <Report report={outcome.report} />;
}

function Report({ report }: { readonly report: DryRun }): JSX.Element | null {
  if (report.status !== 'compiled') return null;
  return (
    <section aria-label="Dry run">
      <h2>Dry run over {plural(report.events, 'event')}</h2>
      {report.cut !== undefined && <p class="failure">{report.cut}</p>}
      <ul>
        {report.classes.map((one) => (
          <li key={one.className}>
            {one.className}: {count(one.changed)} changed, {count(one.added)} added, {count(one.removed)} removed,{' '}
            {count(one.unchanged)} as before; {count(one.faulted)} stopped by a fault ({count(one.faultedBefore)}{' '}
            before)
          </li>
        ))}
      </ul>
      {report.faults.map((fault, n) => (
        <p key={n} class="failure">
          {'key' in fault ? `${fault.key}: ` : `${fault.aggregateId}: `}
          {fault.message} <span class="faint">{fault.file !== null && `${fault.file}:${fault.line ?? '?'}`}</span>
        </p>
      ))}
      {report.changes.map((change) => {
        const name = 'key' in change ? change.key : change.aggregateId;
        return (
          <details key={`${change.className} ${name}`}>
            <summary>
              {name} <code>{JSON.stringify(change.patch).slice(0, 160)}</code>
            </summary>
            <div class="diff">
              <Json value={change.before} label={`${name} before`} />
              <Json value={change.after} label={`${name} after`} />
            </div>
          </details>
        );
      })}
    </section>
  );
}
