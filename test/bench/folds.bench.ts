// Folds: inside the runner, and from Node to the runner and back, beside the same C# in a plain loop; and the rate of a whole catch-up through the service.
import { execFileSync } from 'node:child_process';
import { PackedSources } from '../../src/code-host/packed-sources.js';
import { join } from 'node:path';
import { DotnetCodeHost } from '../../src/code-host/dotnet/dotnet-code-host.js';
import { FrameWriter } from '../../src/code-host/dotnet/frame-writer.js';
import { HostProcess } from '../../src/code-host/dotnet/host-process.js';
import { launchOf } from '../../src/jail/launch.js';
import { resolveOptions, type DotnetCodeHostOptions } from '../../src/code-host/dotnet/options.js';
import { encodeFold, encodeLoad } from '../../src/code-host/dotnet/runner-codec.js';
import type { FoldItem, HostEvent, Unit } from '../../src/code-host/code-host.js';
import { silentLogger } from '../../src/core/logger.js';
import { API_KEY, ROOT, sample, startService, temporaryDirectory, until } from '../support/service.js';
import { median, report, runLoad } from './load.js';

const AGGREGATES = 2000;
const EVENTS = 100;
const ROUNDS = 7;
const AGGREGATES_PER_CALL = 10;
const UNDER_WAY = 3;
const FLIGHT = '{"date":"2001/01/01 00:47","delay":66,"distance":1750,"origin":"DTW","destination":"LAS"}';

const cleanups: (() => void)[] = [];
const context = { after: (cleanup: () => void): void => void cleanups.push(cleanup) } as unknown as Parameters<
  typeof startService
>[0];
const rate = (n: number): string => `${Math.round(n).toLocaleString('en')}/s`;
const { 'RouteReducer.cs': reducer = '', 'Flight.cs': flight = '' } = sample('flights');

function plainLoop(): number[] {
  const project = join(ROOT, 'dotnet', 'bench', 'Statefold.PlainLoop');
  const out = execFileSync(
    'dotnet',
    ['run', '--project', project, '-c', 'Release', '--', String(AGGREGATES), String(EVENTS), String(ROUNDS), FLIGHT],
    { encoding: 'utf8' },
  );
  return out.trim().split('\n').map(Number);
}

const hostOptions = (): DotnetCodeHostOptions => ({
  dotnet: 'dotnet',
  searchPath: process.env['PATH'] ?? '',
  assembliesDir: join(ROOT, 'dist', 'dotnet'),
  workDir: temporaryDirectory(context),
  logger: silentLogger,
});

async function compiledReducer(host: DotnetCodeHost): Promise<Buffer> {
  const compiled = await host.compile({
    kind: 'reducer',
    sources: await PackedSources.pack([
      { path: 'RouteReducer.cs', text: reducer },
      { path: 'Flight.cs', text: flight },
    ]),
  });
  if (!compiled.ok) throw new Error(compiled.compilationError);
  return compiled.assembly;
}

const data = Buffer.from(FLIGHT);
const itemsFrom = (unit: Unit, first: number): FoldItem[] =>
  Array.from({ length: AGGREGATES_PER_CALL }, (_, i): FoldItem => {
    const aggregateId = `route-${first + i}`;
    const events = Array.from({ length: EVENTS }, (__, version): HostEvent => ({
      eventId: '01a1feb0-3b5c-779f-a6a2-b5a692221b06',
      aggregateId,
      aggregateType: 'route',
      eventType: 'FlightLanded',
      version: version + 1,
      timestamp: 0,
      correlationId: undefined,
      causationId: undefined,
      data,
      metadata: undefined,
    }));
    return { unit, aggregateId, baseVersion: 0, baseState: () => null, events, stateAt: [] };
  });

