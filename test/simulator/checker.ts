import type { StatefoldError } from '../../src/core/errors.js';
import type { Change } from '../../src/core/change.js';
import type { TenantTask } from '../../src/tenancy/tenant-task.js';
import {
  acknowledgedBefore,
  checkListing,
  checkOrder,
  checkVersions,
  meets,
  type Acknowledged,
  type Bad,
  type Committed,
} from '../support/rules.js';
import {
  modelOf,
  oldestKnown,
  skipsOf,
  standing,
  stateAt,
  truthOf,
  withoutErased,
  type TrueCommit,
  type Truth,
} from './truth.js';
import {
  AGGREGATE_TYPE,
  CHANGES,
  EVENTS,
  REDACTIONS,
  type Answer,
  type Attempt,
  type Command,
  type Read,
  type World,
} from './world.js';

/** Holds a run against the truth of its log. Each problem starts with the number of the invariant of docs that it breaks. */
export async function check(world: World): Promise<{ problems: string[]; truth: Truth }> {
  await lastTrim(world);
  const truth = truthOf(world.log);
  const problems = [...world.problems];
  const bad = (problem: string): unknown => problems.push(problem);
  const numbered: Bad = (invariant, problem) => bad(`${invariant}: ${problem}`);
  for (const [aggregateId, commits] of truth.byAggregate) checkVersions(aggregateId, commits.map(committed), numbered);
  for (const command of world.commands) commandOf(world, truth, command, bad);
  const acknowledged = acknowledgedBefore(answeredIn(world));
  realTime(world, acknowledged, numbered);
  for (const read of world.reads) readOf(truth, read, acknowledged, numbered);
  readsInOrder(world.reads, truth, bad);
  if (world.options.erasures === 0) changes(world, truth, bad);
  erasures(world, truth, bad);
  for (const { process, pushed } of world.runs) pushedOf(world, truth, process.id, pushed, bad);
  await readers(world, truth, bad);
  leftOver(world, truth, bad);
  return { problems, truth };
}

/**
 * Where retention takes changes at all it takes some behind the last claim once more, when all is told: those that come in the
 * middle of a run mostly find claims alone.
 */
async function lastTrim(world: World): Promise<void> {
  if (world.options.trims === 0) return;
  const { running } = await world.owner();
  if (running === undefined) return;
  running.task.repeatClaim().catch(() => undefined);
  while (await world.scheduler.next());
  world.trim();
}

type Say = (problem: string) => unknown;
type Ok = Extract<Answer, { kind: 'ok' }>;

const committed = ({ offset, value, eventIds }: TrueCommit): Committed => ({
  offset,
  baseVersion: value.baseVersion,
  timestamp: value.timestamp,
  eventIds,
});

const nameOf = ({ number, parts, transaction, commandId }: Command): string =>
  `${transaction ? 'transaction' : 'command'} ${number} (${commandId} on ${parts
    .map(({ aggregateId, expectedVersion }) => `${aggregateId}, expects ${expectedVersion}`)
    .join('; ')})`;

/**
 * What is in the log under the name of a command: of an append by its aggregate, of a transaction by the tenant, whatever
 * aggregates it names.
 */
const landedOf = (truth: Truth, { transaction, parts, commandId }: Command): readonly TrueCommit[] =>
  (transaction ? truth.commits : (truth.byAggregate.get(parts[0]?.aggregateId ?? '') ?? [])).filter(
    (commit) => (commit.parts !== undefined) === transaction && commit.value.commandId === commandId,
  );

