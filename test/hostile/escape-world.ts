import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { childrenOf, commandLineOf } from '../support/load-world.js';
import { jailOf } from '../../src/jail/launch.js';
import { AS_ADMIN, API_KEY, type Answer, ROOT, type Service, startService, until } from '../support/service.js';
import { join } from 'node:path';

/** Why the jail can't be tried on this machine; undefined: it can. */
export const noJail: string | undefined = (() => {
  const jail = jailOf({
    dotnet: 'dotnet',
    searchPath: process.env['PATH'] ?? '',
    assembliesDir: join(ROOT, 'dist', 'dotnet'),
  });
  return jail.kind === 'refused' ? jail.reason : undefined;
})();

export interface Fault {
  readonly message: string;
  readonly version: number;
}

/** What became of one event of hostile code. */
export interface Outcome<T> {
  readonly state: T | null | undefined;
  readonly fault: Fault | undefined;
}

/** What a probe puts in its state: the name of each attempt, and `did …`, `errno …` or the type of the exception. */
export interface Report {
  readonly attempts: Readonly<Record<string, string>>;
}

export class Tenant {
  readonly #service: Service;
  readonly #key: string;
  #runs = 0;

  constructor(service: Service, key: string) {
    this.#service = service;
    this.#key = key;
  }

  async deploy(source: string): Promise<void> {
    const form = new FormData();
    form.append('file', new Blob([source]), 'Probes.cs');
    const { reducerId } = ok(await this.#request('POST', '/reducers/upload', { raw: form }), 202).json<{
      reducerId: string;
    }>();
    await until(async () => {
      const { status, compilationError } = ok(await this.#request('GET', `/reducers/${reducerId}/status`), 200).json<{
        status: string;
        compilationError?: string;
      }>();
      assert.notEqual(status, 'failed', compilationError);
      return status === 'compiled';
    }, 120_000);
  }

  /** Has the code see one event, of an aggregate of its own. */
  async run<T = Report>(eventType: string, data: object = {}, aggregateType = 'probe'): Promise<Outcome<T>> {
    const aggregateId = `${aggregateType}-${++this.#runs}`;
    await this.append(aggregateId, eventType, data);
    return this.state<T>(aggregateType, aggregateId);
  }

  async state<T>(aggregateType: string, aggregateId: string): Promise<Outcome<T>> {
    let outcome: Outcome<T> | undefined;
    // On a busy machine a read may be answered 503 before the code was through.
    await until(async () => {
      const answer = await this.#request('GET', `/aggregate-types/${aggregateType}/${aggregateId}/state`);
      if (answer.status === 503) return false;
      const { state, fault } = ok(answer, 200).json<{ state: T | null; fault?: Fault }>();
      outcome = { state, fault };
      return true;
    }, 120_000);
    return outcome as Outcome<T>;
  }

  async append(
    aggregateId: string,
    eventType: string,
    data: object = {},
  ): Promise<{ state?: unknown; stateStatus?: string }> {
    return ok(await this.#request('POST', '/events', { body: { aggregateId, eventType, data } }), 201).json();
  }

  #request(method: string, path: string, options: object = {}): Promise<Answer> {
    return this.#service.request(method, path, { ...options, key: this.#key });
  }
}

function ok(answer: Answer, status: number): Answer {
  assert.equal(answer.status, status, answer.text.slice(0, 2000));
  return answer;
}

/** A service with two tenants: one whose code tries to get out, and one that must not notice. */
export interface World {
  readonly service: Service;
  readonly attacker: Tenant;
  readonly neighbour: Tenant;
}

export async function openWorld(
  t: Pick<TestContext, 'after'>,
  env: Readonly<Record<string, string>> = {},
): Promise<World> {
  const service = await startService(t, {
    env: {
      COMPILATIONS_DIR: '',
      DETERMINISM_CHECKS: 'off',
      FOLD_DEADLINE_MS: '60000',
      ANSWER_DEADLINE_MS: '60000',
      ...env,
    },
  });
  const made = await service.request('POST', '/admin/tenants', {
    ...AS_ADMIN,
    body: { tenantId: 'neighbour' },
  });
  return {
    service,
    attacker: new Tenant(service, API_KEY),
    neighbour: new Tenant(service, ok(made, 201).json<{ apiKey: string }>().apiKey),
  };
}

/** The process that runs the tenant's code now. */
export function runnersOf(service: Service): number[] {
  return childrenOf(service.pid).filter((pid) => commandLineOf(pid).includes('Statefold.Runner.dll'));
}

/** Each attempt gave what it should; all that didn't are shown at once. */
export function assertAttempts(outcome: Outcome<Report>, expected: Readonly<Record<string, RegExp>>): void {
  assert.equal(outcome.fault, undefined, outcome.fault?.message);
  const attempts = outcome.state?.attempts ?? {};
  assert.deepEqual(Object.keys(attempts).sort(), Object.keys(expected).sort());
  const wrong = Object.entries(expected).filter(([name, pattern]) => !pattern.test(attempts[name] ?? ''));
  assert.deepEqual(
    wrong.map(([name, pattern]) => `${name}: ${attempts[name]} (not ${pattern})`),
    [],
  );
}

/** The same for many attempts that must all give one thing. */
export function assertAllAttempts(outcome: Outcome<Report>, pattern: RegExp, atLeast: number): void {
  assert.equal(outcome.fault, undefined, outcome.fault?.message);
  const attempts = Object.entries(outcome.state?.attempts ?? {});
  assert.ok(attempts.length >= atLeast, `${attempts.length} attempts`);
  assert.deepEqual(
    attempts.filter(([, result]) => !pattern.test(result)).map((one) => one.join(': ')),
    [],
  );
}
