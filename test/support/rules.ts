// What holds of any run, stated once: the checkers of the simulator and of real services ask it of what each of them knows.
import {
  headAfter,
  headAfterPart,
  judgeCommit,
  judgeErase,
  judgeTransaction,
  type Head,
} from '../../src/core/append-rules.js';
import type { ExpectedVersion } from '../../src/core/event.js';
import type { ChangesBody, ChangeValue, CommitValue, EventsBody } from '../../src/core/records.js';

/** The number is that of the invariant which the problem breaks. */
export type Bad = (invariant: number, problem: string) => unknown;

/** Which bodies of a tenant's events count, for a reader that knows nothing but the log. */
export class EventsJudge {
  readonly #heads = new Map<string, Head>();
  readonly #erased = new Set<string>();

  judge(body: EventsBody): boolean {
    if (body.kind === 'Erase') return judgeErase(this.#erased.has(body.value.aggregateId));
    if (aggregatesIn(body).some((id) => this.#erased.has(id)) && !isControl(body)) return false;
    if (body.kind === 'Transaction') return judgeTransaction((aggregateId) => this.#heads.get(aggregateId), body.value);
    return body.kind !== 'Commit' || judgeCommit(this.#heads.get(body.value.aggregateId), body.value);
  }

  accept(body: EventsBody): void {
    if (body.kind === 'Erase') {
      this.#erased.add(body.value.aggregateId);
      this.#heads.delete(body.value.aggregateId);
    }
    if (body.kind === 'Commit') this.#heads.set(body.value.aggregateId, headAfter(body.value));
    if (body.kind === 'Transaction')
      for (const part of body.value.parts) this.#heads.set(part.aggregateId, headAfterPart(part, body.value));
  }
}

const aggregatesIn = (body: EventsBody): readonly string[] =>
  body.kind === 'Transaction'
    ? body.value.parts.map(({ aggregateId }) => aggregateId)
    : 'aggregateId' in body.value
      ? [body.value.aggregateId]
      : [];
const isControl = ({ kind }: EventsBody): boolean => kind !== 'Commit' && kind !== 'Transaction';

/** What a body of a tenant's events adds, an aggregate each: of a transaction several, as if each were a commit of its own. */
export function commitsOfBody(body: EventsBody): readonly CommitValue[] {
  if (body.kind === 'Commit') return [body.value];
  if (body.kind !== 'Transaction') return [];
  const { parts, ...rest } = body.value;
  return parts.map((part) => ({ ...rest, ...part }));
}

/** Which bodies of a tenant's changes count: those of inputs past their projection's last one. */
export class ChangesJudge {
  readonly #last = new Map<string, ChangeValue>();

  judge({ value }: ChangesBody): boolean {
    const last = this.#last.get(value.projectionId);
    if (last === undefined || value.inputOffset > last.inputOffset) return true;
    return value.inputOffset === last.inputOffset && value.inputIndex > last.inputIndex;
  }

  accept({ value }: ChangesBody): void {
    this.#last.set(value.projectionId, value);
  }
}

/** A commit as the log has it. */
export interface Committed {
  readonly offset: number;
  readonly baseVersion: number;
  readonly timestamp: number;
  readonly eventIds: readonly string[];
}

/** Versions of an aggregate are 1 to N without a gap, and its time does not go back. */
export function checkVersions(aggregateId: string, commits: readonly Committed[], bad: Bad): void {
  let version = 0;
  let timestamp = 0;
  for (const commit of commits) {
    if (commit.baseVersion !== version)
      bad(1, `${aggregateId} goes from version ${version} to ${commit.baseVersion} at offset ${commit.offset}`);
    if (commit.timestamp < timestamp) bad(1, `${aggregateId} goes back in time at offset ${commit.offset}`);
    version += commit.eventIds.length;
    timestamp = commit.timestamp;
  }
}

/** A listing from the first event on is what the log has at first, in whole commits, with all that was acknowledged before it was asked for. */
export function checkListing(
  aggregateId: string,
  listed: readonly { readonly eventId: string; readonly version: number }[],
  commits: readonly Committed[],
  acknowledged: number,
  bad: Bad,
): void {
  if (listed.length < acknowledged)
    bad(7, `${listed.length} events of ${aggregateId} were listed, though version ${acknowledged} was answered before`);
  const logged = commits.flatMap(({ eventIds }) => eventIds);
  listed.forEach(({ eventId, version }, i) => {
    if (eventId !== logged[i] || version !== i + 1)
      bad(
        9,
        `${eventId} of ${aggregateId} was listed as version ${version}, the log has ${logged[i] ?? 'nothing'} there`,
      );
  });
  const whole = commits.some(({ baseVersion, eventIds }) => baseVersion + eventIds.length === listed.length);
  if (listed.length > 0 && !whole)
    bad(5, `a listing of ${aggregateId} ends within a batch, at version ${listed.length}`);
}

/** An aggregate at this version is as an append expected it. */
export const meets = (expected: ExpectedVersion, version: number): boolean =>
  expected === 'any' ||
  (expected === 'none' ? version === 0 : expected === 'exists' ? version > 0 : expected === version);

/** An append that was answered with 201. `at`: when it was answered, on any clock. */
export interface Acknowledged {
  readonly aggregateId: string;
  readonly endVersion: number;
  readonly at: number;
}

/** The highest version of an aggregate that was acknowledged before a moment. */
export function acknowledgedBefore(answers: readonly Acknowledged[]): (aggregateId: string, at: number) => number {
  const steps = new Map<string, { at: number; version: number }[]>();
  for (const { aggregateId, endVersion, at } of [...answers].sort((a, b) => a.at - b.at)) {
    const of = steps.get(aggregateId) ?? [];
    of.push({ at, version: Math.max(endVersion, of.at(-1)?.version ?? 0) });
    steps.set(aggregateId, of);
  }
  return (aggregateId, at) => {
    const of = steps.get(aggregateId) ?? [];
    let low = 0;
    for (let high = of.length; low < high;) {
      const middle = (low + high) >>> 1;
      if ((of[middle]?.at ?? 0) < at) low = middle + 1;
      else high = middle;
    }
    return of[low - 1]?.version ?? 0;
  };
}

/** Of appends to one aggregate that did not overlap, the later one has the higher version. */
export function checkOrder(
  appends: readonly {
    readonly name: string;
    readonly aggregateId: string;
    readonly startVersion: number;
    readonly sent: number;
  }[],
  acknowledged: (aggregateId: string, at: number) => number,
  bad: Bad,
): void {
  for (const { name, aggregateId, startVersion, sent } of appends) {
    const before = acknowledged(aggregateId, sent);
    if (startVersion <= before)
      bad(
        7,
        `${name} became version ${startVersion} of ${aggregateId}, though ${before} was answered before it was sent`,
      );
  }
}