function commandOf(world: World, truth: Truth, command: Command, bad: Say): void {
  const name = nameOf(command);
  const landed = landedOf(truth, command);
  const mine = landed.filter(({ value }) => value.requestHash.equals(command.requestHash));
  const places = new Set(landed.map(({ offset }) => offset));
  if (places.size > 1)
    bad(`${command.keyed ? 4 : 3}: ${name} is in the log ${places.size} times, at ${[...places].join(', ')}`);
  if (mine.length > 0 && mine.length !== command.parts.length * places.size)
    bad(`5: ${name} is of ${command.parts.length} aggregates, the log has ${mine.length} of them`);
  for (const commit of mine) {
    const { value, payloads } = commit;
    const part = command.parts.find(({ aggregateId }) => aggregateId === value.aggregateId);
    if (part === undefined) {
      bad(`5: ${name} is in the log of ${value.aggregateId} too`);
      continue;
    }
    if (payloads.length !== part.payloads.length)
      bad(`5: ${name} has ${part.payloads.length} events of ${part.aggregateId}, ${payloads.length} are in the log`);
    if (!meets(part.expectedVersion, value.baseVersion))
      bad(`6: ${name} was accepted at version ${value.baseVersion} of ${value.aggregateId}`);
  }
  for (const attempt of command.attempts) {
    const { answer } = attempt;
    if (answer?.kind === 'ok') answered(truth, command, mine, answer, bad);
    if (
      answer?.kind === 'unknown' &&
      answer.notStored &&
      command.attempts.length === 1 &&
      !command.keyed &&
      mine.length > 0
    )
      bad(`3: ${name} was answered as not stored, and is in the log`);
    if (answer?.kind === 'refused') refused(world, truth, command, attempt, answer.error, answer.step, bad);
  }
}

function answered(truth: Truth, command: Command, mine: readonly TrueCommit[], answer: Ok, bad: Say): void {
  const { results } = answer;
  const [names, asked] = [results, command.parts].map((of) => of.map(({ aggregateId }) => aggregateId).join());
  if (names !== asked) bad(`2: ${nameOf(command)} was answered of ${names}`);
  for (const result of results) answeredOf(truth, command, mine, answer, result, bad);
}

function answeredOf(
  truth: Truth,
  command: Command,
  mine: readonly TrueCommit[],
  { step, timestamp }: Ok,
  result: Ok['results'][number],
  bad: Say,
): void {
  const name = nameOf(command);
  const commit = mine.find(({ value }) => value.aggregateId === result.aggregateId);
  if (commit === undefined)
    return void bad(
      `2: ${name} was answered version ${result.endVersion} of ${result.aggregateId} and is not in the log`,
    );
  const { value, eventIds } = commit;
  if (commit.step > step) bad(`2: ${name} was answered before it was in the log`);
  if (result.startVersion !== value.baseVersion + 1 || result.endVersion !== value.baseVersion + value.events.length)
    bad(
      `2: ${name} was answered versions ${result.startVersion} to ${result.endVersion}, the log has it at ${value.baseVersion + 1}`,
    );
  if (result.eventIds.join() !== eventIds.join()) bad(`2: ${name} was answered other event ids than the log has`);
  if (timestamp !== value.timestamp) bad(`4: ${name} was answered another timestamp than the log has`);
  if (
    result.state !== undefined &&
    !statesAt(truth, result.aggregateId, result.endVersion).includes(result.state.toString())
  )
    bad(`10: ${name} was answered state ${result.state.toString()} at version ${result.endVersion}`);
}

/** A 201 is answered by what was passed over until then. */
function statesAt(truth: Truth, aggregateId: string, version: number): string[] {
  const skips = skipsOf(truth, aggregateId);
  return [...skips.keys(), skips.length].map(
    (count) => stateAt(truth, aggregateId, version, skips.slice(0, count)) ?? 'null',
  );
}

