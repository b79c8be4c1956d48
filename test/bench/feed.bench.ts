/**
 * Events a second of the feed, as lines of JSON from the service to a reader of bytes, ÷ a bare loop that reads and decodes the same log
 * in its own process; and pages of it. Side by side, alternating, in one run, over the same events.
 */
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { request } from 'undici';
import { StatefoldClient } from '../../packages/client/src/index.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { eventsTopic } from '../../src/log/topics.js';
import { API_KEY, ROOT, startService, temporaryDirectory } from '../support/service.js';
import { median, report } from './load.js';

const EVENTS = Number(process.env['BENCH_EVENTS'] ?? 200_000);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 7);
/** As the service reads it. */
const PAGE_BYTES = 1024 * 1024;
const LINE_FEED = 10;
const cleanups: (() => void | Promise<void>)[] = [];
const context = { after: (cleanup: () => void): void => void cleanups.unshift(cleanup) } as unknown as Parameters<
  typeof startService
>[0];
const rate = (seconds: number): string => `${Math.round(EVENTS / seconds).toLocaleString('en')}/s`;

try {
  const dataDirectory = temporaryDirectory(context);
  const filling = await startService(context, { readStore: true, dataDirectory });
  const producer = new StatefoldClient({ url: filling.url, apiKey: API_KEY }).producer();
  for (let n = 0; n < EVENTS; n++)
    await producer.send({
      aggregateId: `order-${n % 10_000}`,
      eventType: 'OrderPlaced',
      data: { total: n / 100, currency: 'EUR', lines: [{ article: `a-${n % 777}`, count: 2 }] },
    });
  await producer.close();
  await filling.stop();
  // One process at a time has the log of a service: the bare loop has a copy.
  const copy = join(temporaryDirectory(context), 'log');
  cpSync(join(dataDirectory, 'log'), copy, { recursive: true });
  const log = new LmdbLog({ path: copy });
  cleanups.unshift(() => log.close());
  const { events: codec } = loadCodecs(join(ROOT, 'schemas', 'avro'));
  const of = { topic: eventsTopic('default'), partition: 0 };

  const raw = async (decodes: boolean): Promise<number> => {
    const end = await log.endOffset(of);
    let found = 0;
    const began = performance.now();
    for (let from = 0; from < end;) {
      const page = await log.read(of, from, PAGE_BYTES);
      for (const { value } of page.records) {
        if (!decodes) found++;
        else if (value !== null) {
          const decoded = codec.decode(value);
          if (decoded?.body.kind === 'Commit') found += decoded.body.value.events.length;
        }
      }
      // A page ends with its bytes; its `end` is that of what could be read.
      from = (page.records.at(-1)?.offset ?? page.end - 1) + 1;
    }
    // Without decoding these are records, of which each has an event or more.
    if (decodes && found < EVENTS) throw new Error(`the log holds ${found} of ${EVENTS} events`);
    return (performance.now() - began) / 1000;
  };

  const service = await startService(context, { readStore: true, dataDirectory });
  const lines = async (query = ''): Promise<number> => {
    const began = performance.now();
    const { body } = await request(`${service.url}/feed${query}`, {
      headers: { 'x-api-key': API_KEY, accept: 'application/x-ndjson' },
    });
    let found = -1; // the last line tells the position
    for await (const chunk of body as AsyncIterable<Buffer>)
      for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, at + 1)) found++;
    if (found !== EVENTS) throw new Error(`the feed told ${found} of ${EVENTS} events`);
    return (performance.now() - began) / 1000;
  };
  const paged = async (): Promise<number> => {
    const began = performance.now();
    let found = 0;
    for (let after = 0; ;) {
      const { body } = await request(`${service.url}/feed?limit=1000&after=${after}`, {
        headers: { 'x-api-key': API_KEY },
      });
      const page = (await body.json()) as { readonly events: readonly unknown[]; readonly position: number };
      if (page.events.length === 0) break;
      found += page.events.length;
      after = page.position;
    }
    if (found !== EVENTS) throw new Error(`pages of the feed told ${found} of ${EVENTS} events`);
    return (performance.now() - began) / 1000;
  };

  const seconds = { lines: [], paged: [], decoded: [], raw: [] } as Record<
    'lines' | 'paged' | 'decoded' | 'raw',
    number[]
  >;
  for (let round = -1; round < ROUNDS; round++) {
    const took = { lines: await lines(), paged: await paged(), decoded: await raw(true), raw: await raw(false) };
    // The first one warms up.
    if (round >= 0) for (const [name, all] of Object.entries(seconds)) all.push(took[name as keyof typeof took]);
  }
  const [ours, pages, decoded, bare] = [seconds.lines, seconds.paged, seconds.decoded, seconds.raw].map(median) as [
    number,
    number,
    number,
    number,
  ];
  report(
    'events of the feed, as lines',
    rate(ours),
    `the log read and decoded ${rate(decoded)}`,
    decoded / ours,
    '≥ 0.5',
  );
  report('', '', `its bytes alone ${rate(bare)}`, bare / ours);
  report('  by pages of 1,000, parsed', rate(pages), `the log read and decoded ${rate(decoded)}`, decoded / pages);
} finally {
  for (const cleanup of cleanups) await cleanup();
}
