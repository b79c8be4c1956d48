// A tenant's task on any log, without the rest of the service: opened on first use, closed and opened again when it stops, as
// the service does it, and served to the load of the fault tests over HTTP.
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { taskOptions } from '../../src/app/open-tasks.js';
import type { CodeHost } from '../../src/code-host/code-host.js';
import { InvariantError, StatefoldError } from '../../src/core/errors.js';
import type { Logger } from '../../src/core/logger.js';
import { parseAppendBody } from '../../src/http/append-body.js';
import { knownError, problemOf } from '../../src/http/problem.js';
import type { Log } from '../../src/log/log.js';
import type { LocalStore } from '../../src/store/local-store.js';
import { TenantTask } from '../../src/tenancy/tenant-task.js';
import type { Served } from './load-world.js';
import { codecs, NO_CODE, openRunners, openStore, testGround, type TestGround } from './ground.js';
import { temporaryDirectory } from './service.js';

/** After this long a request is answered 503, whatever became of it, milliseconds. */
const DEADLINE_MS = 3_000;
const LIMITS = { maxDepth: 64, maxEvents: 1000 };
export interface TaskWorldOptions {
  readonly log: Log;
  readonly tenantId: string;
  readonly logger?: Logger;
}

export class TaskWorld implements Served {
  url = '';
  readonly #options: TaskWorldOptions;
  readonly #ground: TestGround;
  readonly #store: LocalStore;
  readonly #codeHost: CodeHost;
  readonly #server: Server;
  #task: Promise<TenantTask> | undefined;
  #closing: Promise<void> | undefined;
  #ended = false;
  #opened = 0;
  #voided = 0;
  #stops: Error[] = [];

  private constructor(options: TaskWorldOptions, directory: string) {
    this.#options = options;
    this.#ground = testGround({
      directory,
      ...(options.logger && { logger: options.logger }),
      metrics: { tasks: { voided: () => this.#voided++ }, snapshots: {} },
    });
    this.#ground.shutdown.add('log', () => options.log.close());
    this.#store = openStore(this.#ground);
    this.#codeHost = openRunners(this.#ground);
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async start(t: Pick<TestContext, 'after'>, options: TaskWorldOptions): Promise<TaskWorld> {
    const world = new TaskWorld(options, temporaryDirectory(t));
    world.#server.listen(0, '127.0.0.1');
    await once(world.#server, 'listening');
    world.url = `http://127.0.0.1:${(world.#server.address() as AddressInfo).port}`;
    t.after(() => world.close());
    return world;
  }

  up(): Promise<{ readonly url: string }> {
    return Promise.resolve(this);
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** How often a task was opened: once, and after each one that stopped. */
  get opened(): number {
    return this.#opened;
  }

  /** Records that this process found to be void. */
  get voided(): number {
    return this.#voided;
  }

  /** Why tasks have stopped. */
  get stops(): readonly Error[] {
    return this.#stops;
  }

  /** The task that runs, or a new one. */
  task(): Promise<TenantTask> {
    this.#task ??= this.#open().catch((error: unknown) => {
      this.#task = undefined;
      throw error;
    });
    return this.#task;
  }

  async close(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    this.#server.close();
    this.#server.closeAllConnections();
    await (await this.#task?.catch(() => undefined))?.close();
    await this.#closing;
    await this.#ground.close();
  }

  async #open(): Promise<TenantTask> {
    if (this.#ended) throw new StatefoldError('UNAVAILABLE', 'the test is over');
    await this.#closing;
    const { log, tenantId } = this.#options;
    const ground = { ...this.#ground, owner: `${this.#ground.owner}.${++this.#opened}` };
    const task = new TenantTask({
      ...taskOptions(ground, { log, codecs, store: this.#store }, this.#codeHost, tenantId, NO_CODE),
      onStopped: (error) => {
        this.#stops.push(error);
        this.#task = undefined;
        this.#closing = task.close();
      },
    });
    try {
      await task.open();
    } catch (error) {
      // As the service answers it.
      await task.close();
      if (error instanceof StatefoldError) throw error;
      if (error instanceof InvariantError) this.#stops.push(error);
      throw new StatefoldError('UNAVAILABLE', 'the tenant could not be restored; send the request again', {
        cause: error,
      });
    }
    return task;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const answer = await within(DEADLINE_MS, this.#answer(request));
      const body = JSON.stringify(answer.body);
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(body);
    } catch (error) {
      const problem = problemOf(knownError(error), 'test');
      response.writeHead(problem.status, problem.headers).end(problem.body);
    }
  }

  async #answer(request: IncomingMessage): Promise<{ status: number; body: object }> {
    const url = new URL(request.url ?? '/', this.url);
    if (request.method === 'POST') return this.#append(request, url.pathname === '/events/batch');
    const [, folder, aggregateId = ''] = url.pathname.split('/');
    if (folder !== 'events') throw new StatefoldError('NO_REDUCER_BOUND', 'this tenant has no code');
    const { events } = await (
      await this.task()
    ).first.events({
      aggregateId,
      fromVersion: undefined,
      toVersion: undefined,
      limit: 10_000,
      direction: 'forward',
    });
    return {
      status: 200,
      body: {
        events: events.map(({ data, timestamp, metadata: _, ...event }) => ({
          ...event,
          timestamp: new Date(timestamp).toISOString(),
          data: JSON.parse(data.toString()) as object,
        })),
      },
    };
  }

  async #append(request: IncomingMessage, batch: boolean): Promise<{ status: number; body: object }> {
    const body = await buffer(request);
    const key = request.headers['idempotency-key'] as string | undefined;
    const command = {
      ...parseAppendBody(body, batch, LIMITS),
      commandId: key ?? randomUUID(),
      keyed: key !== undefined,
      requestHash: key === undefined ? Buffer.alloc(0) : createHash('sha256').update(body).digest(),
    };
    const { eventIds, startVersion, endVersion, ...result } = await (await this.task()).first.append(command);
    return {
      status: 201,
      body: batch
        ? { ...result, startVersion, endVersion, eventIds }
        : { ...result, version: endVersion, eventId: eventIds[0] },
    };
  }
}

/** Rejects with UNAVAILABLE when the answer takes longer. */
async function within<T>(milliseconds: number, answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () =>
        reject(new StatefoldError('UNAVAILABLE', 'the log did not answer in time; the request may have been stored')),
      milliseconds,
    );
  });
  return Promise.race([answer, late]).finally(() => clearTimeout(timer));
}