function refused(
  world: World,
  truth: Truth,
  command: Command,
  attempt: Attempt,
  error: StatefoldError,
  answeredAt: number,
  bad: Say,
): void {
  const name = nameOf(command);
  const landed = landedOf(truth, command);
  const known = command.keyed ? landed[0] : undefined;
  if (error.code === 'IDEMPOTENCY_KEY_REUSED') {
    if (known === undefined || known.value.requestHash.equals(command.requestHash) || known.step > answeredAt)
      bad(`4: ${name} was refused as a reuse of a key that was not used for another request`);
    return;
  }
  if (error.code === 'GONE') {
    const { parts } = command;
    if (!parts.some(({ aggregateId }) => (truth.erased.get(aggregateId) ?? Infinity) <= answeredAt))
      bad(`2: ${name} was answered GONE, and none of its aggregates was erased`);
    return;
  }
  if (error.code !== 'VERSION_CONFLICT') return void bad(`3: ${name} was answered ${error.code}`);
  // A key that two requests of a client share, or an attempt that the client gave up, may be in the log by the other one.
  const others =
    world.commands.some((other) => other !== command && other.commandId === command.commandId) ||
    command.attempts.some((other) => other !== attempt && other.answer?.kind === 'unknown');
  if (!others && landed.length > 0) bad(`3: ${name} was refused and is in the log`);
  const [first] = command.parts;
  const mismatches = command.transaction
    ? (error.details?.['mismatches'] as readonly { aggregateId: string; currentVersion: number }[])
    : [{ aggregateId: first?.aggregateId ?? '', currentVersion: Number(error.details?.['currentVersion']) }];
  if (mismatches.length === 0) bad(`6: ${name} was refused for nothing`);
  for (const mismatch of mismatches) refusedAt(truth, command, attempt, mismatch, answeredAt, bad);
}

/** The aggregate was there at some moment of the request, and not where the command expected it. */
function refusedAt(
  truth: Truth,
  command: Command,
  attempt: Attempt,
  { aggregateId, currentVersion: current }: { readonly aggregateId: string; readonly currentVersion: number },
  answeredAt: number,
  bad: Say,
): void {
  const name = nameOf(command);
  const commits = truth.byAggregate.get(aggregateId) ?? [];
  const part = command.parts.find((one) => one.aggregateId === aggregateId);
  if (part === undefined) return void bad(`6: ${name} was refused for ${aggregateId}`);
  if (meets(part.expectedVersion, current)) bad(`6: ${name} was refused at version ${current} of ${aggregateId}`);
  let version = 0;
  let since = 0;
  let was = false;
  for (const { step, value } of [...commits, { step: Infinity, value: undefined }]) {
    if (version === current && since <= answeredAt && step > attempt.sent) was = true;
    since = step;
    version += value?.events.length ?? 0;
  }
  if (!was)
    bad(
      `6: ${name} was refused at version ${current} of ${aggregateId}, at which it was at no moment between ${attempt.sent} and ${answeredAt}`,
    );
}

/** Of those that were sent once: another sending may have been answered from the first. */
function realTime(world: World, acknowledged: ReturnType<typeof acknowledgedBefore>, bad: Bad): void {
  const once = world.commands.filter(
    ({ attempts, commandId, keyed }) =>
      attempts.length === 1 && (!keyed || world.commands.filter((other) => other.commandId === commandId).length === 1),
  );
  const appends = once.flatMap((command) =>
    command.attempts.flatMap(({ sent, answer }) =>
      answer?.kind === 'ok'
        ? answer.results.map(({ aggregateId, startVersion }) => ({
            name: nameOf(command),
            aggregateId,
            startVersion,
            sent,
          }))
        : [],
    ),
  );
  checkOrder(appends, acknowledged, bad);
}

/** All that was answered with 201, in steps of the simulation. */
const answeredIn = (world: World): Acknowledged[] =>
  world.commands.flatMap(({ attempts }) =>
    attempts.flatMap(({ answer }) =>
      answer?.kind === 'ok'
        ? answer.results.map(({ aggregateId, endVersion }) => ({ aggregateId, endVersion, at: answer.step }))
        : [],
    ),
  );

