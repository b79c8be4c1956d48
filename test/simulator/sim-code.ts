import type {
  CodeHost,
  FoldItem,
  FoldOutcome,
  HostEvent,
  ProjectChange,
  ProjectRequest,
  Runner,
  State,
} from '../../src/code-host/code-host.js';
import type { Fault } from '../../src/core/event.js';
import type { Scheduler, SimProcess } from './scheduler.js';

/** What an event of the simulation says. */
export interface Payload {
  /** Command and number within it. */
  readonly c: number;
  readonly i: number;
  /** State keys that it touches. */
  readonly k: readonly string[];
  /** Projections throw on it. */
  readonly bad: boolean;
  /** The reducer throws on it. */
  readonly bitter: boolean;
}
export const payloadOf = (data: Buffer): Payload => JSON.parse(data.toString()) as Payload;

/** The reducer, where it does not throw: a list of all that came, in order. */
export function reduce(state: State, payload: Payload): Buffer {
  const before = state === null ? [] : (JSON.parse(state.toString()) as string[]);
  return Buffer.from(JSON.stringify([...before, `${payload.c}.${payload.i}`]));
}

/** A projection of the n-th upload: the events of a key in order; of the second, the even commands alone. Undefined: it throws. */
export function project(upload: number, state: State, payload: Payload): State | undefined {
  if (payload.bad) return undefined;
  if (upload === 2 && payload.c % 2 === 1) return state;
  return reduce(state, payload);
}

export function faultOf(event: HostEvent, className: string, stopped: boolean): Fault {
  const { eventId, aggregateId, version } = event;
  const fault = {
    eventId,
    aggregateId,
    version,
    className,
    message: 'the event is bad',
    file: null,
    line: null,
    at: '2026-01-01T00:00:00.000Z',
  };
  return stopped ? { ...fault, message: 'the process was stopped', stopped } : fault;
}

/** The number of an upload: a revision may have the code of an earlier one. */
export const uploadOf = (artefactId: string): number => Number(artefactId.split('-')[1]);

/** A tenant's code in a process of its own: it may crash, which forgets its states, and answers when the seed lets it. */
export class SimRunner implements Runner {
  readonly #scheduler: Scheduler;
  readonly #owner: SimProcess;
  readonly #crashes: () => boolean;
  readonly #stops: () => boolean;
  readonly #loaded = new Set<string>();
  readonly #states = new Map<string, { state: State; fault: boolean }>();
  #calls: { readonly serve: () => void; readonly reject: (error: Error) => void }[] = [];

  /** `crashes`: of a call; `stops`: of an event that is run, which may do well the next time. */
  constructor(scheduler: Scheduler, owner: SimProcess, crashes: () => boolean, stops: () => boolean) {
    this.#scheduler = scheduler;
    this.#owner = owner;
    this.#crashes = crashes;
    this.#stops = stops;
  }

  load(artefactId: string): void {
    this.#loaded.add(artefactId);
  }
  has(artefactId: string): boolean {
    return this.#loaded.has(artefactId);
  }
  unload(artefactId: string): void {
    this.#loaded.delete(artefactId);
  }
  forget(unitId?: string): void {
    for (const name of [...this.#states.keys()])
      if (unitId === undefined || name.startsWith(`${unitId}/`)) this.#states.delete(name);
  }

  fold(items: readonly FoldItem[]): Promise<FoldOutcome[]> {
    return this.#call('fold', () => items.map((item) => this.#fold(item)));
  }

  project(request: ProjectRequest): Promise<ProjectChange[]> {
    return this.#call(`project ${request.events.length} events`, () => this.#project(request));
  }

  /** Calls are served in order; between serving and answering anything may happen. */
  #call<T>(label: string, serve: () => T): Promise<T> {
    const scheduler = this.#scheduler;
    const owner = this.#owner;
    return new Promise((resolve, reject) => {
      this.#calls.push({
        reject,
        serve: () => {
          const answer = serve();
          scheduler.add({ owner, label: `${label}: answered`, weight: 2, run: () => resolve(answer) });
        },
      });
      scheduler.add({
        owner,
        label,
        weight: 2,
        run: () => {
          const call = this.#calls.shift();
          if (call === undefined) return;
          if (!this.#crashes()) return call.serve();
          this.#states.clear();
          for (const one of [call, ...this.#calls.splice(0)]) one.reject(new Error('the runner crashed'));
        },
      });
    });
  }

  #fold({ baseState, baseVersion, events, stateAt }: FoldItem): FoldOutcome {
    let state = baseState();
    let version = baseVersion;
    const states: { version: number; state: State }[] = [];
    for (const event of events) {
      if (event.version <= version) throw new Error(`the reducer was given version ${event.version} after ${version}`);
      const payload = payloadOf(event.data);
      const stopped = this.#stops();
      if (payload.bitter || stopped) {
        if (states.at(-1)?.version !== version) states.push({ version, state });
        return { states, fault: faultOf(event, 'R', stopped) };
      }
      state = reduce(state, payload);
      version = event.version;
      if (stateAt.includes(version) || event === events.at(-1)) states.push({ version, state });
    }
    return { states };
  }

  #project({ units, events, stateOf, reply }: ProjectRequest): ProjectChange[] {
    const changes: ProjectChange[] = [];
    events.forEach((event, e) => {
      const payload = payloadOf(event.data);
      units.forEach((unit, u) => {
        for (const key of payload.k) {
          const name = `${unit.id}/${unit.className}/${key}`;
          let known = this.#states.get(name);
          if (known === undefined) {
            const asked = stateOf(u, key);
            this.#states.set(name, (known = { state: asked.state, fault: asked.faulted }));
          }
          if (known.fault) {
            changes.push({ event: e, unit: u, key, outcome: 'parked', state: known.state });
            continue;
          }
          // What a build stops on it tells at its swap, and only where that differs: the log alone would not say it.
          const stopped = reply === 'each' && this.#stops();
          const next = stopped ? undefined : project(uploadOf(unit.artefactId), known.state, payload);
          if (next === undefined) {
            known.fault = true;
            changes.push({
              event: e,
              unit: u,
              key,
              outcome: 'faulted',
              state: known.state,
              fault: faultOf(event, unit.className, stopped),
            });
          } else if (next !== known.state) {
            known.state = next;
            changes.push({ event: e, unit: u, key, outcome: 'changed', state: next });
          }
        }
      });
    });
    return reply === 'each' ? changes : lastOf(changes);
  }
}

/** Of each unit and key the last change; one that faulted stays a fault. */
function lastOf(changes: readonly ProjectChange[]): ProjectChange[] {
  const last = new Map<string, ProjectChange>();
  for (const change of changes) if (change.outcome !== 'parked') last.set(`${change.unit}/${change.key}`, change);
  return [...last.values()];
}

export function simCodeHost(runner: SimRunner): CodeHost {
  return {
    compile: () => Promise.reject(new Error('nothing is compiled here')),
    runner: () => runner,
    dispose: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}
