import assert from 'node:assert/strict';
import { PackedSources } from '../../src/code-host/packed-sources.js';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type {
  CompileRequest,
  FoldItem,
  HostEvent,
  ProjectionUnit,
  SourceText,
  State,
} from '../../src/code-host/code-host.js';
import { decodeCompiled, encodeCompile } from '../../src/code-host/dotnet/compile-codec.js';
import { FrameReader } from '../../src/code-host/dotnet/frame-reader.js';
import { FrameSplitter } from '../../src/code-host/dotnet/frame-splitter.js';
import { FrameWriter } from '../../src/code-host/dotnet/frame-writer.js';
import {
  decodeFolded,
  decodeMissingItems,
  decodeMissingKeys,
  decodeProjected,
  encodeFold,
  encodeProject,
  encodeState,
} from '../../src/code-host/dotnet/runner-codec.js';
import { whole } from '../../src/code-host/dotnet/frame-slices.js';
import { type Frame, Tag, WireError } from '../../src/code-host/dotnet/wire.js';
import { projectRoot } from './code-host-fixture.js';

interface GoldenFrame {
  readonly from: string;
  readonly hex: string;
}
type GoldenExchange = {
  readonly requestId: number;
  readonly frames: readonly GoldenFrame[];
  readonly missing?: unknown;
  readonly answer: unknown;
} & (
  | {
      readonly ask: 'fold';
      readonly items: readonly (Omit<FoldItem, 'events' | 'baseState'> & { readonly events: readonly string[] })[];
      readonly states: readonly string[];
    }
  | {
      readonly ask: 'project';
      readonly units: readonly ProjectionUnit[];
      readonly events: readonly string[];
      readonly reply: 'each' | 'last' | 'keys';
      readonly states: readonly { readonly faulted: boolean; readonly state: string | null }[];
    }
);
interface Golden {
  readonly events: Readonly<Record<string, Readonly<Record<string, string | number | null>>>>;
  readonly compile: {
    readonly requestId: number;
    readonly request: { readonly kind: CompileRequest['kind']; readonly sources: readonly SourceText[] };
    readonly answer: unknown;
    readonly frames: readonly GoldenFrame[];
  };
  readonly exchanges: readonly GoldenExchange[];
}

const golden = JSON.parse(readFileSync(join(projectRoot, 'schemas', 'frames', 'conversation.json'), 'utf8')) as Golden;
const eventNamed = (name: string): HostEvent => {
  const fields = Object.entries(golden.events[name] ?? assert.fail(name)).map(
    ([field, value]) => [field, value ?? undefined] as const,
  );
  const event = Object.fromEntries(fields) as unknown as HostEvent & { data: string; metadata?: string };
  return {
    ...event,
    eventId: name,
    data: Buffer.from(event.data),
    metadata: event.metadata === undefined ? undefined : Buffer.from(event.metadata),
  };
};
const bytes = (state: string | null): State => (state === null ? null : Buffer.from(state));
/** States as the golden file has them: text. */
const plain = (value: unknown): unknown =>
  Buffer.isBuffer(value)
    ? value.toString()
    : Array.isArray(value)
      ? value.map(plain)
      : typeof value === 'object' && value !== null
        ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]))
        : value;
const writer = new FrameWriter();
const written = (encode: () => void): string => (encode(), writer.end().toString('hex'));
const split = (chunks: readonly Buffer[]): Frame[] => {
  const frames: Frame[] = [];
  const splitter = new FrameSplitter((frame) => void frames.push({ ...frame, payload: Buffer.from(frame.payload) }));
  for (const chunk of chunks) splitter.push(chunk);
  return frames;
};
const payload = (frame: GoldenFrame | undefined): Buffer =>
  split([Buffer.from(frame?.hex ?? '', 'hex')])[0]?.payload ?? assert.fail('no frame');

