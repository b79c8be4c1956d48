import { isDeepStrictEqual } from 'node:util';
import type { CodeHost, HostEvent, ProjectChange, Runner, State } from '../../code-host/code-host.js';
import type { Fault } from '../../core/event.js';
import { inferAggregateType } from '../../core/names.js';
import type { CompiledProject } from './compile.js';
import type { Fixture, FixtureEvent } from './fixtures.js';
import { exactText, parseExactly } from './json-text.js';

/** What a case came to. */
export type CaseOutcome =
  | { readonly status: 'passed'; readonly milliseconds: number }
  | { readonly status: 'failed'; readonly milliseconds: number; readonly failures: readonly Failure[] };

export type Failure =
  | { readonly kind: 'state'; readonly key: string; readonly expected: unknown; readonly actual: unknown }
  /** The code stopped where it should not have, or elsewhere, or did not where it should. */
  | {
      readonly kind: 'fault';
      readonly key: string;
      readonly expected: string | undefined;
      readonly fault: Fault | undefined;
      readonly given: boolean;
    }
  /** The case itself can't be run. */
  | { readonly kind: 'case'; readonly message: string };

interface Target {
  readonly kind: 'reducer' | 'projection';
  readonly className: string;
  readonly aggregateType: string | undefined;
}

/** What the code made of the events: states by aggregate or key, the keys that `when` changed, and where it stopped. */
interface Folded {
  readonly states: ReadonlyMap<string, unknown>;
  readonly changed: ReadonlySet<string>;
  readonly faults: ReadonlyMap<string, { readonly fault: Fault; readonly given: boolean }>;
}

/** Fixtures without a time of their own are a second apart from here on. */
const FIRST_TIME = Date.UTC(2026, 0, 1);
const TENANT = 'fixtures';

/** Runs cases in the runner of the service: the same process, the same frames, the same round trips of states through JSON. */
export class FixtureRunner {
  readonly #project: CompiledProject;
  readonly #runner: Runner;
  #units = 0;

  constructor(host: CodeHost, project: CompiledProject) {
    this.#project = project;
    this.#runner = host.runner(TENANT);
    if (project.reducer !== undefined) this.#runner.load('reducer', project.reducer.assembly);
    if (project.projection !== undefined) this.#runner.load('projection', project.projection.assembly);
  }

  async run(fixture: Fixture): Promise<CaseOutcome> {
    const target = this.#targetOf(fixture);
    if (typeof target === 'string')
      return { status: 'failed', milliseconds: 0, failures: [{ kind: 'case', message: target }] };
    const events = eventsOf(fixture, target.aggregateType);
    const started = performance.now();
    const folded =
      target.kind === 'reducer'
        ? await this.#foldAggregates(target.className, fixture, events)
        : await this.#foldKeys(target.className, fixture, events);
    const milliseconds = performance.now() - started;
    const failures = [...judge(fixture, folded)];
    return failures.length === 0 ? { status: 'passed', milliseconds } : { status: 'failed', milliseconds, failures };
  }

