import { confirm } from '../ask.js';
import { CliError, table, type CliIo } from '../io.js';
import { awaitCatchUp, awaitRevision } from './await.js';
import { classesOf, isNamed, subjectOf } from './names.js';
import type { FaultedRecord, ProjectionRecord, Remote, TypeRecord } from './remote.js';

/** What is deployed: every bound type and every projection. */
export async function overview(remote: Remote): Promise<{ readonly answer: object; readonly lines: string }> {
  const types = (await remote.types()).filter(({ reducerId }) => reducerId !== undefined);
  const projections = await remote.projections();
  const typeRows = types.map(({ aggregateType, className = '', boundAt = '', reducerId = '', faulted }) => [
    aggregateType,
    className,
    statusOf(boundAt, faulted),
    reducerId,
  ]);
  const projectionRows = projections.map((one) => [
    classesOf(one).join(', '),
    String(one.revision),
    statusOf(one.status, one.faulted, one.revision),
    one.id,
  ]);
  const lines = `${table(['AGGREGATE TYPE', 'REDUCER', 'BOUND', 'ID'], typeRows, 'No aggregate type has a reducer.')}\n${table(['PROJECTION', 'REVISION', 'STATUS', 'ID'], projectionRows, 'There are no projections.')}`;
  return { answer: { aggregateTypes: types, projections }, lines };
}

/** What was bound to a type, or the revisions of a projection, newest first. @throws CliError where there is no such thing */
export async function historyOf(
  remote: Remote,
  name: string,
): Promise<{ readonly answer: object; readonly lines: string }> {
  const subject = await subjectOf(remote, name);
  if (subject.kind === 'type') {
    const generations = await remote.generations(subject.type.aggregateType);
    const rows = generations.map(({ generation, status, className, boundAt, reducerId, faulted }) => [
      String(generation),
      statusOf(status, faulted),
      className,
      boundAt,
      reducerId,
    ]);
    return { answer: generations, lines: table(['GENERATION', 'STATUS', 'REDUCER', 'BOUND', 'ID'], rows, '') };
  }
  const revisions = await remote.revisions(subject.projection.id);
  const rows = revisions.map(({ revision, status, cause, of, createdAt, changedKeys, faulted }) => [
    String(revision),
    statusOf(status, faulted),
    of === undefined ? cause : `${cause} of ${of}`,
    createdAt,
    changedKeys === undefined ? '' : changedKeys.toLocaleString('en-US'),
  ]);
  return {
    answer: revisions,
    lines: table(['REVISION', 'STATUS', 'CAUSE', 'MADE', 'CHANGED KEYS'], rows, 'It has no revisions.'),
  };
}

/** Code that is halted is bound, or live, all the same, and its states stay where they are; while another revision is compiled or built it is not that one. */
function statusOf(status: string, faulted: FaultedRecord | undefined, revision = faulted?.revision): string {
  if (faulted === undefined) return status;
  return faulted.revision === revision ? `${status}, halted` : `${status}, revision ${faulted.revision} halted`;
}

export interface RollbackOptions {
  /** A reducer by its id or class, or the number of a revision; undefined: the one before. */
  readonly to: string | undefined;
  readonly yes: boolean;
}

/** Back to an earlier reducer or revision; waits until it is caught up. @returns undefined when it was not wanted after all */
export async function rollback(
  remote: Remote,
  io: CliIo,
  output: CliIo['stdout'],
  name: string,
  { to, yes }: RollbackOptions,
): Promise<object | undefined> {
  const subject = await subjectOf(remote, name);
  return subject.kind === 'type'
    ? rollbackType(remote, io, output, subject.type, to, yes)
    : rollbackProjection(remote, io, output, subject.projection, to, yes);
}

async function rollbackType(
  remote: Remote,
  io: CliIo,
  output: CliIo['stdout'],
  { aggregateType, reducerId, className }: TypeRecord,
  to: string | undefined,
  yes: boolean,
): Promise<object | undefined> {
  const generations = await remote.generations(aggregateType);
  const other = generations.filter((one) => one.reducerId !== reducerId || one.className !== className);
  // By its class the newest one that is not the bound one; by its id the bound one too, which is caught up with already.
  const target =
    to === undefined
      ? other[0]
      : (generations.find((one) => one.reducerId === to) ?? other.find((one) => isNamed(one.className, to)));
  if (target === undefined)
    throw new CliError(
      to === undefined
        ? `Nothing else was bound to ${aggregateType} before: change the code and run \`statefold deploy\`.`
        : `The reducer ${to} was never bound to ${aggregateType}, or is bound now; see \`statefold history ${aggregateType}\`.`,
    );
  output.write(
    `${aggregateType}: back to ${target.className} of ${target.boundAt} (${target.reducerId})${target.status === 'gone' ? ', whose states are folded from the start' : ''}\n`,
  );
  if (!(yes || (await confirm('Bind it?', io)))) return undefined;
  await remote.bind(aggregateType, target.reducerId, target.className);
  await awaitCatchUp(remote, output, aggregateType);
  return { aggregateType, reducerId: target.reducerId, className: target.className };
}

async function rollbackProjection(
  remote: Remote,
  io: CliIo,
  output: CliIo['stdout'],
  projection: ProjectionRecord,
  to: string | undefined,
  yes: boolean,
): Promise<object | undefined> {
  const { id } = projection;
  const revision = to === undefined ? undefined : Number(to);
  if (revision !== undefined && !(Number.isInteger(revision) && revision > 0))
    throw new CliError(`--to is the number of a revision, not '${to}'; see \`statefold history ${id}\`.`);
  output.write(
    `projection ${classesOf(projection).join(', ')} (${id}): back to ${revision === undefined ? 'what was live before' : `revision ${revision}`}\n`,
  );
  if (!(yes || (await confirm('Roll it back?', io)))) return undefined;
  const done = await remote.rollbackProjection(id, revision);
  output.write(`${done.message}\n`);
  await awaitRevision(remote, output, id, done.revision);
  return { projectionId: id, ...done };
}
