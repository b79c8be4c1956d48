import assert from 'node:assert/strict';
import { PackedSources } from '../../src/code-host/packed-sources.js';
import { mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import type { CompileRequest, SourceText } from '../../src/code-host/code-host.js';
import { FrameWriter } from '../../src/code-host/dotnet/frame-writer.js';
import { KeptCompilations, type KeptCompilationsOptions } from '../../src/code-host/dotnet/kept-compilations.js';
import { silentLogger } from '../../src/core/logger.js';
import { temporaryDirectory } from '../support/service.js';

const COUNTER = { path: 'Counter.cs', text: 'public class Counter { }' };
const EMPTY: SourceText = { path: 'Empty.cs', text: '' };
const OF_ONE: Pick<CompileRequest, 'tenantId' | 'kind'> = { tenantId: 'one', kind: 'reducer' };
const DAY_MS = 24 * 60 * 60 * 1000;

/** What the compiler answers to code that does not compile. */
function refusal(error: string): Buffer {
  const writer = new FrameWriter();
  writer.begin(1, 0);
  const head = writer.end().length;
  writer.byte(0);
  writer.string(error);
  writer.varUint(0);
  return Buffer.from(writer.end().subarray(head));
}
const REFUSAL = refusal('error CS1001: Identifier expected');
const REFUSED = { ok: false, compilationError: 'error CS1001: Identifier expected', diagnostics: [] };

/** Opens the folder as a process does, with a compiler of these files. */
function opened(directory: string, options: Partial<KeptCompilationsOptions> = {}): KeptCompilations {
  const compilerDirectory = join(directory, '..', 'compiler');
  mkdirSync(join(compilerDirectory, 'ref'), { recursive: true });
  return new KeptCompilations({
    directory,
    compilerDirectory,
    determinismChecks: 'error',
    logger: silentLogger,
    ...options,
  });
}

const folderOf = (t: TestContext): string => join(temporaryDirectory(t), 'compilations');

describe('kept compilations', () => {
  it('are found by another process', async (t) => {
    const folder = folderOf(t);
    const first = opened(folder);
    const key = await first.keyOf(OF_ONE, await PackedSources.pack([COUNTER]));
    assert.equal(await first.find(key, 'reducer'), undefined);
    await first.keep(key, REFUSAL);
    const second = opened(folder);
    assert.equal(await second.keyOf(OF_ONE, await PackedSources.pack([{ ...COUNTER }])), key);
    assert.deepEqual(await second.find(key, 'reducer'), REFUSED);
    assert.deepEqual(readdirSync(folder), [key], 'nothing else is left');
  });

  it('are of one tenant, kind, text, path, strictness and compiler, in whatever order the files came', async (t) => {
    const folder = folderOf(t);
    const kept = opened(folder);
    const keys = [
      await kept.keyOf(OF_ONE, await PackedSources.pack([COUNTER])),
      await kept.keyOf({ ...OF_ONE, tenantId: 'two' }, await PackedSources.pack([COUNTER])),
      await kept.keyOf({ kind: 'reducer' }, await PackedSources.pack([COUNTER])),
      await kept.keyOf({ ...OF_ONE, kind: 'projection' }, await PackedSources.pack([COUNTER])),
      await kept.keyOf(OF_ONE, await PackedSources.pack([{ ...COUNTER, text: `${COUNTER.text}\n` }])),
      await kept.keyOf(OF_ONE, await PackedSources.pack([{ ...COUNTER, path: 'Other.cs' }])),
      await kept.keyOf(OF_ONE, await PackedSources.pack([COUNTER, EMPTY])),
      await opened(folder, { determinismChecks: 'off' }).keyOf(OF_ONE, await PackedSources.pack([COUNTER])),
    ];
    writeFileSync(join(folder, '..', 'compiler', 'ref', 'System.dll'), 'another framework');
    keys.push(await opened(folder).keyOf(OF_ONE, await PackedSources.pack([COUNTER])));
    assert.equal(new Set(keys).size, keys.length);
    const both = await kept.keyOf(OF_ONE, await PackedSources.pack([COUNTER, EMPTY]));
    assert.equal(await kept.keyOf(OF_ONE, await PackedSources.pack([EMPTY, COUNTER])), both);
  });

  it('are not believed when they are not whole, and are made anew', async (t) => {
    const folder = folderOf(t);
    const kept = opened(folder);
    const key = await kept.keyOf(OF_ONE, await PackedSources.pack([COUNTER]));
    await kept.keep(key, REFUSAL);
    const path = join(folder, key);
    const bytes = readFileSync(path);
    const altered = Buffer.from(bytes);
    altered.writeUInt8(altered.readUInt8(40) ^ 1, 40);
    for (const spoilt of [Buffer.alloc(0), bytes.subarray(0, -1), Buffer.concat([bytes, Buffer.alloc(1)]), altered]) {
      writeFileSync(path, spoilt);
      assert.equal(await kept.find(key, 'reducer'), undefined);
    }
    await kept.keep(key, REFUSAL);
    assert.deepEqual(await kept.find(key, 'reducer'), REFUSED);
  });

  it('are removed when nobody has asked for them in 30 days', async (t) => {
    const folder = folderOf(t);
    const first = opened(folder);
    const asked = await first.keyOf(OF_ONE, await PackedSources.pack([COUNTER]));
    const unasked = await first.keyOf(OF_ONE, await PackedSources.pack([EMPTY]));
    for (const key of [asked, unasked]) {
      await first.keep(key, REFUSAL);
      const before = new Date(Date.now() - 29 * DAY_MS);
      utimesSync(join(folder, key), before, before);
    }
    const second = opened(folder);
    await second.keyOf(OF_ONE, await PackedSources.pack([COUNTER]));
    assert.deepEqual(await second.find(asked, 'reducer'), REFUSED);
    assert.deepEqual(readdirSync(folder).sort(), [asked, unasked].sort());
    const longer = new Date(Date.now() - 31 * DAY_MS);
    utimesSync(join(folder, unasked), longer, longer);
    const third = opened(folder);
    await third.keyOf(OF_ONE, await PackedSources.pack([COUNTER]));
    assert.deepEqual(await third.find(asked, 'reducer'), REFUSED, 'its time began anew');
    assert.deepEqual(readdirSync(folder), [asked]);
  });

  it('are none where their folder can not be used, which is said', async (t) => {
    const folder = folderOf(t);
    mkdirSync(join(folder, '..'), { recursive: true });
    writeFileSync(folder, 'a file');
    const said: string[] = [];
    const kept = opened(folder, {
      logger: { ...silentLogger, warn: (_: object, text: string) => void said.push(text) },
    });
    const key = await kept.keyOf(OF_ONE, await PackedSources.pack([COUNTER]));
    await kept.keep(key, REFUSAL);
    assert.equal(await kept.find(key, 'reducer'), undefined);
    assert.match(said[0] ?? '', /folder of kept compilations/);
    assert.match(said[1] ?? '', /could not be kept/);
    assert.equal(said.length, 2);
  });
});
