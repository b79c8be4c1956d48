// A tenant whose reducer is a stand-in in this process: its state is the list of the versions that it folded, it waits at a gate, and throws where it is told.
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { taskOptions } from '../../src/app/open-tasks.js';
import type { CodeHost, FoldItem, FoldOutcome, Runner } from '../../src/code-host/code-host.js';
import { MemoryBudget } from '../../src/core/budget.js';
import type { AppendCommand } from '../../src/core/event.js';
import { uuidv7 } from '../../src/core/ids.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { LocalStore } from '../../src/store/local-store.js';
import { TenantTask } from '../../src/tenancy/tenant-task.js';
import { bindAll, codecs, NO_CODE, testGround } from './ground.js';
import { temporaryDirectory } from './service.js';

const MIB = 1024 * 1024;

/** A reducer whose state is the list of the versions that it folded. It waits at a gate, and throws at the first event of an aggregate where `throws` says so. */
class VersionsRunner {
  waiting = 0;
  /** Most events of one aggregate that it was asked to fold at once. */
  most = 0;
  /** Of a class name. */
  throws: (className: string) => boolean = () => false;
  #open: (() => void) | undefined;
  #gate = new Promise<void>((resolve) => (this.#open = resolve));

  release(): void {
    this.#open?.();
  }

  shut(): void {
    this.#gate = new Promise((resolve) => (this.#open = resolve));
  }

  async fold(items: readonly FoldItem[]): Promise<FoldOutcome[]> {
    this.waiting++;
    await this.#gate;
    this.waiting--;
    return items.map(({ unit, aggregateId, baseState, baseVersion, events, stateAt }) => {
      this.most = Math.max(this.most, events.length);
      const [first] = events;
      if (first !== undefined && this.throws(unit.className))
        return {
          states: [],
          fault: {
            ...{ eventId: first.eventId, aggregateId, version: first.version, className: unit.className },
            ...{ message: 'it throws', file: null, line: null, at: '2026-01-01T00:00:00.000Z' },
          },
        };
      const before = baseState();
      let versions = before === null ? [] : (JSON.parse(before.toString()) as number[]);
      const states: { version: number; state: Buffer }[] = [];
      for (const { version } of events) {
        versions = [...versions, version];
        if (stateAt.includes(version)) states.push({ version, state: Buffer.from(JSON.stringify(versions)) });
      }
      const last = events.at(-1)?.version ?? baseVersion;
      if (states.at(-1)?.version !== last) states.push({ version: last, state: Buffer.from(JSON.stringify(versions)) });
      return { states };
    });
  }
}

export async function slowTenant(t: TestContext) {
  const directory = temporaryDirectory(t);
  const budget = new MemoryBudget({ processBytes: 64 * MIB, tenantBytes: 16 * MIB });
  const ground = { ...testGround({ directory }), budget };
  const log = new LmdbLog({ path: join(directory, 'log') });
  const store = new LocalStore({ path: join(directory, 'store'), logger: ground.logger, budget });
  const runner = new VersionsRunner();
  const host = {
    runner: () =>
      ({
        load: () => undefined,
        has: () => true,
        unload: () => undefined,
        forget: () => undefined,
        project: () => Promise.resolve([]),
        fold: (items: readonly FoldItem[]) => runner.fold(items),
      }) as unknown as Runner,
  } as unknown as CodeHost;
  const definitions = {
    ...NO_CODE,
    bindAll: bindAll({ aggregateType: 'T', artefactId: 'r', className: 'R', generation: 1 }),
    assembly: () => Promise.resolve(Buffer.alloc(1)),
  };
  const options = taskOptions(ground, { log, codecs, store }, host, 'acme', definitions);
  const task = new TenantTask({ ...options, onStopped: () => undefined });
  t.after(async () => {
    runner.release();
    await task.close();
    await store.close();
    await log.close();
    await ground.close();
  });
  await task.open();
  const append = (aggregateId: string, bytes: number) => {
    const command: AppendCommand = {
      commandId: uuidv7(),
      keyed: false,
      requestHash: Buffer.alloc(0),
      aggregateId,
      aggregateType: 'T',
      expectedVersion: 'any',
      correlationId: undefined,
      causationId: undefined,
      metadata: undefined,
      events: [{ eventType: 'e', data: Buffer.from(JSON.stringify('x'.repeat(bytes))) }],
    };
    return task.first.append(command);
  };
  return { task, runner, budget, append };
}

export const upTo = (version: number): number[] => Array.from({ length: version }, (_, i) => i + 1);