describe('golden frames', () => {
  it('compile', async () => {
    const { requestId, request, answer, frames } = golden.compile;
    // Another zlib may pack them otherwise.
    const sources = new PackedSources(payload(frames[0]).subarray(5, -1));
    assert.equal(
      written(() => encodeCompile(writer, requestId, { kind: request.kind, sources }, 'error')),
      frames[0]?.hex,
    );
    assert.ok(await sources.equals(await PackedSources.pack(request.sources)));
    assert.deepEqual(decodeCompiled(payload(frames[1]), request.kind), answer);
  });

  for (const exchange of golden.exchanges) {
    it(`${exchange.ask} ${exchange.requestId}`, () => {
      const { requestId, frames, missing } = exchange;
      const sent = frames.filter(({ from }) => from === 'host').map(({ hex }) => hex);
      const received = frames.filter(({ from }) => from === 'runner');
      if (exchange.ask === 'fold') {
        const items = exchange.items.map((item) => ({
          ...item,
          events: item.events.map(eventNamed),
          baseState: () => assert.fail(),
        }));
        assert.equal(
          written(() => encodeFold(writer, requestId, items)),
          sent[0],
        );
        assert.deepEqual(whole(decodeMissingItems(payload(received[0]), items)), missing);
        const states = (): void => (
          writer.begin(requestId, Tag.States),
          exchange.states.forEach((state) => encodeState(writer, Buffer.from(state)))
        );
        assert.equal(written(states), sent[1]);
        assert.deepEqual(plain(whole(decodeFolded(payload(received[1]), items, 1_000))), exchange.answer);
      } else {
        const frame = { units: exchange.units, events: exchange.events.map(eventNamed), reply: exchange.reply };
        assert.equal(
          written(() => encodeProject(writer, requestId, frame)),
          sent[0],
        );
        if (missing !== undefined) {
          assert.deepEqual(whole(decodeMissingKeys(payload(received[0]), frame)), missing);
          const states = (): void => {
            writer.begin(requestId, Tag.States);
            for (const { faulted, state } of exchange.states) {
              writer.byte(faulted ? 1 : 0);
              encodeState(writer, bytes(state));
            }
          };
          assert.equal(written(states), sent[1]);
        }
        assert.deepEqual(plain(whole(decodeProjected(payload(received.at(-1)), frame, 1_000))), exchange.answer);
      }
    });
  }

  it('frames come out whole however the stream is cut', () => {
    const frames = golden.exchanges.flatMap((exchange) => exchange.frames.map(({ hex }) => Buffer.from(hex, 'hex')));
    const stream = Buffer.concat(frames);
    const expected = split(frames);
    for (const size of [1, 2, 3, 7, 64, stream.length]) {
      const chunks = Array.from({ length: Math.ceil(stream.length / size) }, (_, i) =>
        stream.subarray(i * size, (i + 1) * size),
      );
      assert.deepEqual(split(chunks), expected);
    }
    assert.throws(() => split([Buffer.from([4, 0, 0, 0, 0])]), WireError);
    assert.throws(() => split([Buffer.from([0, 0, 0, 255])]), WireError);
  });

  it('an answer cut anywhere is refused, never misread', () => {
    const fold = golden.exchanges.find((exchange) => exchange.ask === 'fold') ?? assert.fail();
    const items = fold.items.map((item) => ({ ...item, events: item.events.map(eventNamed), baseState: () => null }));
    const answer = payload(fold.frames.at(-1));
    for (let length = 0; length < answer.length; length++)
      assert.throws(() => whole(decodeFolded(answer.subarray(0, length), items, 1_000)), WireError);
    assert.throws(() => whole(decodeFolded(answer, items, 10)), WireError, 'a state past the limit');
  });

  it('a compiler that finds more than an upload may have is not believed', () => {
    const compiled = (classes: readonly (readonly [name: string, state: string])[], findings = 0): Buffer => {
      writer.begin(1, Tag.Compiled);
      writer.byte(1);
      writer.blob(Buffer.from('MZ'));
      writer.varUint(classes.length);
      for (const [name, state] of classes) for (const text of [name, state, 'order']) writer.string(text);
      writer.blob(Buffer.from('{}'));
      writer.varUint(findings);
      for (let i = 0; i < findings; i++) {
        writer.byte(0);
        for (const text of ['CS0168', 'x'.repeat(1024), 'A.cs']) writer.string(text);
        writer.varUint(1);
        writer.varUint(1);
      }
      return split([Buffer.from(writer.end())])[0]?.payload ?? assert.fail();
    };
    const classes = (count: number, name = 'Shop.OrderReducer'): [string, string][] =>
      Array.from({ length: count }, (_, i) => [`${name}${i}`, 'Shop.Order']);
    const decoded = decodeCompiled(compiled(classes(500), 200), 'reducer');
    assert.equal(decoded.ok && decoded.discovered.length, 500);
    for (const [what, answer] of Object.entries({
      classes: compiled(classes(501)),
      'a long name': compiled([['N'.repeat(1025), 'S']]),
      'a long name of a state': compiled([['N', 'S'.repeat(1025)]]),
      'names together': compiled(classes(80, 'N'.repeat(900))),
      findings: compiled(classes(1), 300),
    }))
      assert.throws(() => decodeCompiled(answer, 'reducer'), WireError, what);
  });

  it('numbers survive at their bounds', () => {
    const numbers = [0, 127, 128, 16_383, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 48];
    writer.begin(1, Tag.Fold);
    for (const number of numbers) writer.varUint(number);
    const reader = new FrameReader(Buffer.from(writer.end()).subarray(9));
    assert.deepEqual(
      numbers.map(() => reader.varUint()),
      numbers,
    );
    reader.finish();
    assert.throws(() => new FrameReader(Buffer.alloc(9, 0xff)).varUint(), WireError);
  });
});
