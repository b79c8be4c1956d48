// What the client package adds to an append: the same requests by it and by bare fetch, in turns, against one service.
import { StatefoldClient } from '../../packages/client/src/index.js';
import { API_KEY, startService } from '../support/service.js';
import { median, report } from './load.js';

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 9);
const APPENDS = Number(process.env['BENCH_APPENDS'] ?? 1_000);
const SIDE_BY_SIDE = 16;
const cleanups: (() => void)[] = [];
const context = { after: (cleanup: () => void): void => void cleanups.push(cleanup) } as unknown as Parameters<
  typeof startService
>[0];

/** Milliseconds, and those of the processor of this process, an append. */
async function timed(append: (n: number) => Promise<unknown>): Promise<{ wall: number; processor: number }> {
  const began = performance.now();
  const before = process.cpuUsage();
  let next = 0;
  const one = async (): Promise<void> => {
    while (next < APPENDS) await append(next++);
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, one));
  const { user, system } = process.cpuUsage(before);
  return { wall: (performance.now() - began) / APPENDS, processor: (user + system) / 1000 / APPENDS };
}

try {
  const service = await startService(context, { readStore: true });
  const client = new StatefoldClient({ url: service.url, apiKey: API_KEY });
  const event = (n: number): { aggregateId: string; eventType: string; data: { amount: number } } => ({
    aggregateId: `bench-${n % 100}`,
    eventType: 'Counted',
    data: { amount: n },
  });
  const ours = (): ReturnType<typeof timed> => timed((n) => client.append(event(n)));
  const bare = (): ReturnType<typeof timed> =>
    timed(async (n) => {
      const response = await fetch(`${service.url}/events`, {
        method: 'POST',
        headers: {
          'X-API-Key': API_KEY,
          'Content-Type': 'application/json',
          'Idempotency-Key': crypto.randomUUID(),
        },
        body: JSON.stringify(event(n)),
      });
      if (response.status !== 201) throw new Error(`answered ${response.status}`);
      return response.json();
    });
  await ours();
  await bare();
  const pairs: { ours: Awaited<ReturnType<typeof ours>>; bare: Awaited<ReturnType<typeof bare>> }[] = [];
  for (let i = 0; i < ROUNDS; i++) pairs.push({ ours: await ours(), bare: await bare() });
  for (const [what, of] of [
    ['client, time an append', 'wall'],
    ['  processor time of the client', 'processor'],
  ] as const)
    report(
      what,
      `${(median(pairs.map((pair) => pair.ours[of])) * 1000).toFixed(0)} µs`,
      `bare fetch ${(median(pairs.map((pair) => pair.bare[of])) * 1000).toFixed(0)} µs`,
      median(pairs.map((pair) => pair.ours[of] / pair.bare[of])),
      'goal at most 1.15',
    );
} finally {
  for (const cleanup of cleanups.reverse()) cleanup();
}
