// A stream whose lines go to several processes: no order in which those answer, or end, holds it up for ever.
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { Dispatcher } from 'undici';
import { MemoryBudget, UNBOUNDED, type TenantBudget } from '../../src/core/budget.js';
import { BulkAnswers } from '../../src/http/bulk/bulk-answers.js';
import { BulkItem } from '../../src/http/bulk/bulk-item.js';
import { BulkLane, type LaneHost } from '../../src/http/bulk/bulk-lane.js';
import { BulkRelay } from '../../src/http/bulk/bulk-relay.js';
import type { BulkLineBody } from '../../src/http/append-body.js';
import { until } from '../support/service.js';

const LINES = 200;
const DEADLINE_MS = 10_000;
const COMMAND_ID = '00000000-0000-7000-8000-000000000000';

/** A process that answers lines in their order, unless it is held up, or nobody reads its answers. */
class Peer implements Dispatcher.DispatchController {
  readonly asked: number[] = [];
  readonly received: number[] = [];
  held = false;
  atOnce = false;
  paused = false;
  aborted = false;
  reason: Error | null = null;
  rawHeaders = null;
  rawTrailers = null;
  readonly #state: string;
  #handler: Dispatcher.DispatchHandler | undefined;

  constructor(stateBytes: number) {
    this.#state = JSON.stringify('x'.repeat(stateBytes));
  }

  open(body: PassThrough, handler: Dispatcher.DispatchHandler): Promise<boolean> {
    this.#handler = handler;
    handler.onRequestStart?.(this, {});
    handler.onResponseStart?.(this, 200, {});
    let rest = '';
    body.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk.toString('utf8')).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        this.asked.push(Number.parseInt(line, 10));
        this.received.push(Number.parseInt(line, 10));
      }
      setImmediate(() => this.answer());
    });
    return Promise.resolve(true);
  }

  /** One a turn, as answers come that are not known at once; or all in one piece. */
  answer(): void {
    if (this.held || this.paused || this.aborted || this.asked.length === 0) return;
    const lines = this.asked.splice(0, this.atOnce ? this.asked.length : 1);
    const answers = lines.map(
      (line) => `{"line":${line},"status":201,"aggregateId":"a \\",\\"state\\":","state":${this.#state}}\n`,
    );
    this.#handler?.onResponseData?.(this, Buffer.from(answers.join('')));
    setImmediate(() => this.answer());
  }

  release(): void {
    this.held = false;
    this.answer();
  }

  die(): void {
    this.aborted = true;
    this.#handler?.onResponseError?.(this, new Error('the process died'));
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
    setImmediate(() => this.answer());
  }

  abort(): void {
    this.aborted = true;
  }
}

class Stream {
  readonly a: Peer;
  readonly b: Peer;
  readonly response = new PassThrough();
  readonly answers: BulkAnswers;
  readonly owner: Record<string, 'a' | 'b'> = { first: 'a', second: 'b' };
  readonly first: BulkLane;
  readonly second: BulkLane;
  readonly #relays = new Map<string, BulkRelay>();
  #read = '';

  constructor(stateBytes: number, budget: TenantBudget = UNBOUNDED.tenant('acme')) {
    this.a = new Peer(stateBytes);
    this.b = new Peer(stateBytes);
    const response = this.response as unknown as ServerResponse;
    this.answers = new BulkAnswers(response, budget, { lines: LINES, stallMs: 60_000 });
    const gateway = {
      ownerOf: (slotKey: string) => ({ id: slotKey, url: this.owner[slotKey] ?? '' }),
      changed: () => new Promise<void>((resolve) => void setImmediate(resolve)),
    };
    const absent = (): never => {
      throw new Error('nothing is served here');
    };
    const host: LaneHost = {
      home: absent,
      answer: absent,
      stored: absent,
      passBack: absent,
      relayTo: (url) => this.#relayTo(url === 'a' ? 'a' : 'b'),
      refuse: ({ number }, error) => assert.fail(`line ${number} was refused: ${String(error)}`),
      together: false,
      passesBack: false,
    };
    this.first = new BulkLane('first', gateway, host);
    this.second = new BulkLane('second', gateway, host);
  }

