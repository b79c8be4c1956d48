import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { useDeeds } from '../deed';
import { sameSources, type Base, type Draft } from '../drafts';
import { notJson } from '../json-mark';
import type { Editor } from '../lazy/editor';
import { useSession } from '../session';
import { useShown } from '../shown';
import {
  check,
  codeIn,
  deploy,
  dryRun,
  isFixture,
  runFixtures,
  type Deployed,
  type DryRun,
  type FixturesRun,
  type Kind,
  type Sources,
} from '../sources';
import { changedMeanwhile, deployedBase, UNKNOWN, type ChangedMeanwhile } from '../stored-code';
import { CodeBox, type Given } from '../ui/code-box';
import { Difference } from '../ui/json';
import { Name } from '../ui/name';
import { Badge, Failure, Time } from '../ui/parts';
import { SourcesDifference } from '../ui/sources-difference';
import { count, plural, shortJson } from '../words';
import { KeyName } from './key-states';

type Diagnostic = NonNullable<Operations['checkProjection']['answer']['diagnostics']>[number];

type Outcome =
  | { readonly of: 'check'; readonly names: readonly string[]; readonly isSame: boolean }
  | { readonly of: 'failed'; readonly text: string }
  | { readonly of: 'fixtures'; readonly run: FixturesRun }
  | { readonly of: 'dry run'; readonly report: DryRun }
  | { readonly of: 'deploy'; readonly answer: Deployed }
  | { readonly of: 'changed'; readonly changed: ChangedMeanwhile; readonly mine: Sources };

/** What became of a deploy. */
export interface DeployedCode {
  /** The id of what they are deployed as; where they don't compile that is to be mended. */
  readonly of: string;
  /** As they were when it began. */
  readonly sent: Sources;
  readonly isCompiled: boolean;
  /** What the next deploy is compared with. */
  readonly base: Base;
  /** They are open still: no other ones were chosen meanwhile. */
  readonly isShown: boolean;
}

