// Sources of an upload are packed a piece at a time, and are the same whatever order the files came in.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import type { SourceText } from '../../src/code-host/code-host.js';
import { PackedSources } from '../../src/code-host/packed-sources.js';
import { turnsDuring } from '../support/loop-turns.js';

const unpacked = async (packed: PackedSources): Promise<unknown> =>
  JSON.parse(String(await buffer(packed.chunks()))) as unknown;

/** Pairs, quotes, escapes and characters of each length, so that each place of a cut has one of them. */
const SIGNS = ['a', '"', '\\', '\n', '\u0000', 'é', '€', '\u{1f600}', '\u2028'];
const text = (length: number, first: number): string =>
  Array.from({ length }, (_, i) => SIGNS[(i * 7 + first) % SIGNS.length]).join('');

test('what is packed is what is unpacked, wherever a piece ends', async () => {
  for (let first = 0; first < SIGNS.length; first++)
    for (const length of [0, 1, 65_535, 65_536, 65_537, 200_000]) {
      const sources = [{ path: 'a.cs', text: text(length, first) }];
      const packed = await PackedSources.pack(sources);
      assert.deepEqual(await unpacked(packed), sources);
      assert.equal(packed.jsonBytes, Buffer.byteLength(JSON.stringify(sources)));
    }
  assert.deepEqual(await unpacked(await PackedSources.pack([])), []);
});

test('files have no order; equal ones are equal, whoever has packed them, and no others', async () => {
  const files: SourceText[] = ['c', 'a', 'b'].map((name) => ({ path: `${name}.cs`, text: text(100_000, name.length) }));
  const packed = await PackedSources.pack(files);
  assert.deepEqual(
    ((await unpacked(packed)) as SourceText[]).map(({ path }) => path),
    ['a.cs', 'b.cs', 'c.cs'],
  );
  assert.ok(packed.bytes.equals((await PackedSources.pack(files.toReversed())).bytes));
  const json = Buffer.from(JSON.stringify([...files].sort((a, b) => (a.path < b.path ? -1 : 1))));
  const otherwise = new PackedSources(gzipSync(json, { level: 1 }));
  assert.ok(!otherwise.bytes.equals(packed.bytes));
  assert.ok(await packed.equals(otherwise));
  assert.ok(!(await packed.equals(await PackedSources.pack(files.slice(1)))));
  // With the checksum and the length of the others, as somebody may make them.
  const changed = Buffer.from(json);
  changed[changed.length - 10] = 0x7a;
  const forged = gzipSync(changed);
  packed.bytes.copy(forged, forged.length - 8, packed.bytes.length - 8);
  await assert.rejects(packed.equals(new PackedSources(forged)), /incorrect data check/);
});

test('others have their turn while many are packed', async () => {
  const sources = [{ path: 'a.cs', text: 'x'.repeat(8 * 1024 * 1024) }];
  const { turns } = await turnsDuring(() => PackedSources.pack(sources));
  assert.ok(turns >= 64, `${turns} turns`);
});

test('a text in pieces is packed as one', async () => {
  const pieces = ['class A\n{', '', ' "😀"', '\t}'];
  const whole = await PackedSources.pack([{ path: 'A.cs', text: pieces.join('') }]);
  const inPieces = await PackedSources.pack([{ path: 'A.cs', text: pieces }]);
  assert.ok(await whole.equals(inPieces));
});
