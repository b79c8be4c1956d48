import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { closeFrame, FrameBoundary } from '../../src/http/gateway/frame-boundary.js';

function frame(opcode: number, length: number): Buffer {
  const head =
    length < 126
      ? [length]
      : length < 65_536
        ? [126, length >> 8, length & 0xff]
        : [127, 0, 0, 0, 0, length >>> 24, (length >>> 16) & 0xff, (length >>> 8) & 0xff, length & 0xff];
  return Buffer.concat([Buffer.from([0x80 | opcode, ...head]), Buffer.alloc(length, 0x88)]);
}

const LENGTHS = fc.constantFrom(0, 1, 125, 126, 127, 300, 65_535, 65_536, 70_000);

test('a place between two frames is known as such, however the bytes come, and no other', () => {
  fc.assert(
    fc.property(
      fc.array(LENGTHS, { minLength: 1, maxLength: 6 }),
      fc.array(fc.nat(), { maxLength: 20 }),
      (lengths, cuts) => {
        const frames = lengths.map((length) => frame(1, length));
        const bytes = Buffer.concat(frames);
        const ends = new Set(frames.reduce<number[]>((all, { length }) => [...all, (all.at(-1) ?? 0) + length], [0]));
        const boundary = new FrameBoundary();
        let from = 0;
        for (const to of [...new Set([...cuts.map((cut) => cut % bytes.length), bytes.length])].sort((a, b) => a - b)) {
          boundary.pass(bytes.subarray(from, to));
          from = to;
          assert.equal(boundary.open, ends.has(to), `after ${to} bytes`);
        }
      },
    ),
  );
});

test('after a close frame nothing is put in', () => {
  const boundary = new FrameBoundary();
  boundary.pass(frame(1, 3));
  assert.equal(boundary.open, true);
  boundary.pass(closeFrame(1001, 'resume'));
  assert.equal(boundary.open, false);
});