/** Files with an editor, and what the service makes of them. */
export function Workbench({
  kind,
  id,
  given,
  base: givenBase,
  hasDraft,
  onChange,
  onDiscard,
  onTake,
  onDeployed,
}: {
  readonly kind: Kind;
  /** Of what is there already: a projection is deployed anew, a reducer is uploaded beside the one before. */
  readonly id: string | undefined;
  readonly given: Sources;
  /** What was stored when the files were taken. */
  readonly base: Base | undefined;
  /** The files are not as they were given by the service, or the template. */
  readonly hasDraft: boolean;
  readonly onChange: (draft: Draft) => void;
  readonly onDiscard: () => void;
  /** Theirs are to be shown in place of these. */
  readonly onTake: (theirs: ChangedMeanwhile) => void;
  readonly onDeployed: (deployed: DeployedCode) => void;
}): JSX.Element {
  const session = useSession();
  const { client } = session;
  const isShown = useShown();
  const base = useRef(givenBase);
  const [files, setFiles] = useState<Sources>(given);
  const [path, setPath] = useState(() => Object.keys(given)[0] ?? '');
  const [shown, setShown] = useState<Given>(() => ({ text: given[path] ?? '' }));
  const [newName, setNewName] = useState('');
  const [diagnostics, setDiagnostics] = useState<readonly Diagnostic[]>([]);
  const [outcome, setOutcome] = useState<Outcome>();
  const { busy, error, run } = useDeeds();
  const [isDraft, setDraft] = useState(hasDraft);
  const latest = useRef<Record<string, string>>({ ...given });
  const editor = useRef<Editor>();
  const jump = useRef<Diagnostic>();
  const changed = (): void => {
    onChange({ sources: { ...latest.current }, base: base.current });
    setDraft(true);
  };
  const open = (other: string): void => {
    setPath(other);
    setShown({ text: latest.current[other] ?? '' });
  };
  useEffect(() => {
    const to = jump.current;
    jump.current = undefined;
    if (to?.line) editor.current?.goTo(to.line, to.column ?? undefined);
  }, [shown]);
  /** Undefined: a deploy takes nothing of anybody's away, as far as the key lets it be seen. */
  const othersSince = async (mine: Sources): Promise<Outcome | undefined> => {
    if (id === undefined || base.current === undefined || !session.may('read')) return undefined;
    const changed = await changedMeanwhile(client, { kind, id, base: base.current, mine });
    return changed && { of: 'changed', changed, mine };
  };
  useEffect(() => {
    // What was begun a while ago: told at once. Where it can't be asked now, Deploy asks again.
    if (hasDraft)
      othersSince(given).then(
        (changed) => changed && setOutcome((before) => before ?? changed),
        () => undefined,
      );
  }, []);
  const add = (event: Event): void => {
    event.preventDefault();
    const name = newName.trim();
    if (name === '') return;
    const added = /\.(cs|json)$/i.test(name) ? name : `${name}.cs`;
    latest.current[added] ??= '';
    setFiles({ ...latest.current });
    changed();
    setNewName('');
    open(added);
  };
  const remove = (): void => {
    delete latest.current[path];
    setFiles({ ...latest.current });
    changed();
    open(Object.keys(latest.current)[0] ?? '');
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
    'Run fixtures': async () => {
      const sent = { ...latest.current };
      const run = await runFixtures(client, sent).catch((failed: unknown) => {
        setDiagnostics(notJsonIn(sent));
        throw failed;
      });
      return compiled(run, () => ({ of: 'fixtures', run }));
    },
    'Dry run': async () => {
      const report = await dryRun(client, kind, latest.current, id);
      return compiled(report, () => ({ of: 'dry run', report }));
    },
    Deploy: async () => {
      const sent = { ...latest.current };
      const mayRead = session.may('read');
      const changed = await othersSince(sent);
      if (changed !== undefined) return changed;
      const answer = await deploy(client, kind, sent, kind === 'projections' ? id : undefined);
      const isCompiled = answer.status !== 'failed';
      const of = 'projectionId' in answer ? answer.projectionId : answer.reducerId;
      // It is deployed by now: where that can't be asked, what the next deploy is compared with is what was sent.
      const next = await deployedBase(client, { kind, id: of, mayRead }, sent).catch(() => ({
        version: UNKNOWN,
        sources: sent,
      }));
      if (isCompiled || id === undefined) base.current = next;
      if (isCompiled) setDraft(!sameSources(latest.current, sent));
      onDeployed({ of, sent, isCompiled, base: base.current ?? next, isShown: isShown() });
      return compiled(answer, () => ({ of: 'deploy', answer }));
    },
  } satisfies Record<string, () => Promise<Outcome>>;
  const act = (name: keyof typeof deeds): void =>
    run(
      name,
      async () => {
        setOutcome(undefined);
        const came = await deeds[name]();
        setOutcome(came);
        return isShown() ? undefined : wordsOf(came, Object.keys(given));
      },
      { changesNothing: name !== 'Deploy' },
    );
  const marks = diagnostics.flatMap(({ file, line, column, severity, message, code }) =>
    file === path && line !== null
      ? [{ severity, message: `${code}: ${message}`, line, column: column ?? undefined }]
      : [],
  );
  const hasFixtures = Object.keys(files).some(isFixture);
  const names = (Object.keys(deeds) as (keyof typeof deeds)[]).filter((name) => name !== 'Run fixtures' || hasFixtures);
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
            title="A .json file in the folder fixtures, as fixtures/order.json, is a fixture"
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
        {isDraft && (
          <p>
            <button type="button" onClick={onDiscard}>
              Discard what was changed
            </button>
          </p>
        )}
        <p class="faint">Escape, then Tab leaves the editor.</p>
      </section>
      <div class="sql-side">
        <div class="filters">
          {names.map((name) => (
            <button
              key={name}
              type="button"
              class={name === 'Deploy' ? 'primary' : undefined}
              disabled={busy !== undefined}
              onClick={() => act(name)}
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
          onChange={(text) => {
            latest.current[path] = text;
            changed();
          }}
          onRun={() => act('Check')}
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
          {outcome?.of === 'changed' ? (
            <Changed
              of={outcome.changed}
              mine={outcome.mine}
              onDeploy={() => {
                base.current = outcome.changed.now;
                act('Deploy');
              }}
              onTake={() => onTake(outcome.changed)}
            />
          ) : (
            outcome && <Told outcome={outcome} hasDiagnostics={diagnostics.length > 0} />
          )}
        </div>
      </div>
    </div>
  );
}

/** Of a deploy whose page was left. */
function wordsOf(outcome: Outcome, files: readonly string[]): string {
  const code = `The code (${files.join(', ')})`;
  if (outcome.of === 'failed')
    return `${code} was deployed, and does not compile: it is on the page of code, to be mended.`;
  if (outcome.of === 'changed')
    return `${code} was not deployed: ${outcome.changed.name} came meanwhile. It is on the page of code.`;
  return outcome.of === 'deploy' && 'projectionId' in outcome.answer
    ? `${code} is deployed as the projection ${outcome.answer.projectionId}. ${outcome.answer.message}`
    : `${code} is deployed.`;
}

/** Fixtures that are no JSON, as the compiler would tell them. */
const notJsonIn = (sources: Sources): readonly Diagnostic[] =>
  Object.entries(sources).flatMap(([file, text]) => {
    const found = isFixture(file) ? notJson(text) : undefined;
    if (found === undefined) return [];
    const { line, column = null, message } = found;
    return [{ severity: 'error' as const, code: 'JSON', message, file, line, column }];
  });

/** Somebody has deployed other code since these files were taken: what they changed, and what these would make of it. */
const Changed = ({
  of: { name, createdAt, now },
  mine,
  onDeploy,
  onTake,
}: {
  readonly of: ChangedMeanwhile;
  readonly mine: Sources;
  readonly onDeploy: () => void;
  readonly onTake: () => void;
}): JSX.Element => (
  <section aria-label="Deployed meanwhile">
    <div class="failure" role="alert">
      <p>
        {name} was deployed <Time at={createdAt} />, since these files were taken: nothing of them is deployed yet. What
        Deploy would change of it:
      </p>
      <div class="buttons">
        <button type="button" onClick={onDeploy}>
          Deploy mine all the same
        </button>
        <button type="button" onClick={onTake}>
          Discard mine, and take theirs
        </button>
      </div>
    </div>
    <SourcesDifference before={now.sources} after={codeIn(mine)} words="theirs to mine" same="They are the same." />
  </section>
);

function Told({
  outcome,
  hasDiagnostics,
}: {
  readonly outcome: Exclude<Outcome, { of: 'changed' }>;
  readonly hasDiagnostics: boolean;
}): JSX.Element | null {
  if (outcome.of === 'failed') return hasDiagnostics ? null : <pre class="failure">{outcome.text}</pre>;
  if (outcome.of === 'check')
    return (
      <p>
        The code compiles: {outcome.names.join(', ')}.{outcome.isSame && ' The same sources are deployed already.'}
      </p>
    );
  if (outcome.of === 'deploy') return <DeployedAs answer={outcome.answer} />;
  if (outcome.of === 'fixtures') return <Fixtures run={outcome.run} />;
  return <Report report={outcome.report} />;
}

function DeployedAs({ answer }: { readonly answer: Deployed }): JSX.Element {
  const mayRead = useSession().may('read');
  if (!('projectionId' in answer))
    return (
      <p>{answer.status === 'compiled' ? 'The reducer is compiled, and bound.' : 'The reducer is being compiled.'}</p>
    );
  return (
    <p>
      {answer.message}{' '}
      {mayRead && <Link href={`/projections/${encodeURIComponent(answer.projectionId)}`}>Go to the projection</Link>}
    </p>
  );
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
          {'key' in fault ? <KeyName of={fault.key} /> : <Name of={fault.aggregateId} />}: {fault.message}{' '}
          <span class="faint">{fault.file !== null && `${fault.file}:${fault.line ?? '?'}`}</span>
        </p>
      ))}
      {report.changes.map((change) => {
        const name = 'key' in change ? change.key : change.aggregateId;
        return (
          <details key={`${change.className} ${name}`}>
            <summary>
              <KeyName of={name} /> <code>{shortJson(change.patch)}</code>
            </summary>
            <Difference of={name} before={change.before} after={change.after} />
          </details>
        );
      })}
    </section>
  );
}

