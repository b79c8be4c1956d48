import type { LogContent, LoggedCommit } from './checker-log.js';
import { CLEARED, chainAfter, sameChain, type Chain, type ProjectionModel } from './checker-model.js';
import type { AppendRequest, Operation } from './history.js';
import {
  acknowledgedBefore,
  checkListing,
  checkOrder,
  checkVersions,
  meets,
  type Bad,
  type Committed,
} from './rules.js';

/** A record as it came over any channel. */
export interface Notification {
  readonly sequence: number;
  readonly projectionId: string;
  readonly className: string;
  readonly key: string;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly eventId: string;
  readonly version: number;
  readonly state: Chain;
  readonly timestamp: string;
  readonly cause?: string;
}
export interface Delivery {
  /** The header `webhook-id`. */
  readonly id: string;
  /** The library of Standard Webhooks verified it. */
  readonly signed: boolean;
  readonly notification: Notification;
}
export interface ListedEvent {
  readonly eventId: string;
  readonly eventType: string;
  readonly version: number;
  readonly timestamp: string;
  readonly data: { readonly id: string; readonly lane: string };
}
export interface StateAnswer {
  readonly version: number;
  readonly state: Chain;
}
export interface FollowedProjection {
  readonly projectionId: string;
  readonly model: ProjectionModel;
  /** Of `GET /projections/{id}/states`, by key. */
  readonly states: ReadonlyMap<string, Chain>;
  /** Polled from 0 at the end. */
  readonly polled: readonly Notification[];
  /** What followers got while processes died, each from sequence 0 on. */
  readonly followers: readonly (readonly Notification[])[];
  readonly deliveries: readonly Delivery[] | undefined;
}
/** Rows of the read store, deduplicated by the engine itself. */
export interface Rows {
  readonly events: readonly {
    readonly aggregate_id: string;
    readonly version: number;
    readonly event_id: string;
    readonly mark: string;
  }[];
  readonly aggregateStates: readonly {
    readonly aggregate_id: string;
    readonly version: number;
    readonly state: Chain;
  }[];
  readonly notifications: readonly {
    readonly projection_id: string;
    readonly sequence: number;
    readonly key: string;
    readonly event_id: string;
    readonly state: Chain;
  }[];
  readonly projectionStates: readonly { readonly projection_id: string; readonly key: string; readonly state: Chain }[];
}

/** All that is known of a run once clients have stopped and everything has caught up. */
export interface Evidence {
  readonly history: readonly Operation[];
  readonly log: LogContent;
  /** Events of every aggregate, listed at the end. */
  readonly listed: ReadonlyMap<string, readonly ListedEvent[]>;
  /** Of some aggregates only: there are too many. */
  readonly sampled?: boolean;
  /** State of every aggregate of a bound type, asked for at the end. */
  readonly states: ReadonlyMap<string, StateAnswer>;
  /** Types with a reducer, and since when, on the history's clock. */
  readonly boundSince: ReadonlyMap<string, number>;
  readonly projections: readonly FollowedProjection[];
  readonly rows?: Rows;
}

/** Collects what doesn't hold; many of one kind say no more than a few. */
class Findings {
  readonly #found: string[] = [];
  readonly #counts = new Map<number, number>();
  readonly bad: Bad = (invariant, message) => this.add(invariant, message);

