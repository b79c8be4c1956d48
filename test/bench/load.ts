import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AS_ADMIN, type Service } from '../support/service.js';

export interface Load {
  readonly port: number;
  readonly path: string;
  /** One a tenant, in turn. */
  readonly keys: readonly string[];
  /** Joined; `$AGGREGATE` is a number below `aggregates`, `$I` that of the request. */
  readonly bodies: readonly string[];
  readonly aggregates: number;
  readonly clients: number;
  /** Requests begun at a steady rate, as long as a client is free; each as soon as the one before is answered unless given. */
  readonly perSecond?: number;
  /** At a steady rate, when its first request is due, as a share of the time between two: loads that run together needn't collide. */
  readonly phase?: number;
  readonly durationMs: number;
  readonly first: number;
  /** Answers without it count as failed. */
  readonly mustContain?: string;
}

/** One more tenant of the service; gives its key. */
export async function benchTenant(service: Service, i: number): Promise<string> {
  const made = await service.post('/admin/tenants', { tenantId: `bench-${i}`, name: 'bench' }, AS_ADMIN);
  return made.json<{ apiKey: string }>().apiKey;
}

export interface LoadResult {
  readonly perSecond: number;
  readonly answered: number;
  readonly failed: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** At a steady rate: milliseconds of each answer, in ascending order. */
  readonly latencies: readonly number[];
  readonly next: number;
}

const HERE = dirname(fileURLToPath(import.meta.url));
const script = (name: string): string => join(HERE, `${name}.js`);

/** A process that sends loads, one after the other. What is measured with a new one has its start in it, some hundred ms of a processor. */
export interface LoadGenerator {
  run(load: Load): Promise<LoadResult>;
  /** At the same time. */
  runTogether<const Loads extends readonly Load[]>(loads: Loads): Promise<{ readonly [I in keyof Loads]: LoadResult }>;
  end(): void;
}

/** What measures waits for no processor, where the process may say so: clients of a service run on other machines. */
const AHEAD = process.getuid?.() === 0 ? ['nice', '-n', '-15'] : [];

export function startLoadGenerator(): LoadGenerator {
  const [command = process.execPath, ...args] = [...AHEAD, process.execPath, script('load-generator')];
  const child = spawn(command, args, {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const ended = once(child, 'exit').then(([code]: unknown[]) => {
    throw new Error(`the load generator ended with ${String(code)}`);
  });
  ended.catch(() => undefined);
  const runTogether: LoadGenerator['runTogether'] = async (loads) => {
    const answer = once(child, 'message') as Promise<[{ readonly [I in keyof typeof loads]: LoadResult }]>;
    child.send(loads);
    const [results] = await Promise.race([answer, ended]);
    for (const { failed, answered } of results)
      if (failed > 0) throw new Error(`${failed} of ${answered} answers were not as expected`);
    return results;
  };
  return {
    run: async (load) => (await runTogether([load]))[0],
    runTogether,
    end: () => void child.kill(),
  };
}

export async function runLoad(load: Load): Promise<LoadResult> {
  const generator = startLoadGenerator();
  try {
    return await generator.run(load);
  } finally {
    generator.end();
  }
}

export interface Yardstick {
  readonly port: number;
  stop(): void;
}

/** The yardstick: express with its JSON parser, answering what an append without a state answers; once it is in the file, if there is one. */
export const startExpress = (file?: string): Promise<Yardstick> =>
  start('express-baseline', ...(file === undefined ? [] : [file]));

/** express, kafkajs and ws put together in forty lines, on a topic of one partition that is there. */
export const startPlainService = (topic: string, brokers: readonly string[]): Promise<Yardstick> =>
  start('plain-service', topic, ...brokers);

async function start(name: string, ...args: readonly string[]): Promise<Yardstick> {
  const child: ChildProcess = spawn(process.execPath, [script(name), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  return { port: Number(line.toString()), stop: () => void child.kill() };
}

const PADDING = 'a customer note of a usual length, so that a body has some 250 bytes in all';
/** Bodies of appends, to be sent by `runLoad`. */
export const SINGLE = [
  `{"aggregateId":"counter-$AGGREGATE","eventType":"Counted","data":{"amount":7,"note":"${PADDING}","reference":"ref-$I","channel":"web"},"correlationId":"req-$I"}`,
];
export const PLAIN_SINGLE = SINGLE.map((body) => body.replace('counter-', 'plain-'));
const EVENT = `{"eventType":"Counted","data":{"amount":7,"note":"${PADDING}","channel":"web"}}`;
export const BATCH_OF_100 = [
  `{"aggregateId":"plain-$AGGREGATE","events":[${Array.from({ length: 100 }, () => EVENT).join(',')}]}`,
];

/** One event for each of a hundred aggregates: `plain-$AGGREGATE-0` to `-99`. */
export const TRANSACTION_OF_100 = [
  `{"appends":[${Array.from({ length: 100 }, (_, i) => `{"aggregateId":"plain-$AGGREGATE-${i}","events":[${EVENT}]}`).join(',')}]}`,
];

/** The value below which the share of them lies. */
export const quantile = (values: readonly number[], share: number): number =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0;
export const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

/** One line of the report: what, the figure, what it is compared with, the ratio and its goal. */
export function report(name: string, ours: string, yardstick: string, ratio?: number, goal?: string): void {
  const shown = ratio === undefined ? '' : ratio >= 10 ? ratio.toFixed(1) : ratio.toFixed(2);
  process.stdout.write(
    `${name.padEnd(54)} ${ours.padStart(22)}   ${yardstick.padEnd(44)} ${shown.padStart(6)}  ${goal ?? ''}\n`,
  );
}