/** What was answered as erased stays so, for whoever asks. */
function erasures(world: World, truth: Truth, bad: Say): void {
  for (const { aggregateId, answered: at } of world.erasures) {
    if (at === undefined) continue;
    const landed = truth.erased.get(aggregateId);
    if (landed === undefined || landed > at) bad(`2: the erasure of ${aggregateId} was answered and is not in the log`);
    for (const { sent, gone } of world.reads.filter((read) => read.aggregateId === aggregateId))
      if (sent > at && !gone) bad(`7: ${aggregateId} was read at step ${sent}, and was erased at ${at}`);
    for (const command of world.commands)
      for (const { sent, answer } of command.attempts)
        if (sent > at && answer?.kind === 'ok' && answer.results.some((result) => result.aggregateId === aggregateId))
          bad(`7: ${nameOf(command)} was accepted at step ${sent}, and ${aggregateId} was erased at ${at}`);
  }
}

/** When all that may go is gone, nothing of an erased aggregate is left, by whatever way it came there. */
function leftOver(world: World, truth: Truth, bad: Say): void {
  if (truth.erased.size === 0) return;
  world.compact();
  for (const topic of [EVENTS, REDACTIONS])
    for (const { offset, value, gone, key } of world.log.records(topic)) {
      if (gone || value === null) continue;
      const text = value.toString('latin1');
      for (const commit of truth.written)
        if (
          truth.erased.has(commit.aggregateId) &&
          commit.events.some(({ eventId }) => text.includes(eventId.toString('latin1')))
        )
          bad(`erasure: record ${offset} of ${topic} (${key.toString()}) has events of ${commit.aggregateId}`);
    }
}

/** A read that found no aggregate is a listing of nothing. */
function readOf(
  truth: Truth,
  { aggregateId, events, sent, answered: at, gone }: Read,
  acknowledged: ReturnType<typeof acknowledgedBefore>,
  bad: Bad,
): void {
  if (gone) {
    if ((truth.erased.get(aggregateId) ?? Infinity) > at) bad(2, `${aggregateId} was answered as erased, and was not`);
    return;
  }
  const there = (truth.byAggregate.get(aggregateId) ?? []).filter(({ step }) => step <= at);
  checkListing(aggregateId, events ?? [], there.map(committed), acknowledged(aggregateId, sent), bad);
}

/**
 * Who was shown a commit, and asks for another aggregate then, is shown what the log has of it up to there: so a transaction that
 * is seen in one of its aggregates is seen in all.
 */
function readsInOrder(reads: readonly Read[], truth: Truth, bad: Say): void {
  const offsetsOf = ({ aggregateId, events = [] }: Read): number[] => {
    const shown = new Set(events.map(({ eventId }) => eventId));
    return (truth.byAggregate.get(aggregateId) ?? []).flatMap(({ offset, eventIds }) =>
      eventIds.some((id) => shown.has(id)) ? [offset] : [],
    );
  };
  for (const read of reads) {
    if (read.gone) continue;
    const seen = new Set(offsetsOf(read));
    const before = reads.filter(({ answered: at }) => at < read.sent).flatMap(offsetsOf);
    const last = Math.max(-1, ...before);
    for (const { offset, parts } of truth.byAggregate.get(read.aggregateId) ?? [])
      if (offset <= last && !seen.has(offset))
        bad(
          `${parts === undefined ? 7 : 5}: a listing of ${read.aggregateId} lacks what is at offset ${offset}, though ${last} was shown before`,
        );
  }
}

/** Every change that is due, once, in order, and no other. */
function changes(world: World, truth: Truth, bad: Say): void {
  for (const projectionId of world.deployed.keys()) {
    const { due } = modelOf(truth, projectionId);
    const made = truth.changes.filter(({ value }) => value.projectionId === projectionId);
    const want = due.map(
      ({ input, key, state, fault, cause }) =>
        `input ${input}: ${key} is ${state}${fault ? ', faulted' : ''}${cause === null ? '' : ` (${cause})`}`,
    );
    const got = made.map(
      ({ value }) =>
        `input ${value.inputOffset}: ${value.key} is ${value.state?.toString() ?? null}${value.fault === null ? '' : ', faulted'}${value.cause === null ? '' : ` (${value.cause})`}`,
    );
    const at = want.findIndex((change, i) => change !== got[i]);
    if (at >= 0)
      bad(`11: change ${at} of ${projectionId} should be "${want[at]}", the log has "${got[at] ?? 'no more'}"`);
    else if (got.length > want.length) bad(`12: ${projectionId} has a change too many: "${got[want.length]}"`);
  }
}

