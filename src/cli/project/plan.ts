import type { Discovered } from '../../code-host/code-host.js';
import { CliError, table } from '../io.js';
import type { CompiledProject } from '../../fixtures/compile.js';
import { plural } from './diagnostics.js';
import { classesOf, projectionsNamed } from './names.js';
import type { NotificationPlan } from './notifications.js';
import type { DryRunRecord, ProjectionRecord, TypeRecord } from './remote.js';
import type { Project } from './sources.js';
import type { Style } from './style.js';

/** What a deployment would change. */
export interface Plan {
  readonly types: readonly TypePlan[];
  /** A reducer that is there already, with the same sources: it is bound, and nothing is uploaded. */
  readonly reducerId: string | undefined;
  readonly projection: ProjectionPlan | undefined;
}
export interface TypePlan {
  /** `none`: several classes of the project are for it. */
  readonly change: 'bind' | 'unchanged' | 'none';
  readonly aggregateType: string;
  /** Several: the type is bound to none of them. */
  readonly classNames: readonly string[];
  readonly before: string | undefined;
  readonly reducerBefore: string | undefined;
  readonly boundAt: string | undefined;
  readonly aggregates: number;
}
export interface ProjectionPlan {
  /** `notifications`: the code is the same, and no revision is made. */
  readonly change: 'new' | 'redeploy' | 'notifications' | 'unchanged';
  readonly classNames: readonly string[];
  /** The one that is redeployed; undefined: a new one. */
  readonly projectionId: string | undefined;
  /** The revision that it will have. */
  readonly revision: number;
  readonly notifications: NotificationPlan;
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

/** The projection that a project redeploys; undefined: it makes a new one. */
export interface Target {
  readonly projection: ProjectionRecord | undefined;
}

/** The project's projection is the one with a class of the same name: no file says it, so that it is the same from every machine. @throws CliError when it is not clear which one it is */
export function targetOf(
  { projection: compiled }: CompiledProject,
  projections: readonly ProjectionRecord[],
  given: string | undefined,
): Target {
  if (compiled === undefined) {
    if (given !== undefined)
      throw new CliError('--projection names the projection to redeploy, and the project has none.');
    return { projection: undefined };
  }
  const names = namesOf(compiled.discovered);
  const candidates =
    given === undefined
      ? projections.filter((one) => classesOf(one).some((className) => names.includes(className)))
      : projectionsNamed(projections, given);
  const [found, ...others] = candidates;
  if (given !== undefined && found === undefined)
    throw new CliError(
      `There is no projection '${given}', neither by its id nor by its class; \`statefold history\` lists all.`,
    );
  if (others.length > 0)
    throw new CliError(
      `Several projections have a class of this project: ${candidates.map((one) => `${one.id} (${classesOf(one).join(', ')})`).join(', ')}. Name the one to redeploy by its id with --projection.`,
    );
  return { projection: found };
}

/** What is there already, by the service's own word. */
export interface Same {
  readonly reducerId: string | undefined;
  readonly revision: number | undefined;
}

export function planOf(
  { reducer, projection }: CompiledProject,
  types: readonly TypeRecord[],
  target: ProjectionRecord | undefined,
  notifications: NotificationPlan,
  same: Same,
): Plan {
  return {
    types: reducer === undefined ? [] : typePlans(reducer.discovered, types, same.reducerId),
    reducerId: same.reducerId,
    projection:
      projection === undefined
        ? undefined
        : projectionPlan(namesOf(projection.discovered), target, notifications, same.revision),
  };
}

/** A deployment of it would do nothing. */
export const isUnchanged = ({ types, projection }: Plan): boolean =>
  types.every(({ change }) => change !== 'bind') && (projection === undefined || projection.change === 'unchanged');

const namesOf = (discovered: readonly { readonly className: string }[]): string[] =>
  discovered.map(({ className }) => className);

function typePlans(
  discovered: readonly Discovered[],
  types: readonly TypeRecord[],
  same: string | undefined,
): TypePlan[] {
  const names = [
    ...new Set(discovered.flatMap(({ aggregateType }) => (aggregateType === undefined ? [] : [aggregateType]))),
  ].sort();
  return names.map((aggregateType) => {
    const found = types.find((type) => type.aggregateType === aggregateType);
    const classNames = namesOf(discovered.filter((one) => one.aggregateType === aggregateType));
    // Code that was halted for its strikes runs again by an upload.
    const isSame =
      same !== undefined &&
      found?.reducerId === same &&
      found.className === classNames[0] &&
      found.faulted === undefined;
    return {
      change: classNames.length > 1 ? 'none' : isSame ? 'unchanged' : 'bind',
      aggregateType,
      classNames,
      before: found?.className,
      reducerBefore: found?.reducerId,
      boundAt: found?.boundAt,
      aggregates: found?.aggregates ?? 0,
    };
  });
}

function projectionPlan(
  classNames: readonly string[],
  found: ProjectionRecord | undefined,
  notifications: NotificationPlan,
  same: number | undefined,
): ProjectionPlan {
  const before = namesOf(found?.discovered ?? []);
  const isSame = found !== undefined && same !== undefined && found.faulted === undefined;
  return {
    change: found === undefined ? 'new' : !isSame ? 'redeploy' : notifications.changed ? 'notifications' : 'unchanged',
    classNames,
    projectionId: found?.id,
    revision: isSame ? same : (found?.revision ?? 0) + 1,
    notifications,
    added: found === undefined ? [] : classNames.filter((name) => !before.includes(name)),
    removed: before.filter((name) => !classNames.includes(name)),
  };
}

export function formatPlan({ types, projection }: Plan, project: Project, url: string, style: Style): string {
  const lines = [`${style.bold(project.name)}, ${plural(project.sources.length, 'source file')}, to ${url}\n\n`];
  const rows = types.map(({ change, aggregateType, classNames, before, boundAt, aggregates }) => [
    aggregateType,
    before === undefined ? '-' : `${before}${boundAt === undefined ? '' : ` since ${boundAt}`}`,
    classNames.length === 1 ? (classNames[0] ?? '') : `none: ${classNames.join(', ')} are for it`,
    change === 'unchanged'
      ? 'unchanged'
      : change === 'none'
        ? ''
        : aggregates === 0
          ? 'nothing to fold'
          : `folds ${plural(aggregates, 'aggregate')}`,
  ]);
  if (rows.length > 0) lines.push(table(['AGGREGATE TYPE', 'BOUND TO', 'WILL BE BOUND TO', ''], rows, ''), '\n');
  if (projection !== undefined) {
    const { classNames, added, removed, notifications } = projection;
    lines.push(`projection ${classNames.join(', ')}\n  ${howOf(projection)}\n`);
    if (added.length > 0) lines.push(`  ${style.green(`with ${added.join(', ')}`)}\n`);
    if (removed.length > 0) lines.push(`  ${style.yellow(`without ${removed.join(', ')}: its states go`)}\n`);
    for (const { text, warning } of notifications.lines) lines.push(`  ${warning ? style.yellow(text) : text}\n`);
    lines.push('\n');
  }
  return lines.join('');
}

function howOf({ change, projectionId, revision }: ProjectionPlan): string {
  switch (change) {
    case 'new':
      return 'a new one, which is built over the history';
    case 'redeploy':
      return `${projectionId}: revision ${revision} is built beside the live one, then takes its place; only keys whose state differs are notified`;
    case 'notifications':
      return `${projectionId}: the code is that of revision ${revision}, so that no revision is made; its notifications change`;
    case 'unchanged':
      return `${projectionId}: unchanged, the code is that of revision ${revision}`;
  }
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