  #relayTo(url: 'a' | 'b'): BulkRelay {
    const known = this.#relays.get(url);
    if (known?.retired === false) return known;
    const relay = new BulkRelay({
      answers: this.answers,
      open: (body, handler) => this[url].open(body, handler),
      refused: ({ slot }) => assert.fail(`line ${slot.number} was refused`),
    });
    this.#relays.set(url, relay);
    return relay;
  }

  send(lane: BulkLane, line: number): void {
    const body: BulkLineBody = {
      aggregateId: 'a',
      aggregateType: undefined,
      expectedVersion: 'any',
      correlationId: undefined,
      causationId: undefined,
      metadata: undefined,
      events: [],
      idempotencyKey: undefined,
      keyless: Buffer.alloc(0),
    };
    const until = performance.now() + DEADLINE_MS;
    void lane.send(new BulkItem(this.answers.add(line), Buffer.from('{}'), body, COMMAND_ID, until));
  }

  /** The client reads from now on. */
  read(): void {
    this.response.on('data', (chunk: Buffer) => (this.#read += chunk.toString('utf8')));
  }

  get lines(): { readonly line: number; readonly state?: string; readonly stateStatus?: string }[] {
    return this.#read
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as { line: number });
  }

  async answered(): Promise<void> {
    await until(() => this.answers.open === 0, DEADLINE_MS);
    await until(() => this.#read.split('\n').length > LINES, DEADLINE_MS);
    assert.deepEqual(
      this.lines.map(({ line }) => line),
      Array.from({ length: LINES }, (_, i) => i + 1),
    );
  }
}

test('answers of one process that wait for those of a slow one do not hold that one up', async () => {
  const stream = new Stream(12_000);
  stream.read();
  stream.a.held = true;
  // So it is far past what may wait, and one answer before it does not bring it back.
  stream.b.atOnce = true;
  for (let line = 1; line <= LINES; line++) stream.send(line % 2 === 1 ? stream.first : stream.second, line);
  await until(() => stream.answers.isBehind);
  assert.equal(stream.answers.hasRoom, false, 'no further lines are read');
  stream.a.release();
  await stream.answered();
  assert.equal(stream.answers.hasRoom, true);
});

test('a line whose slot has moved is answered behind any number of later ones', async () => {
  const stream = new Stream(12_000);
  stream.read();
  stream.a.held = true;
  stream.send(stream.first, 1);
  await until(() => stream.a.received.length === 1);
  stream.owner['first'] = 'b';
  // It waits for line 1, and goes to the process behind all that follow.
  stream.send(stream.first, 2);
  for (let line = 3; line <= LINES; line++) stream.send(stream.second, line);
  await until(() => stream.answers.isBehind);
  stream.a.release();
  await stream.answered();
  assert.equal(stream.b.received.at(-1), 2);
});

test('what a process leaves unanswered when it dies is answered by the next one, however much waits for it', async () => {
  const stream = new Stream(12_000);
  stream.read();
  stream.a.held = true;
  for (let line = 1; line <= LINES; line++) stream.send(line % 2 === 1 ? stream.first : stream.second, line);
  await until(() => stream.answers.isBehind && stream.a.received.length === LINES / 2);
  stream.owner['first'] = 'b';
  stream.a.die();
  await stream.answered();
  assert.equal(stream.b.received.length, LINES);
});

test('states that wait past the memory of the tenant are left out of their answers', async () => {
  const memory = new MemoryBudget({ processBytes: 64 * 1024 * 1024, tenantBytes: 4 * 1024 * 1024 });
  const stream = new Stream(20_000, memory.tenant('acme'));
  stream.read();
  stream.a.held = true;
  for (let line = 1; line <= LINES; line++) stream.send(line % 2 === 1 ? stream.first : stream.second, line);
  await until(() => stream.b.asked.length === 0 && stream.b.received.length === LINES / 2);
  // Answers may take a quarter of it; beyond it what can't be left out.
  const held = memory.tenant('acme').held('answers');
  assert.ok(held > 900_000 && held < 1024 * 1024 + LINES * 200, String(held));
  stream.a.release();
  await stream.answered();
  const states = stream.lines.map(({ state, stateStatus }) => stateStatus ?? state?.length);
  assert.deepEqual(new Set(states), new Set([20_000, 'unavailable']));
  assert.equal(states[1], 20_000);
  await until(() => memory.held('answers') === 0);
});

test('while the client does not read, processes are not read from; what ends that lets them go on', async (t) => {
  await t.test('it reads', async () => {
    const stream = new Stream(12_000);
    for (let line = 1; line <= LINES; line++) stream.send(line % 2 === 1 ? stream.first : stream.second, line);
    await until(() => stream.a.paused && stream.b.paused);
    assert.ok(stream.a.asked.length > 0 && stream.b.asked.length > 0);
    stream.read();
    await stream.answered();
  });
  await t.test('it goes away', async () => {
    const stream = new Stream(12_000);
    for (let line = 1; line <= LINES; line++) stream.send(line % 2 === 1 ? stream.first : stream.second, line);
    await until(() => stream.a.paused && stream.b.paused);
    stream.response.destroy();
    await until(() => stream.a.asked.length === 0 && stream.b.asked.length === 0, DEADLINE_MS);
  });
});