/**
 * A subscriber of one process is pushed accepted changes in order, none left out but what retention dropped: the one of these runs
 * follows the log itself, and is not told that it came too late, as one of a projection is.
 */
function pushedOf(world: World, truth: Truth, id: string, pushed: readonly Change[], bad: Say): void {
  const first = pushed[0]?.sequence ?? 0;
  const want = truth.changes.filter(({ sequence }) => sequence >= first).map(({ sequence }) => sequence);
  const start = world.log.start(CHANGES);
  let next = 0;
  pushed.forEach(({ sequence, state }) => {
    while ((want[next] ?? Infinity) < Math.min(sequence, start)) next++;
    if (sequence !== want[next]) bad(`12: ${id} pushed sequence ${sequence}, the next one was ${want[next]}`);
    next++;
    const accepted = truth.changes.find((change) => change.sequence === sequence);
    if (accepted !== undefined && (accepted.value.state?.toString() ?? null) !== (state?.toString() ?? null))
      bad(`12: ${id} pushed another state with sequence ${sequence}`);
  });
}

/** The owner that is left, one started again on its store, and one on an empty machine: all see what the log says. */
async function readers(world: World, truth: Truth, bad: Say): Promise<void> {
  const seat = await world.owner();
  if (seat.running === undefined) return;
  await reader(world, truth, `the owner ${seat.running.process.id}`, seat.running.task, bad);
  await world.close(seat);
  await reader(world, truth, 'the owner after a restart', await opened(world, seat), bad);
  world.crash(seat);
  await reader(world, truth, 'the owner after a crash', await opened(world, seat), bad);
  const last = world.machine('m9');
  await reader(world, truth, 'an owner without a store', await opened(world, last), bad);
  if (world.options.seed % 2 === 0)
    await reader(world, truth, 'a standby on the store of a former owner', await promoted(world, seat), bad);
  else await reader(world, truth, 'a standby without a store', await promoted(world, world.machine('m8')), bad);
}

async function promoted(world: World, machine: World['machines'][number]): Promise<TenantTask> {
  const running = world.start(machine, true);
  while (await world.scheduler.next());
  world.promote(running);
  while (await world.scheduler.next());
  return running.task;
}

async function opened(world: World, machine: World['machines'][number]): Promise<TenantTask> {
  const { task } = world.start(machine);
  while (await world.scheduler.next());
  return task;
}

