import type { Discovered } from '../../code-host/code-host.js';
import { CliError, table } from '../io.js';
import type { CompiledProject } from './compile.js';
import { plural } from './diagnostics.js';
import type { DryRunRecord, ProjectionRecord, TypeRecord } from './remote.js';
import type { Project } from './sources.js';
import type { Style } from './style.js';

/** What a deployment would change. */
export interface Plan {
  readonly types: readonly TypePlan[];
  readonly projection: ProjectionPlan | undefined;
}
interface TypePlan {
  readonly aggregateType: string;
  /** Several: the type is bound to none of them. */
  readonly classNames: readonly string[];
  readonly before: string | undefined;
  readonly boundAt: string | undefined;
  readonly aggregates: number;
}
interface ProjectionPlan {
  readonly classNames: readonly string[];
  /** The one that is redeployed; undefined: a new one. */
  readonly projectionId: string | undefined;
  readonly revision: number;
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

/** @throws CliError when it is not clear which projection is the project's */
export function planOf(
  { reducer, projection }: CompiledProject,
  types: readonly TypeRecord[],
  projections: readonly ProjectionRecord[],
  projectionId: string | undefined,
): Plan {
  return {
    types: reducer === undefined ? [] : typePlans(reducer.discovered, types),
    projection:
      projection === undefined ? undefined : projectionPlan(namesOf(projection.discovered), projections, projectionId),
  };
}

const namesOf = (discovered: readonly { readonly className: string }[]): string[] =>
  discovered.map(({ className }) => className);

function typePlans(discovered: readonly Discovered[], types: readonly TypeRecord[]): TypePlan[] {
  const names = [
    ...new Set(discovered.flatMap(({ aggregateType }) => (aggregateType === undefined ? [] : [aggregateType]))),
  ].sort();
  return names.map((aggregateType) => {
    const bound = types.find((type) => type.aggregateType === aggregateType);
    return {
      aggregateType,
      classNames: namesOf(discovered.filter((one) => one.aggregateType === aggregateType)),
      before: bound?.className,
      boundAt: bound?.boundAt,
      aggregates: bound?.aggregates ?? 0,
    };
  });
}

/** The project's projection is the one with a class of the same name: no file says it, so that it is the same from every machine. */
function projectionPlan(
  classNames: readonly string[],
  projections: readonly ProjectionRecord[],
  given: string | undefined,
): ProjectionPlan {
  const candidates =
    given === undefined
      ? projections.filter(({ discovered = [] }) => discovered.some(({ className }) => classNames.includes(className)))
      : projections.filter(({ id }) => id === given);
  const [found, ...others] = candidates;
  if (given !== undefined && found === undefined) throw new CliError(`There is no projection ${given}.`);
  if (others.length > 0)
    throw new CliError(
      `Several projections have a class of this project: ${candidates.map(({ id, discovered = [] }) => `${id} (${namesOf(discovered).join(', ')})`).join(', ')}. Name the one to redeploy with --projection.`,
    );
  const before = namesOf(found?.discovered ?? []);
  return {
    classNames,
    projectionId: found?.id,
    revision: (found?.revision ?? 0) + 1,
    added: found === undefined ? [] : classNames.filter((name) => !before.includes(name)),
    removed: before.filter((name) => !classNames.includes(name)),
  };
}

export function formatPlan({ types, projection }: Plan, project: Project, url: string, style: Style): string {
  const lines = [`${style.bold(project.name)}, ${plural(project.sources.length, 'source file')}, to ${url}\n\n`];
  const rows = types.map(({ aggregateType, classNames, before, boundAt, aggregates }) => [
    aggregateType,
    before === undefined ? '-' : `${before}${boundAt === undefined ? '' : ` since ${boundAt}`}`,
    classNames.length === 1 ? (classNames[0] ?? '') : `none: ${classNames.join(', ')} are for it`,
    aggregates === 0 ? 'nothing to fold' : `folds ${plural(aggregates, 'aggregate')}`,
  ]);
  if (rows.length > 0) lines.push(table(['AGGREGATE TYPE', 'BOUND TO', 'WILL BE BOUND TO', ''], rows, ''), '\n');
  if (projection !== undefined) {
    const { classNames, projectionId, revision, added, removed } = projection;
    const how =
      projectionId === undefined
        ? 'a new one, which is built over the history'
        : `${projectionId}: revision ${revision} is built beside the live one, then takes its place; only keys whose state differs are notified`;
    lines.push(`projection ${classNames.join(', ')}\n  ${how}\n`);
    if (added.length > 0) lines.push(`  ${style.green(`with ${added.join(', ')}`)}\n`);
    if (removed.length > 0) lines.push(`  ${style.yellow(`without ${removed.join(', ')}: its states go`)}\n`);
    lines.push('\n');
  }
  return lines.join('');
}

/** Of fewer the time is that of starting a process. */
const TELLING_EVENTS = 1000;

/** What trying it out over the stored history came to. */
export function formatDryRun(
  { classes = [], faults = [], complete, cut, events = 0, eventsPerSecond = 0 }: DryRunRecord,
  style: Style,
): string {
  const rows = classes.map((one) => [
    one.className,
    `${one.folded.toLocaleString('en-US')}${one.total !== undefined && one.total > one.folded ? ` of ${one.total.toLocaleString('en-US')}` : ''}`,
    ...[one.changed, one.unchanged, one.added, one.removed].map((count) => count.toLocaleString('en-US')),
    `${one.faulted.toLocaleString('en-US')}${one.faultedBefore === one.faulted ? '' : ` (before: ${one.faultedBefore.toLocaleString('en-US')})`}`,
  ]);
  const told = faults.map(({ aggregateId, key, version, message, file, line }) => {
    const place = file === null ? '' : `${file}${line === null ? '' : `(${line})`}: `;
    return style.red(`  ${place}${key ?? aggregateId} stops at version ${version} of ${aggregateId}: ${message}\n`);
  });
  const ended = complete === false && cut !== undefined ? style.yellow(`  not all of it: ${cut}\n`) : '';
  const speed = events < TELLING_EVENTS ? '' : `, ${Math.round(eventsPerSecond).toLocaleString('en-US')} a second`;
  return `tried over the stored history: ${plural(events, 'event')}${speed}\n${table(['CLASS', 'FOLDED', 'CHANGED', 'UNCHANGED', 'ADDED', 'REMOVED', 'STOPPED'], rows, 'nothing to fold')}${told.join('')}${ended}\n`;
}