/** What the runner does by itself: all frames lie ready, and as many are under way that it never waits for one. One artefact, compiled as warm as the loop. */
async function insideTheHost(assembly: Buffer): Promise<number[]> {
  const options = resolveOptions(hostOptions());
  const launch = launchOf(
    'runner',
    options,
    options.heapLimitBytes,
    [options.cacheEntries, options.cacheBytes, options.maxStateBytes].map(String),
  );
  let left = 0;
  let waiting: Buffer[] = [];
  let all = (): void => undefined;
  const runner = new HostProcess(launch, options.workDir, {
    onFrame: () => {
      const next = waiting.shift();
      if (next !== undefined) runner.send(next);
      if (--left === 0) all();
    },
    expects: () => true,
    onEnd: ({ reason, killedHere }) => {
      if (!killedHere) throw new Error(reason);
    },
  });
  await runner.ready;
  const rates: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const writer = new FrameWriter();
    const frames: Buffer[] = [];
    if (round === 0) {
      encodeLoad(writer, 1, 'a', assembly);
      frames.push(Buffer.from(writer.end()));
    }
    for (let first = 0; first < AGGREGATES; first += AGGREGATES_PER_CALL) {
      encodeFold(
        writer,
        2 + first,
        itemsFrom({ artefactId: 'a', className: 'Flights.RouteReducer' }, round * AGGREGATES + first),
      );
      frames.push(Buffer.from(writer.end()));
    }
    left = frames.length;
    const answered = new Promise<void>((resolve) => (all = resolve));
    const started = performance.now();
    waiting = frames.slice(UNDER_WAY);
    for (const frame of frames.slice(0, UNDER_WAY)) runner.send(frame);
    await answered;
    rates.push((AGGREGATES * EVENTS) / ((performance.now() - started) / 1000));
  }
  runner.kill('the bench is over');
  await runner.ended;
  return rates;
}

async function throughTheHost(host: DotnetCodeHost, assembly: Buffer): Promise<number[]> {
  const runner = host.runner('bench');
  const rates: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    runner.load(`a${round}`, assembly);
    const unit = { artefactId: `a${round}`, className: 'Flights.RouteReducer' };
    const started = performance.now();
    for (let first = 0; first < AGGREGATES; first += AGGREGATES_PER_CALL) {
      const outcomes = await runner.fold(itemsFrom(unit, first));
      if (outcomes.some((outcome) => outcome.fault !== undefined)) throw new Error('a fold faulted');
    }
    rates.push((AGGREGATES * EVENTS) / ((performance.now() - started) / 1000));
  }
  return rates;
}

async function catchUp(): Promise<void> {
  const service = await startService(context, { readStore: true });
  const event = `{"eventType":"FlightLanded","data":${FLIGHT}}`;
  const body = [`{"aggregateId":"route-$AGGREGATE","events":[${Array.from({ length: 100 }, () => event).join(',')}]}`];
  const { answered } = await runLoad({
    port: Number(new URL(service.url).port),
    path: '/events/batch',
    keys: [API_KEY],
    bodies: body,
    aggregates: 500,
    clients: 16,
    durationMs: 6000,
    first: 0,
  });
  await service.deploy('reducers', { 'RouteReducer.cs': reducer, 'Flight.cs': flight });
  const started = performance.now();
  await until(
    async () =>
      (await service.get('/aggregate-types/route')).json<{ catchUp?: { status: string } }>().catchUp?.status === 'done',
    120_000,
  );
  const seconds = (performance.now() - started) / 1000;
  report(
    'catch-up after a binding, events',
    rate((answered * 100) / seconds),
    `${(answered * 100).toLocaleString('en')} events of 500 aggregates`,
  );
  await service.stop();
}

try {
  const loop = plainLoop().slice(2);
  const host = new DotnetCodeHost(hostOptions());
  cleanups.push(() => void host.close());
  const assembly = await compiledReducer(host);
  const inside = (await insideTheHost(assembly)).slice(2);
  const ours = (await throughTheHost(host, assembly)).slice(2);
  report(
    'fold inside the runner, events',
    rate(median(inside)),
    `the same C# in a plain loop ${rate(median(loop))}`,
    median(inside) / median(loop),
    'goal 0.90',
  );
  report(
    'fold, Node to the runner and back, events',
    rate(median(ours)),
    `the same C# in a plain loop ${rate(median(loop))}`,
    median(ours) / median(loop),
    'goal 0.50',
  );
  await catchUp();
} finally {
  for (const cleanup of cleanups.reverse()) cleanup();
}
