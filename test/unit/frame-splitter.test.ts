import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FrameSplitter } from '../../src/code-host/dotnet/frame-splitter.js';
import { WireError } from '../../src/code-host/dotnet/wire.js';

function frame(requestId: number, tag: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  head.writeUInt32LE(payload.length + 5, 0);
  head.writeUInt32LE(requestId, 4);
  head[8] = tag;
  return Buffer.concat([head, payload]);
}

test('frames come out whole and unchanged, however their bytes come in', () => {
  const one = fc.record({ requestId: fc.nat(), tag: fc.nat(255), payload: fc.uint8Array({ maxLength: 300 }) });
  fc.assert(
    fc.property(
      fc.array(one, { minLength: 1, maxLength: 8 }),
      fc.array(fc.nat(), { maxLength: 30 }),
      (frames, cuts) => {
        const bytes = Buffer.concat(frames.map(({ requestId, tag, payload }) => frame(requestId, tag, payload)));
        const found: { requestId: number; tag: number; payload: Buffer }[] = [];
        const splitter = new FrameSplitter((each) => void found.push(each));
        let from = 0;
        for (const to of [...new Set([...cuts.map((cut) => cut % bytes.length), bytes.length])].sort((a, b) => a - b)) {
          splitter.push(Buffer.from(bytes.subarray(from, to)));
          from = to;
        }
        // Only now: what was handed on earlier may not change with what comes later.
        assert.deepEqual(
          found.map(({ requestId, tag, payload }) => ({ requestId, tag, payload: new Uint8Array(payload) })),
          frames.map(({ requestId, tag, payload }) => ({ requestId, tag, payload: new Uint8Array(payload) })),
        );
      },
    ),
  );
});

test('a large frame that comes byte by byte takes no more than what came', () => {
  const splitter = new FrameSplitter(() => assert.fail('it is not complete'));
  const head = Buffer.alloc(4);
  head.writeUInt32LE(60 * 1024 * 1024);
  splitter.push(head);
  const before = process.memoryUsage();
  for (let i = 0; i < 300_000; i++) splitter.push(Buffer.from([1]));
  const after = process.memoryUsage();
  assert.ok(after.external - before.external < 4 * 1024 * 1024, `${after.external - before.external} bytes`);
});

test('a length that no frame has is refused as soon as it is there', () => {
  for (const length of [0, 4, 64 * 1024 * 1024 + 1, 0xffffffff]) {
    const head = Buffer.alloc(4);
    head.writeUInt32LE(length);
    const splitter = new FrameSplitter(() => undefined);
    splitter.push(head.subarray(0, 3));
    assert.throws(() => splitter.push(head.subarray(3)), WireError);
  }
});