function Fixtures({ run }: { readonly run: FixturesRun }): JSX.Element | null {
  if (run.status !== 'compiled') return null;
  const { passed, failed, cut, cases } = run;
  return (
    <section aria-label="Fixtures">
      <h2>
        {passed} passed, {failed} failed
      </h2>
      {cut !== undefined && <p class="failure">{cut}</p>}
      <ul class="faults">
        {cases.map(({ file, name, status, failures = [], omitted = 0 }, n) => (
          <li key={n}>
            <Badge kind={status === 'passed' ? 'good' : 'bad'}>{status}</Badge> {name} <span class="faint">{file}</span>
            {failures.map((failure, m) => (
              <FixtureFailure key={m} of={failure} />
            ))}
            {omitted > 0 && <p class="faint">{plural(omitted, 'further failure')}: the answer is long without them.</p>}
          </li>
        ))}
      </ul>
    </section>
  );
}

type FailureOfFixture = NonNullable<Extract<FixturesRun, { status: 'compiled' }>['cases'][number]['failures']>[number];

const NamedFirst = ({ name }: { readonly name: string }): JSX.Element => (
  <>
    <Name of={name} />:{' '}
  </>
);

function FixtureFailure({ of }: { readonly of: FailureOfFixture }): JSX.Element {
  if (of.kind === 'case') return <p class="failure">{of.message}</p>;
  if (of.kind === 'fault')
    return (
      <p class="failure">
        {of.key !== '' && <NamedFirst name={of.key} />}
        {of.fault === undefined
          ? `was to stop with “${of.expected ?? ''}”, and did not`
          : `${of.given ? 'stopped at what was given' : 'stopped'}: ${of.fault.message}`}{' '}
        {typeof of.fault?.file === 'string' && (
          <span class="faint">
            {of.fault.file}:{of.fault.line ?? '?'}
          </span>
        )}
      </p>
    );
  return (
    <>
      <p>{of.key === '' ? 'The state' : <Name of={of.key} />} is not as expected</p>
      {of.shown === false ? (
        <p class="faint">The answer is long without its states: run it alone, or with the command line.</p>
      ) : (
        <Difference of={of.key} names={['expected', 'is']} before={of.expected ?? null} after={of.actual ?? null} />
      )}
    </>
  );
}