  add(invariant: number, message: string): void {
    const count = (this.#counts.get(invariant) ?? 0) + 1;
    this.#counts.set(invariant, count);
    if (count <= 5) this.#found.push(`[${invariant}] ${message}`);
  }

  get all(): readonly string[] {
    const more = [...this.#counts].flatMap(([invariant, count]) =>
      count > 5 ? [`[${invariant}] and ${count - 5} more`] : [],
    );
    return [...this.#found, ...more];
  }
}

const committed = ({ offset, baseVersion, timestamp, events }: LoggedCommit): Committed => ({
  ...{ offset, baseVersion, timestamp },
  eventIds: events.map(({ eventId }) => eventId),
});

interface Place {
  readonly commit: LoggedCommit;
  readonly version: number;
  readonly eventId: string;
}
/** What the log alone says, before anything that was answered is looked at. */
interface Truth {
  readonly places: ReadonlyMap<string, Place>;
  readonly commits: ReadonlyMap<string, readonly LoggedCommit[]>;
  /** By aggregate, the state after each version. */
  readonly chains: ReadonlyMap<string, readonly Chain[]>;
}
interface Answered {
  readonly request: AppendRequest;
  readonly invokedAt: number;
  readonly endedAt: number;
  readonly status: number;
  readonly startVersion: number;
  readonly endVersion: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** What breaks the invariants of the service (1 to 7 and 9 to 13), each message with the number of its invariant in front. */
export function check(evidence: Evidence): readonly string[] {
  const findings = new Findings();
  const truth = truthOf(evidence, findings);
  const answers = answersOf(evidence.history);
  checkAcknowledged(answers, truth, findings);
  checkRefused(evidence, answers, truth, findings);
  checkKeys(answers, evidence.log.commits, findings);
  checkExpectations(answers, evidence.history, truth, findings);
  checkRealTime(evidence.history, answers, truth, findings);
  checkListed(evidence, truth, findings);
  checkStates(evidence, answers, truth, findings);
  for (const projection of evidence.projections) checkProjection(projection, evidence.log, findings);
  if (evidence.rows !== undefined) checkRows(evidence.rows, evidence, truth, findings);
  return findings.all;
}

function truthOf({ log }: Evidence, findings: Findings): Truth {
  const places = new Map<string, Place>();
  const commits = new Map<string, LoggedCommit[]>();
  const chains = new Map<string, Chain[]>();
  const ids = new Set<string>();
  for (const commit of log.commits) {
    const { aggregateId, baseVersion } = commit;
    const earlier = commits.get(aggregateId) ?? [];
    const states = chains.get(aggregateId) ?? [];
    let chain = states.at(-1) ?? null;
    commit.events.forEach((event, i) => {
      if (places.has(event.mark)) findings.add(3, `event ${event.mark} is in the log twice`);
      if (ids.has(event.eventId)) findings.add(1, `event id ${event.eventId} was given twice`);
      ids.add(event.eventId);
      places.set(event.mark, { commit, version: baseVersion + i + 1, eventId: event.eventId });
      chain = event.eventType === CLEARED ? null : chainAfter(chain, event.mark);
      states.push(chain);
    });
    commits.set(aggregateId, [...earlier, commit]);
    chains.set(aggregateId, states);
  }
  for (const [aggregateId, all] of commits) checkVersions(aggregateId, all.map(committed), findings.bad);
  return { places, commits, chains };
}

function answersOf(history: readonly Operation[]): readonly Answered[] {
  return history.flatMap(({ request, outcome, invokedAt, endedAt }) => {
    if (request.kind !== 'append' || outcome.kind === 'lost') return [];
    const { status, body } = outcome;
    const {
      version,
      startVersion = version,
      endVersion = version,
    } = body as { version?: number; startVersion?: number; endVersion?: number };
    return [
      { request, invokedAt, endedAt, status, startVersion: startVersion ?? 0, endVersion: endVersion ?? 0, body },
    ];
  });
}

const idsOf = (answer: Answered): readonly unknown[] =>
  (answer.body['eventIds'] as readonly string[] | undefined) ?? [answer.body['eventId']];

function checkAcknowledged(answers: readonly Answered[], { places }: Truth, findings: Findings): void {
  for (const answer of answers) {
    if (answer.status !== 201) continue;
    const ids = idsOf(answer);
    answer.request.events.forEach(({ mark }, i) => {
      const place = places.get(mark);
      const version = answer.startVersion + i;
      if (place === undefined)
        findings.add(
          2,
          `event ${mark} was acknowledged as version ${version} of ${answer.request.aggregateId}, and is not in the log`,
        );
      else if (
        place.version !== version ||
        place.eventId !== ids[i] ||
        place.commit.aggregateId !== answer.request.aggregateId
      )
        findings.add(
          2,
          `event ${mark} was acknowledged as version ${version} of ${answer.request.aggregateId} (${String(ids[i])}), the log has it as ${place.version} of ${place.commit.aggregateId} (${place.eventId})`,
        );
    });
    if (answer.endVersion !== answer.startVersion + answer.request.events.length - 1)
      findings.add(
        5,
        `${answer.request.events.length} events were answered as versions ${answer.startVersion} to ${answer.endVersion}`,
      );
  }
}

function checkRefused(
  { history }: Evidence,
  answers: readonly Answered[],
  { places, commits }: Truth,
  findings: Findings,
): void {
  for (const { request, status, body } of answers) {
    if (status === 201) continue;
    if (status >= 400 && status < 500)
      for (const { mark } of request.events)
        if (places.has(mark))
          findings.add(3, `event ${mark} was refused with ${status} ${String(body['code'])}, and is in the log`);
    if (status >= 500 && (status !== 503 || body['retryable'] !== true))
      findings.add(
        3,
        `an append was answered ${status} ${String(body['code'])}, retryable: ${String(body['retryable'])}`,
      );
  }
  const sent = new Map<string, AppendRequest>();
  for (const { request } of history)
    if (request.kind === 'append') for (const { mark } of request.events) sent.set(mark, request);
  for (const all of commits.values())
    for (const { events, aggregateId } of all) {
      const request = sent.get(events[0]?.mark ?? '');
      if (request?.aggregateId !== aggregateId)
        findings.add(3, `event ${events[0]?.mark} of ${aggregateId} is in the log, and nobody sent it`);
      else if (
        request.events.length !== events.length ||
        request.events.some(({ mark }, i) => mark !== events[i]?.mark)
      )
        findings.add(
          5,
          `a commit of ${aggregateId} has ${events.length} events from ${events[0]?.mark} on, ${request.events.length} were sent together`,
        );
    }
}

function checkKeys(answers: readonly Answered[], commits: readonly LoggedCommit[], findings: Findings): void {
  const written = new Set<string>();
  for (const { key, aggregateId } of commits) {
    if (key === undefined) continue;
    if (written.has(`${aggregateId} ${key}`)) findings.add(4, `the log has two commits of ${key} of ${aggregateId}`);
    written.add(`${aggregateId} ${key}`);
  }
  const first = new Map<string, Answered>();
  for (const answer of answers) {
    const { key, aggregateId, command } = answer.request;
    if (key === undefined) continue;
    const name = `${aggregateId} ${key}`;
    const known = first.get(name);
    if (answer.status === 201) {
      if (known === undefined) first.set(name, answer);
      else if (known.request.command !== command)
        findings.add(4, `two commands were accepted under ${key} of ${aggregateId}`);
      else if (idsOf(known).join() !== idsOf(answer).join() || known.startVersion !== answer.startVersion)
        findings.add(
          4,
          `${key} of ${aggregateId} was answered as version ${known.startVersion}, then as ${answer.startVersion}`,
        );
    } else if (
      known !== undefined &&
      known.request.command !== command &&
      answer.status < 500 &&
      answer.body['code'] !== 'IDEMPOTENCY_KEY_REUSED'
    )
      findings.add(
        4,
        `another request under ${key} of ${aggregateId} was answered ${answer.status} ${String(answer.body['code'])}`,
      );
  }
}

function checkExpectations(
  answers: readonly Answered[],
  history: readonly Operation[],
  { places, commits }: Truth,
  findings: Findings,
): void {
  const invoked = new Map<string, number>();
  for (const { request, invokedAt } of history)
    if (request.kind === 'append')
      for (const { mark } of request.events) if (!invoked.has(mark)) invoked.set(mark, invokedAt);
  for (const { request, status, startVersion, invokedAt, endedAt, body } of answers) {
    const { expectedVersion, aggregateId } = request;
    if (expectedVersion === undefined) continue;
    if (status === 201 && !meets(expectedVersion, startVersion - 1))
      findings.add(
        6,
        `an append to ${aggregateId} that expected version ${expectedVersion} became version ${startVersion}`,
      );
    if (status !== 409 || body['code'] !== 'VERSION_CONFLICT') continue;
    const last = (version: number): LoggedCommit | undefined =>
      commits.get(aggregateId)?.find((commit) => commit.baseVersion + commit.events.length === version);
    // Refused though the version was the expected one all the time: the commit that made it was acknowledged before, the next was not yet sent.
    const made = last(expectedVersion);
    const next = commits.get(aggregateId)?.find((commit) => commit.baseVersion === expectedVersion);
    const reachedBefore =
      expectedVersion === 0 ||
      (made !== undefined &&
        answers.some(
          (one) =>
            one.status === 201 && one.endedAt < invokedAt && one.request.events[0]?.mark === made.events[0]?.mark,
        ));
    const passedBefore = next !== undefined && (invoked.get(next.events[0]?.mark ?? '') ?? 0) < endedAt;
    if (reachedBefore && !passedBefore)
      findings.add(
        6,
        `an append to ${aggregateId} that expected version ${expectedVersion} was refused at that version`,
      );
    if (meets(expectedVersion, Number(body['currentVersion'])))
      findings.add(6, `a conflict of ${aggregateId} names the expected version ${expectedVersion} as the current one`);
  }
  // Of all that expected a version at most one is at that place of the log.
  const winners = new Map<string, number>();
  const seen = new Set<number>();
  for (const { request, status } of answers) {
    if (
      request.expectedVersion === undefined ||
      status !== 201 ||
      seen.has(request.command) ||
      !places.has(request.events[0]?.mark ?? '')
    )
      continue;
    seen.add(request.command);
    const race = `${request.aggregateId} at version ${request.expectedVersion}`;
    winners.set(race, (winners.get(race) ?? 0) + 1);
  }
  for (const [race, count] of winners) if (count > 1) findings.add(6, `${count} appends won ${race}`);
}

function checkRealTime(
  history: readonly Operation[],
  answers: readonly Answered[],
  truth: Truth,
  findings: Findings,
): void {
  const acknowledged = acknowledgedBefore(
    answers
      .filter(({ status }) => status === 201)
      .map(({ request: { aggregateId }, endVersion, endedAt }) => ({ aggregateId, endVersion, at: endedAt })),
  );
  // A keyed command that is sent again is answered from its first sending, also when nobody heard the answer to that.
  const firstSent = new Map<number, number>();
  for (const { request, invokedAt } of history)
    if (request.kind === 'append')
      firstSent.set(request.command, Math.min(invokedAt, firstSent.get(request.command) ?? invokedAt));
  const appends = answers
    .filter(({ status, request, invokedAt }) => {
      const first = firstSent.get(request.command) ?? invokedAt;
      return status === 201 && (request.key === undefined || invokedAt <= first);
    })
    .map(({ request: { aggregateId }, startVersion, invokedAt: sent }) => ({
      ...{ name: 'an append', aggregateId, startVersion, sent },
    }));
  checkOrder(appends, acknowledged, findings.bad);
  for (const { request, outcome, invokedAt } of history) {
    if (request.kind === 'append' || outcome.kind === 'lost') continue;
    const { aggregateId } = request;
    const { status, body } = outcome;
    const before = acknowledged(aggregateId, invokedAt);
    if (status === 404 && before > 0 && body['code'] === 'NOT_FOUND')
      findings.add(7, `${aggregateId} was not found, though its version ${before} was answered before`);
    if (status !== 200) continue;
    if (request.kind === 'list')
      checkListing(
        aggregateId,
        (body['events'] as readonly ListedEvent[] | undefined) ?? [],
        (truth.commits.get(aggregateId) ?? []).map(committed),
        before,
        findings.bad,
      );
    else if (Number(body['version']) < before)
      findings.add(
        7,
        `the state of ${aggregateId} was at version ${String(body['version'])}, though ${before} was answered before it was asked for`,
      );
  }
}

function checkListed({ listed, sampled = false }: Evidence, { commits }: Truth, findings: Findings): void {
  for (const aggregateId of new Set([...listed.keys(), ...(sampled ? [] : commits.keys())])) {
    const events = listed.get(aggregateId) ?? [];
    const logged = (commits.get(aggregateId) ?? []).flatMap((commit) => commit.events);
    if (events.length !== logged.length)
      findings.add(1, `${aggregateId} has ${logged.length} events in the log, ${events.length} are listed`);
    events.forEach((event, i) => {
      const truth = logged[i];
      if (event.version !== i + 1)
        findings.add(1, `${aggregateId}: the listing has version ${event.version} where ${i + 1} is due`);
      if (
        truth !== undefined &&
        (event.eventId !== truth.eventId ||
          event.data.id !== truth.mark ||
          event.data.lane !== truth.lane ||
          event.eventType !== truth.eventType)
      )
        findings.add(
          2,
          `version ${i + 1} of ${aggregateId} is listed as ${event.data.id} (${event.eventId}), the log has ${truth.mark} (${truth.eventId})`,
        );
    });
  }
}

function checkStates(
  { history, states, boundSince }: Evidence,
  answers: readonly Answered[],
  { chains, commits }: Truth,
  findings: Findings,
): void {
  const typeOf = (aggregateId: string): string => commits.get(aggregateId)?.[0]?.aggregateType ?? '';
  const compare = (aggregateId: string, version: number, state: Chain, where: string): void => {
    const expected = version === 0 ? null : chains.get(aggregateId)?.[version - 1];
    if (expected === undefined || !sameChain(expected, state))
      findings.add(
        10,
        `${where} of ${aggregateId} at version ${version} is ${JSON.stringify(state)}, not ${JSON.stringify(expected)}`,
      );
  };
  for (const { request, status, endVersion, body, invokedAt } of answers) {
    if (status !== 201) continue;
    const since = boundSince.get(typeOf(request.aggregateId));
    if (body['state'] !== undefined)
      compare(request.aggregateId, endVersion, body['state'] as Chain, 'the state in the answer');
    else if (since !== undefined && since < invokedAt && body['stateStatus'] === undefined)
      findings.add(10, `an append to ${request.aggregateId} was answered without state, and without a reason`);
  }
  for (const { request, outcome } of history)
    if (request.kind === 'state' && outcome.kind === 'answered' && outcome.status === 200)
      compare(
        request.aggregateId,
        Number(outcome.body['version']),
        outcome.body['state'] as Chain,
        'a state that was read',
      );
  for (const [aggregateId, all] of chains) {
    if (!boundSince.has(typeOf(aggregateId))) continue;
    const last = states.get(aggregateId);
    if (last?.version !== all.length)
      findings.add(
        10,
        `the last state of ${aggregateId} is at version ${last?.version}, its events end at ${all.length}`,
      );
    else compare(aggregateId, last.version, last.state, 'the last state');
  }
}

/** Folds the projection as the design says: what was there at its swap as one notification a key, then one for each change. */
function expectedOf(
  { projectionId, model }: FollowedProjection,
  log: LogContent,
): { built: Map<string, Chain>; live: Notification[]; states: Map<string, Chain> } | undefined {
  const swap = log.swaps.find((one) => one.projectionId === projectionId);
  if (swap === undefined) return undefined;
  const states = new Map<string, Chain>();
  const live: Notification[] = [];
  let built: Map<string, Chain> | undefined;
  for (const { offset, aggregateId, aggregateType, baseVersion, events, timestamp } of log.commits) {
    if (offset > swap.offset) built ??= new Map(states);
    events.forEach((event, i) => {
      const key = model.keyOf(event);
      if (key === undefined) return;
      const before = states.get(key) ?? null;
      const state = model.clears && event.eventType === CLEARED ? null : chainAfter(before, event.mark);
      states.set(key, state);
      if (built !== undefined && !sameChain(before, state))
        live.push({
          sequence: 0,
          projectionId,
          className: '',
          key,
          aggregateId,
          aggregateType,
          eventId: event.eventId,
          version: baseVersion + i + 1,
          state,
          timestamp: new Date(timestamp).toISOString(),
        });
    });
  }
  return { built: built ?? new Map(states), live, states };
}

const effect = ({
  key,
  aggregateId,
  eventId,
  version,
  state,
}: Pick<Notification, 'key' | 'aggregateId' | 'eventId' | 'version' | 'state'>): string =>
  JSON.stringify([key, aggregateId, eventId, version, state?.count, state?.hash, state?.last]);

function checkProjection(projection: FollowedProjection, log: LogContent, findings: Findings): void {
  const { projectionId, states, polled, followers, deliveries } = projection;
  const expected = expectedOf(projection, log);
  if (expected === undefined) return findings.add(11, `projection ${projectionId} was never swapped in`);
  for (const key of new Set([...states.keys(), ...expected.states.keys()])) {
    const [state, truth] = [states.get(key) ?? null, expected.states.get(key) ?? null];
    if (!sameChain(state, truth))
      findings.add(
        11,
        `the state of ${projectionId} at ${key} is ${JSON.stringify(state)}, not ${JSON.stringify(truth)}`,
      );
  }
  // What is polled is what the log accepted.
  const logged = log.changes.filter((change) => change.projectionId === projectionId);
  const shorter = Math.max(logged.length, polled.length);
  for (let i = 0; i < shorter; i++) {
    const [a, b] = [logged[i], polled[i]];
    if (a === undefined || b === undefined || a.sequence !== b.sequence || effect(a) !== effect(b)) {
      findings.add(
        12,
        `change ${i + 1} of ${projectionId} was polled as ${b?.sequence} (${b?.key}), the log has ${a?.sequence} (${a?.key})`,
      );
      break;
    }
  }
  const builds = polled.filter(({ cause }) => cause !== undefined);
  const seen = new Set<string>();
  for (const { key, state, sequence } of builds) {
    if (seen.has(key)) findings.add(12, `the build of ${projectionId} notified ${key} twice, again with ${sequence}`);
    seen.add(key);
    if (!sameChain(state, expected.built.get(key) ?? null))
      findings.add(
        11,
        `the build of ${projectionId} notified ${key} as ${JSON.stringify(state)}, not ${JSON.stringify(expected.built.get(key))}`,
      );
  }
  for (const [key, state] of expected.built)
    if (state !== null && !seen.has(key)) findings.add(12, `the build of ${projectionId} never notified ${key}`);
  const live = polled.filter(({ cause }) => cause === undefined);
  for (let i = 0; i < Math.max(live.length, expected.live.length); i++) {
    const [a, b] = [live[i], expected.live[i]];
    if (a !== undefined && b !== undefined && effect(a) === effect(b)) continue;
    findings.add(
      11,
      `effect ${i + 1} of ${projectionId} is ${a === undefined ? 'missing' : effect(a)}, due is ${b === undefined ? 'none' : effect(b)}`,
    );
    break;
  }
  polled.forEach(({ sequence }, i) => {
    if (sequence <= (polled[i - 1]?.sequence ?? 0))
      findings.add(12, `sequence ${sequence} of ${projectionId} follows ${polled[i - 1]?.sequence}`);
  });
  const texts = new Map(polled.map((record) => [record.sequence, JSON.stringify(record)]));
  for (const records of followers) checkFollower(projectionId, records, polled, texts, findings);
  if (deliveries !== undefined) checkDeliveries(projectionId, deliveries, polled, texts, findings);
}

function checkFollower(
  projectionId: string,
  records: readonly Notification[],
  polled: readonly Notification[],
  texts: ReadonlyMap<number, string>,
  findings: Findings,
): void {
  const sequences = records.map(({ sequence }) => sequence);
  for (const record of records)
    if (texts.get(record.sequence) !== JSON.stringify(record))
      findings.add(
        12,
        `sequence ${record.sequence} of ${projectionId} was pushed as ${JSON.stringify(record)}, and polled as ${texts.get(record.sequence)}`,
      );
  const at = polled.findIndex(({ sequence }, i) => sequence !== sequences[i]);
  if (at >= 0)
    findings.add(13, `a follower of ${projectionId} got ${sequences[at]} where ${polled[at]?.sequence} was due`);
  else if (sequences.length > polled.length)
    findings.add(13, `a follower of ${projectionId} got ${sequences.length} records of ${polled.length}`);
}

function checkDeliveries(
  projectionId: string,
  deliveries: readonly Delivery[],
  polled: readonly Notification[],
  texts: ReadonlyMap<number, string>,
  findings: Findings,
): void {
  const ids = new Map<number, string>();
  const last = new Map<string, number>();
  for (const { id, signed, notification } of deliveries) {
    const { sequence, key } = notification;
    if (!signed) findings.add(12, `the webhook of sequence ${sequence} has no valid signature`);
    if (texts.get(sequence) !== JSON.stringify(notification))
      findings.add(
        12,
        `sequence ${sequence} of ${projectionId} was delivered as ${JSON.stringify(notification)}, and polled as ${texts.get(sequence)}`,
      );
    if (ids.has(sequence) && ids.get(sequence) !== id)
      findings.add(12, `the webhook of sequence ${sequence} came as ${ids.get(sequence)} and as ${id}`);
    if (!ids.has(sequence) && sequence < (last.get(key) ?? 0))
      findings.add(12, `the webhook of sequence ${sequence} came after ${last.get(key)} of the same key`);
    last.set(key, Math.max(sequence, last.get(key) ?? 0));
    ids.set(sequence, id);
  }
  for (const { sequence } of polled)
    if (!ids.has(sequence))
      findings.add(12, `sequence ${sequence} of ${projectionId} was never delivered as a webhook`);
}

/** The read store has every row once, and nothing else. */
function checkRows(
  rows: Rows,
  { projections, boundSince }: Evidence,
  { places, chains, commits }: Truth,
  findings: Findings,
): void {
  const compare = (table: string, found: readonly string[], due: readonly string[]): void => {
    const [a, b] = [new Set(found), new Set(due)];
    for (const row of b) if (!a.has(row)) findings.add(9, `the read store's ${table} lack ${row}`);
    for (const row of a) if (!b.has(row)) findings.add(9, `the read store's ${table} have ${row}, the log doesn't`);
    if (found.length !== a.size) findings.add(9, `the read store's ${table} have ${found.length - a.size} rows twice`);
  };
  const chain = (state: Chain): string => JSON.stringify(state === null ? null : [state.count, state.hash, state.last]);
  compare(
    'events',
    rows.events.map((row) => `${row.aggregate_id} ${row.version} ${row.event_id} ${row.mark}`),
    [...places].map(([mark, { commit, version, eventId }]) => `${commit.aggregateId} ${version} ${eventId} ${mark}`),
  );
  const bound = [...chains].filter(([aggregateId]) =>
    boundSince.has(commits.get(aggregateId)?.[0]?.aggregateType ?? ''),
  );
  compare(
    'aggregate_states',
    rows.aggregateStates.map((row) => `${row.aggregate_id} ${row.version} ${chain(row.state)}`),
    bound.map(([aggregateId, all]) => `${aggregateId} ${all.length} ${chain(all.at(-1) ?? null)}`),
  );
  const polled = projections.flatMap((projection) => projection.polled);
  compare(
    'notifications',
    rows.notifications.map(
      (row) => `${row.projection_id} ${row.sequence} ${row.key} ${row.event_id} ${chain(row.state)}`,
    ),
    polled.map((row) => `${row.projectionId} ${row.sequence} ${row.key} ${row.eventId} ${chain(row.state)}`),
  );
  const latest = new Map(polled.map((row) => [`${row.projectionId} ${row.key}`, chain(row.state)]));
  compare(
    'projection_states',
    rows.projectionStates.map((row) => `${row.projection_id} ${row.key} ${chain(row.state)}`),
    [...latest].map(([name, state]) => `${name} ${state}`),
  );
}
