import { createHash, type Hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import type { Command } from 'commander';
import { exactText, parseExactly } from '../core/exact-json.js';
import { pause } from '../core/pause.js';
import { cutTorn, fileStream, goesOnBehind, lastPosition, positionOf } from './export-file.js';
import { interrupted } from './interrupted.js';
import { AwayError, CliError, type CliIo } from './io.js';
import { fileWriter, streamWriter, UnwritableError, type Writer } from './writer.js';
import type { CommandContext } from './context.js';
import type { Fields, Server } from './server.js';

const CLOUD_EVENTS = 'application/cloudevents+x-ndjson';
/** In a line of an export: behind this lies what an import keeps. */
const KEPT_FROM = Buffer.from(',"id":');
const LF = 0x0a;
const AGAIN_MS = 1_000;
const STDIO = '-';

/** Commands that take the events of a tenant out of a service and into another one, and compare the two. */
export function addTransferCommands(program: Command, context: CommandContext): void {
  const { io, server, show } = context;
  program
    .command('export')
    .description('write all events of the tenant into a file, as lines of CloudEvents 1.0; goes on where the file ends')
    .argument('<file>', 'is made, or gone on with; - is standard output')
    .option('--after <position>', 'to standard output: begin behind this position')
    .option('--follow', 'go on with what comes, until Ctrl-C or SIGTERM: then all there is by that time is written')
    .action(async (file: string, options: { readonly after?: string; readonly follow?: true }) => {
      const exported = await exportTo(file, options, server(), io);
      const words = `${exported.events} events, up to position ${exported.position}\n`;
      if (file === STDIO) io.stderr.write(words);
      else show(exported, () => `${file}: ${words}`);
    });
  program
    .command('import')
    .description('take exported events into a tenant that has none, with their ids, versions, times and order')
    .argument('<tenantId>')
    .argument('<file>', 'that `export` wrote; - is standard input')
    .action(async (tenantId: string, file: string) => {
      const body = file === STDIO ? io.stdin : fileStream(file);
      const path = `/admin/tenants/${encodeURIComponent(tenantId)}/import`;
      const answer = await server().stream('admin', path, { 'Content-Type': CLOUD_EVENTS }, body);
      const imported = JSON.parse(await textOf(answer)) as Fields;
      show(imported, () => `${tenantId}: ${String(imported['events'])} events\n`);
    });
  program
    .command('digest')
    .description(
      'print a hash of the tenant’s events in their order, and of the states of its reducers: two services compare equal by it',
    )
    .option('--file <file>', 'of the events in this export instead')
    .action(async ({ file }: { readonly file?: string }) => {
      const digest = file === undefined ? await digestOf(server()) : await digestOfFile(file);
      show(digest, () =>
        Object.entries(digest)
          .map(([name, value]) => `${name}  ${String(value)}\n`)
          .join(''),
      );
    });
}

interface Exported {
  readonly events: number;
  readonly position: number;
}

async function exportTo(
  file: string,
  { after, follow }: { readonly after?: string; readonly follow?: true },
  server: Server,
  io: CliIo,
): Promise<Exported> {
  if (after !== undefined && !/^\d{1,16}$/.test(after)) throw new CliError(`--after is a position, not '${after}'.`);
  if (after !== undefined && file !== STDIO)
    throw new CliError('--after is for standard output: a file is gone on with where it ends.');
  const position = file === STDIO ? Number(after ?? 0) : await beginningIn(file, server);
  const output = file === STDIO ? streamWriter(io.stdout) : await fileWriter(file);
  const written = { events: 0, position };
  const stop = follow ? interrupted() : undefined;
  try {
    let isAway = false;
    while (stop?.aborted === false) {
      const { position: begun } = written;
      try {
        await copyLines(server, written, output, { follow: true, stop });
      } catch (error) {
        if (!(error instanceof AwayError)) throw error;
        if (!isAway || written.position > begun) io.stderr.write(`${error.message} Trying again.\n`);
        isAway = true;
      }
      // The stream has ended, or broke: it goes on behind what is written.
      await pause(AGAIN_MS, { ref: true, signal: stop });
    }
    await copyLines(server, written, output, { follow: false });
    await output.close();
  } catch (error) {
    await output.close().catch(() => undefined);
    if (file === STDIO || !(error instanceof UnwritableError)) throw error;
    // What is torn is cut off, so that all that is there can be read.
    cutTorn(file);
    throw new CliError(
      `${error.message} It ends behind position ${lastPosition(file)}: make room and export into the same file again, and it goes on there.`,
    );
  }
  return written;
}

/** The position behind which the export begins. What a former one has torn at the end of the file is cut off. */
async function beginningIn(file: string, server: Server): Promise<number> {
  if (!existsSync(file)) return 0;
  cutTorn(file);
  return goesOnBehind(server, file);
}

/** Writes whole lines behind the position; what is torn at the end is left out. */
async function copyLines(
  server: Server,
  written: { events: number; position: number },
  output: Writer,
  { follow, stop }: { readonly follow: boolean; readonly stop?: AbortSignal },
): Promise<void> {
  const answer = await server.stream('tenant', `/feed?after=${written.position}${follow ? '&follow=true' : ''}`, {
    Accept: CLOUD_EVENTS,
  });
  const cut = (): void => void answer.destroy();
  stop?.addEventListener('abort', cut);
  if (stop?.aborted) cut();
  try {
    for await (const lines of linesOf(answer)) {
      let last: Buffer | undefined;
      for (const line of lines.lines)
        if (line.length > 0) {
          last = line;
          written.events++;
        }
      const position = last === undefined ? written.position : positionOf(last);
      // Empty ones keep a stream alive, also one that an import reads.
      await output.write(lines.bytes);
      written.position = position;
    }
  } catch (error) {
    if (stop?.aborted) return;
    // The output, or what came is no export.
    if (error instanceof CliError) throw error;
    throw new AwayError(
      `${server.url} broke off its answer behind position ${written.position}: export into the same file again, and it goes on there.`,
    );
  } finally {
    stop?.removeEventListener('abort', cut);
  }
}

/** The lines that have ended, without their line feeds, and their bytes with them. */
async function* linesOf(
  input: Readable,
): AsyncGenerator<{ readonly bytes: Buffer; readonly lines: readonly Buffer[] }> {
  let parts: Buffer[] = [];
  for await (const chunk of input as AsyncIterable<Buffer>) {
    const end = chunk.lastIndexOf(LF) + 1;
    if (end === 0) {
      parts.push(chunk);
      continue;
    }
    const bytes = Buffer.concat([...parts, chunk.subarray(0, end)]);
    parts = end < chunk.length ? [chunk.subarray(end)] : [];
    const lines: Buffer[] = [];
    for (let from = 0; from < bytes.length;) {
      const to = bytes.indexOf(LF, from);
      lines.push(bytes.subarray(from, to));
      from = to + 1;
    }
    yield { bytes, lines };
  }
  if (parts.length > 0) throw new Error('the last line has no end');
}

interface Digest {
  readonly events: number;
  /** SHA-256, hex. */
  readonly order: string;
  readonly states?: string;
}

async function digestOfFile(file: string): Promise<Digest> {
  return orderOf(
    fileStream(file),
    ({ message }) => new CliError(`${file} can't be read to its end: ${message}. Was it cut off?`),
  );
}

/** `broken`: what is said of an input that ends before its end. */
async function orderOf(input: Readable, broken: (error: Error) => CliError): Promise<Digest> {
  const hash = createHash('sha256');
  let events = 0;
  try {
    for await (const { lines } of linesOf(input))
      for (const line of lines) {
        if (line.length === 0) continue;
        const at = line.indexOf(KEPT_FROM);
        if (at < 0) throw new CliError('A line is not one that `statefold export` wrote: it has no id.');
        hash.update(line.subarray(at)).update('\n');
        events++;
      }
  } catch (error) {
    throw error instanceof CliError ? error : broken(error as Error);
  }
  return { events, order: hash.digest('hex') };
}

async function digestOf(server: Server): Promise<Digest> {
  const order = await orderOf(
    await server.stream('tenant', '/feed', { Accept: CLOUD_EVENTS }),
    ({ message }) => new CliError(`${server.url} broke off its answer: ${message}.`),
  );
  const states = createHash('sha256');
  const types = await server.tenantList('/aggregate-types', 'aggregateTypes');
  for (const { aggregateType, reducerId } of types)
    if (typeof reducerId === 'string') await hashStates(server, String(aggregateType), states);
  return { ...order, states: states.digest('hex') };
}

/** Each is asked for by itself: so it is the state at the version that the aggregate has now, wherever a catch-up is. */
async function hashStates(server: Server, aggregateType: string, hash: Hash): Promise<void> {
  let cursor: unknown;
  do {
    const page = (await server.tenant(
      'GET',
      `/aggregates?type=${encodeURIComponent(aggregateType)}&limit=500${typeof cursor === 'string' ? `&cursor=${encodeURIComponent(cursor)}` : ''}`,
    )) as { readonly aggregates: readonly Fields[]; readonly nextCursor?: string };
    for (const { aggregateId } of page.aggregates) {
      const path = `/aggregate-types/${encodeURIComponent(aggregateType)}/${encodeURIComponent(String(aggregateId))}/state`;
      const answer = await textOf(await server.stream('tenant', path, {}));
      const { version, state, stateStatus } = parseExactly(answer) as Fields;
      hash.update(`${exactText([aggregateType, aggregateId, version, stateStatus ?? null, state ?? null])}\n`);
    }
    cursor = page.nextCursor;
  } while (cursor !== undefined);
}
