/**
 * What traces cost: appends of a service that sends all of them, one of a hundred, or none, side by side and alternating in one run,
 * to a collector that takes them and throws them away.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { API_KEY, startService, type Service } from '../support/service.js';
import { median, report, runLoad, SINGLE } from './load.js';

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 7);
const ROUND_MS = Number(process.env['BENCH_ROUND_MS'] ?? 3_000);
const CLIENTS = 32;
const TICKS = 100;
const cleanups: (() => void | Promise<void>)[] = [];
const context = { after: (cleanup: () => void): void => void cleanups.unshift(cleanup) } as unknown as Parameters<
  typeof startService
>[0];

/** Seconds of processors that the process alone has taken. */
function processors(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

interface Measured {
  readonly perSecond: number;
  readonly p50: number;
  /** Of the service's processor, an append. */
  readonly microseconds: number;
}

try {
  const collector = createServer((request, response) => {
    request.resume().once('end', () => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'));
  });
  collector.listen(0, '127.0.0.1');
  await once(collector, 'listening');
  cleanups.unshift(() => void collector.close());
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}` };
  const services: readonly (readonly [string, Service])[] = [
    ['none', await startService(context, { readStore: true })],
    ['all', await startService(context, { readStore: true, env: endpoint })],
    [
      '1 of 100',
      await startService(context, {
        readStore: true,
        env: { ...endpoint, OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.01' },
      }),
    ],
  ];
  const next = new Map<string, number>();
  const measure = async ([name, service]: readonly [string, Service], durationMs: number): Promise<Measured> => {
    const before = processors(service.pid);
    const load = await runLoad({
      ...{ port: Number(new URL(service.url).port), path: '/events', keys: [API_KEY], bodies: SINGLE },
      ...{ aggregates: 1_000, clients: CLIENTS, durationMs, first: next.get(name) ?? 0 },
    });
    next.set(name, load.next);
    const microseconds = ((processors(service.pid) - before) / load.answered) * 1e6;
    return { perSecond: load.perSecond, p50: load.p50, microseconds };
  };
  for (const one of services) await measure(one, 1_000);
  const rounds: Measured[][] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const measured: Measured[] = [];
    for (const one of services) measured.push(await measure(one, ROUND_MS));
    rounds.push(measured);
  }
  for (const [i, [name]] of services.entries()) {
    const of = (member: keyof Measured): number => median(rounds.map((round) => round[i]?.[member] ?? 0));
    const ratio = median(rounds.map((round) => (round[i]?.microseconds ?? 0) / (round[0]?.microseconds ?? 1)));
    report(
      `appends, traces sent: ${name}`,
      `${of('microseconds').toFixed(0)} µs`,
      `${Math.round(of('perSecond')).toLocaleString('en')}/s, p50 ${of('p50').toFixed(2)} ms`,
      ratio,
    );
  }
} finally {
  for (const cleanup of cleanups) await cleanup();
}