async function reader(world: World, first: Truth, who: string, task: TenantTask, bad: Say): Promise<void> {
  // Who has no store folds again without what was erased, and may tell a key once more when it comes to the last build.
  const truth = world.options.erasures === 0 ? first : truthOf(world.log);
  const settled = async <T>(work: Promise<T>): Promise<T | undefined> => {
    let value: T | undefined;
    let failed: unknown;
    work.then(
      (answer) => (value = answer),
      (error: unknown) => (failed = error),
    );
    // What needs nothing of the log is answered before anything happens.
    await world.scheduler.turn();
    while (await world.scheduler.next());
    if (failed !== undefined) bad(`2: ${who} answers ${failed instanceof Error ? failed.message : 'an error'}`);
    else if (value === undefined) bad(`2: ${who} does not answer`);
    return value;
  };
  if (task.status !== 'RUNNING') return void bad(`2: ${who} does not run: ${task.status}`);
  for (const aggregateId of truth.erased.keys())
    for (const ask of [
      () => task.first.events({ aggregateId, fromVersion: 1, toVersion: undefined, limit: 10, direction: 'forward' }),
      () => task.first.state(AGGREGATE_TYPE, aggregateId),
    ]) {
      const answer = await settled(
        ask().then(
          () => 'an answer',
          (error: StatefoldError) => error.code,
        ),
      );
      if (answer !== 'GONE') bad(`erasure: ${who} gives ${answer} for ${aggregateId}, which was erased`);
    }
  for (const [aggregateId, commits] of truth.byAggregate) {
    if (truth.erased.has(aggregateId)) continue;
    const page = await settled(
      task.first.events({
        aggregateId,
        fromVersion: 1,
        toVersion: undefined,
        limit: 10_000,
        direction: 'forward',
      }),
    );
    const want = commits.flatMap(({ eventIds }) => eventIds).join();
    if (page !== undefined && page.events.map(({ eventId }) => eventId).join() !== want)
      bad(`9: ${who} lists other events of ${aggregateId} than the log has`);
    const state = await settled(task.first.state(AGGREGATE_TYPE, aggregateId));
    const stand = standing(truth, aggregateId);
    if (
      state !== undefined &&
      (state.version !== stand.version ||
        (state.state?.toString() ?? null) !== stand.state ||
        (state.fault !== undefined) !== stand.fault)
    )
      bad(
        `10: ${who} has state ${state.state?.toString()} of ${aggregateId} at version ${state.version}${state.fault === undefined ? '' : ', faulted'}; the log says ${stand.state} at ${stand.version}${stand.fault ? ', faulted' : ''}`,
      );
  }
  for (const projectionId of world.deployed.keys()) {
    const { rows, revision } = modelOf(withoutErased(truth), projectionId);
    if (revision !== world.deployed.get(projectionId)?.revision) bad(`11: ${projectionId} is at revision ${revision}`);
    const page = await settled(task.projections.states({ projectionId, prefix: '', limit: 10_000, cursor: undefined }));
    const isErasing = world.options.erasures > 0;
    if (
      isErasing &&
      who === `the owner ${world.runs.find((run) => run.task === task)?.process.id}` &&
      task.projections.life(projectionId).erasedSinceBuild
    )
      bad(`erasure: ${who} says that ${projectionId}, which was built again since, may hold what was erased`);
    const want = [...rows]
      .filter(([, { state, fault }]) => !isErasing || state !== null || fault !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, { state, fault }]) => `${key}=${state?.toString() ?? null}${fault === undefined ? '' : '!'}`);
    const shown = page?.states.filter(({ state, fault }) => !isErasing || state !== null || fault !== undefined);
    const got = shown?.map(
      ({ key, state, fault }) => `${key}=${state?.toString() ?? null}${fault === undefined ? '' : '!'}`,
    );
    if (got !== undefined && got.join(' ') !== want.join(' '))
      bad(`11: ${who} has states ${got.join(' ')} of ${projectionId}, the log says ${want.join(' ')}`);
    const anchor = oldestKnown(world.log, truth);
    const last = new Map(
      truth.changes
        .filter(({ value }) => value.projectionId === projectionId)
        .map(({ sequence, value }) => [value.key, sequence]),
    );
    for (const { key, sequence } of page?.states ?? [])
      if (sequence !== last.get(key) && (last.get(key) ?? 0) >= anchor)
        bad(`12: ${who} has sequence ${sequence} for ${key} of ${projectionId}, its last change is ${last.get(key)}`);
    const from = await settled(task.changes.of(projectionId).start());
    if (from === undefined) continue;
    const oldest = from - 1;
    if (oldest > anchor)
      bad(`12: ${who} lets cursors of ${projectionId} up to ${oldest} expire, the log has all from ${anchor} on`);
    const feed = await settled(task.changes.of(projectionId).read(oldest + 1, { items: 100_000 }));
    const due = truth.changes
      .filter(({ value, sequence }) => value.projectionId === projectionId && value.fault === null && sequence > oldest)
      .map(({ sequence }) => sequence);
    if (feed !== undefined && feed.items.map(({ sequence }) => sequence).join() !== due.join())
      bad(
        `12: ${who} serves changes ${feed.items.map(({ sequence }) => sequence).join()} of ${projectionId}, the log has ${due.join()}`,
      );
  }
}