  #targetOf({ unit, when, given }: Fixture): Target | string {
    const all: Target[] = (['reducer', 'projection'] as const).flatMap((kind) =>
      (this.#project[kind]?.discovered ?? []).map(({ className, aggregateType }) => ({
        kind,
        className,
        aggregateType,
      })),
    );
    const names = (list: readonly Target[]): string =>
      list.map(({ kind, className }) => `${kind} ${className}`).join(', ');
    if (unit !== undefined) {
      const found = all.filter(
        ({ kind, className }) => kind === unit.kind && (className === unit.name || className.endsWith(`.${unit.name}`)),
      );
      const [only] = found;
      if (only !== undefined && found.length === 1) return only;
      return found.length === 0
        ? `there is no ${unit.kind} '${unit.name}'; the project has ${names(all)}`
        : `'${unit.name}' is ${names(found)}: give the namespace too`;
    }
    const types = new Set(
      [...given, ...when].map(
        (event) =>
          event.aggregateType ?? (event.aggregateId === undefined ? undefined : inferAggregateType(event.aggregateId)),
      ),
    );
    const [type] = types;
    const matching =
      types.size === 1 && type !== undefined ? all.filter(({ aggregateType }) => aggregateType === type) : [];
    const candidates = all.length === 1 ? all : matching;
    const [only] = candidates;
    return only !== undefined && candidates.length === 1
      ? only
      : `say with "reducer" or "projection" what it is for; the project has ${names(all)}`;
  }

  async #foldAggregates(className: string, { given }: Fixture, events: readonly HostEvent[]): Promise<Folded> {
    const [states, changed, faults] = [
      new Map<string, unknown>(),
      new Set<string>(),
      new Map<string, { fault: Fault; given: boolean }>(),
    ];
    const ids = [...new Set(events.map(({ aggregateId }) => aggregateId))];
    const givenOf = new Set(events.slice(0, given.length));
    const items = ids.map((aggregateId) => {
      const own = events.filter((event) => event.aggregateId === aggregateId);
      return {
        unit: { artefactId: 'reducer', className },
        aggregateId,
        baseVersion: 0,
        baseState: () => null,
        events: own,
        stateAt: [],
      };
    });
    // Cases are apart: none finds what another left in the runner.
    this.#runner.forget();
    const outcomes = await this.#runner.fold(items);
    for (const [index, outcome] of outcomes.entries()) {
      const item = items[index];
      if (item === undefined) continue;
      states.set(item.aggregateId, parsed(outcome.states.at(-1)?.state ?? null));
      if (item.events.some((event) => !givenOf.has(event))) changed.add(item.aggregateId);
      const { fault } = outcome;
      if (fault !== undefined)
        faults.set(item.aggregateId, {
          fault,
          given: item.events.some((event) => event.version === fault.version && givenOf.has(event)),
        });
    }
    return { states, changed, faults };
  }

  async #foldKeys(className: string, { given }: Fixture, events: readonly HostEvent[]): Promise<Folded> {
    const [states, changed, faults] = [
      new Map<string, unknown>(),
      new Set<string>(),
      new Map<string, { fault: Fault; given: boolean }>(),
    ];
    const unit = { artefactId: 'projection', className, id: `fixture-${++this.#units}` };
    const changes: ProjectChange[] = await this.#runner.project({
      units: [unit],
      events,
      stateOf: () => ({ state: null, faulted: false }),
      reply: 'each',
    });
    for (const { key, state, event, outcome, fault } of changes) {
      states.set(key, parsed(state));
      if (event >= given.length) changed.add(key);
      if (outcome === 'faulted' && fault !== undefined && !faults.has(key))
        faults.set(key, { fault, given: event < given.length });
    }
    this.#runner.forget(unit.id);
    return { states, changed, faults };
  }
}

const parsed = (state: State): unknown => (state === null ? null : parseExactly(state.toString()));

function eventsOf({ given, when }: Fixture, aggregateType: string | undefined): HostEvent[] {
  const versions = new Map<string, number>();
  let time = FIRST_TIME;
  return [...given, ...when].map((event: FixtureEvent) => {
    const aggregateId = event.aggregateId ?? `${aggregateType ?? 'default'}-1`;
    const version = (versions.get(aggregateId) ?? 0) + 1;
    versions.set(aggregateId, version);
    time = event.timestamp === undefined ? time + 1000 : Date.parse(event.timestamp);
    return {
      eventId: `${aggregateId}@${version}`,
      aggregateId,
      aggregateType: event.aggregateType ?? aggregateType ?? inferAggregateType(aggregateId),
      eventType: event.eventType,
      version,
      timestamp: time,
      correlationId: event.correlationId,
      causationId: event.causationId,
      data: Buffer.from(exactText(event.data ?? {})),
      metadata: event.metadata === undefined ? undefined : Buffer.from(exactText(event.metadata)),
    };
  });
}

function* judge({ then }: Fixture, { states, changed, faults }: Folded): Generator<Failure> {
  const expectedFaults = new Map(Object.entries(then.faults ?? {}));
  if (then.fault !== undefined) expectedFaults.set([...faults.keys(), ...changed][0] ?? '', then.fault);
  for (const [key, { fault, given }] of faults) {
    const expected = expectedFaults.get(key);
    if (given || expected === undefined || !fault.message.includes(expected))
      yield { kind: 'fault', key, expected, fault, given };
  }
  for (const [key, expected] of expectedFaults)
    if (!faults.has(key)) yield { kind: 'fault', key, expected, fault: undefined, given: false };

  if (then.state !== undefined) {
    const keys = changed.size > 0 ? [...changed] : [...states.keys()];
    const [key = ''] = keys;
    const actual = states.get(key) ?? null;
    if (keys.length > 1)
      yield {
        kind: 'case',
        message: `then.state is for one state, and there are ${keys.map((one) => `'${one}'`).join(', ')}: give then.states`,
      };
    else if (!isDeepStrictEqual(then.state, actual)) yield { kind: 'state', key, expected: then.state, actual };
    return;
  }
  if (then.states === undefined) return;
  const expectedStates = new Map(Object.entries(then.states));
  for (const key of new Set([...expectedStates.keys(), ...changed])) {
    const [expected, actual] = [expectedStates.get(key), states.get(key)];
    // A key that came to have no state need not be listed.
    if (!isDeepStrictEqual(expected ?? null, actual ?? null)) yield { kind: 'state', key, expected, actual };
  }
}
