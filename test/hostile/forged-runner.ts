// A runner that is wholly the attacker's: it has the seal, speaks the protocol, and answers events of the type `attack:<name>` as no
// honest program does. Everything else it folds as `tally` would. Started in the place of the real one; see `forged-world.ts`.
import { readdirSync, readFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { Seal } from '../../src/code-host/dotnet/seal.js';

const MIB = 1024 * 1024;
const socket = new Socket({ fd: 3, readable: true, writable: true });
const life = new Socket({ fd: 4, readable: true, writable: false });
life.on('end', () => process.exit(0)).on('error', () => process.exit(0));
life.resume();
let seal: Seal | undefined;

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const varUint = (value: number): Buffer => {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return Buffer.from([...bytes, rest]);
};
const text = (value: string): Buffer => Buffer.concat([varUint(Buffer.byteLength(value)), Buffer.from(value)]);
const state = (json: string): Buffer =>
  Buffer.concat([Buffer.from([1]), u32(Buffer.byteLength(json)), Buffer.from(json)]);
const change = (key: string, outcome = 0, rest: Buffer = Buffer.from([0])): Buffer =>
  Buffer.concat([Buffer.from([0, 0]), text(key), Buffer.from([outcome]), rest]);

function frame(requestId: number, tag: number, ...payload: readonly Buffer[]): Buffer {
  const body = Buffer.concat(payload);
  return Buffer.concat([
    u32(body.length + 5 + 8),
    u32(requestId),
    Buffer.from([tag]),
    body,
    seal?.take() ?? Buffer.alloc(8),
  ]);
}

/** What is said to a projection's request instead of an answer. */
const ATTACKS: Readonly<Record<string, (requestId: number) => readonly Buffer[]>> = {
  equal: (id) => [frame(id, 133, u32(500_000), Buffer.alloc(500_000 * 6, Buffer.from([0, 0, 1, 0x6b, 0, 0])))],
  million: (id) => [frame(id, 133, u32(3_000_000), Buffer.alloc(3_000_000 * 6, Buffer.from([0, 0, 1, 0x6b, 0, 0])))],
  distinct: (id) => [frame(id, 133, u32(60_000), ...Array.from({ length: 60_000 }, (_, i) => change(`key-${i}`)))],
  empty: (id) => [frame(id, 131, varUint(30_000_000), Buffer.alloc(60_000_000))],
  asking: (id) => [
    frame(
      id,
      131,
      varUint(60_000),
      ...Array.from({ length: 60_000 }, (_, i) => Buffer.concat([Buffer.from([0]), text(`key-${i}`)])),
    ),
  ],
  'asking twice': (id) => {
    const question = [varUint(1), Buffer.from([0]), text('key')];
    return [frame(id, 131, ...question), frame(id, 131, ...question)];
  },
  'asking for nothing': (id) => [frame(id, 131, varUint(0))],
  'asking for one key twice': (id) => [
    frame(id, 131, varUint(2), Buffer.from([0]), text('key'), Buffer.from([0]), text('key')),
  ],
  claim: () => [u32(0xffffffff)],
  'state too large': (id) => [frame(id, 133, u32(1), change('key', 0, state(`"${'x'.repeat(2 * MIB)}"`)))],
  'state too deep': (id) => [frame(id, 133, u32(1), change('key', 0, state('['.repeat(100) + ']'.repeat(100))))],
  'no json': (id) => [frame(id, 133, u32(1), change('key', 0, state('{"a":}')))],
  'no utf-8': (id) => [frame(id, 133, u32(1), change('key', 0, Buffer.from([1, 3, 0, 0, 0, 0x22, 0xff, 0x22])))],
  'a long message': (id) => [
    frame(
      id,
      133,
      u32(1),
      change('key', 1, Buffer.concat([Buffer.from([0]), text('m'.repeat(60_000)), text(''), varUint(1)])),
    ),
  ],
  'a line that is none': (id) => [
    frame(id, 133, u32(1), change('key', 1, Buffer.concat([Buffer.from([0]), text('m'), text('f'), varUint(2 ** 40)]))),
  ],
  'no name': (id) => [frame(id, 133, u32(1), change('a\u0006b'))],
  'another kind': (id) => [frame(id, 132, u32(0), Buffer.from([0]))],
  'another request': (id) => [frame(id + 1, 133, u32(0))],
  'ready again': () => [frame(0, 128)],
  'more than too large': (id) => [frame(id, 134, Buffer.alloc(1000))],
  'twice the answer': (id) => [frame(id, 133, u32(0)), frame(id, 133, u32(0))],
  'a wrong seal': (id) => {
    const bent = frame(id, 133, u32(0));
    bent[bent.length - 1] = (bent.at(-1) ?? 0) ^ 1;
    return [bent];
  },
};

/** An honest answer as large as one may be, behind which the service ends as if it had no memory for it. */
function deadly(requestId: number): void {
  const changes = Array.from({ length: 900 }, (_, i) => change(`key-${i}`, 0, state(`"${'x'.repeat(20_000)}"`)));
  const marks = join(process.cwd(), '..', 'exchanges');
  socket.write(frame(requestId, 133, u32(changes.length), ...changes));
  // Its own folder is `work`; what the service notes before it works off a large answer is beside it.
  const timer = setInterval(() => {
    if (!readdirSync(marks).some((name) => readFileSync(join(marks, name), 'utf8').includes('"open":true'))) return;
    clearInterval(timer);
    process.kill(parentOf(process.ppid), 'SIGKILL');
  }, 1);
}

/** The service started what has started this. */
const parentOf = (pid: number): number =>
  Number(/^\d+ \(.*\) \w (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]);

class Fields {
  #at = 0;
  constructor(readonly bytes: Buffer) {}

  byte(): number {
    return this.bytes[this.#at++] ?? 0;
  }
  uint32(): number {
    this.#at += 4;
    return this.bytes.readUInt32LE(this.#at - 4);
  }
  varUint(): number {
    for (let value = 0, factor = 1; ; factor *= 0x80) {
      const next = this.byte();
      value += (next & 0x7f) * factor;
      if (next < 0x80) return value;
    }
  }
  take(length: number): Buffer {
    this.#at += length;
    return this.bytes.subarray(this.#at - length, this.#at);
  }
  text(): string {
    return this.take(this.varUint()).toString();
  }
  /** One event: its type and version, and whether the state after it is asked for. */
  event(previous: string): { readonly eventType: string; readonly version: number; readonly wanted: boolean } {
    const flags = this.byte();
    if ((flags & 1) === 0) void [this.text(), this.text()];
    const eventType = (flags & 2) === 0 ? this.text() : previous;
    if ((flags & 4) === 0) {
      if ((flags & 8) !== 0) this.text();
      if ((flags & 16) !== 0) this.text();
      if ((flags & 32) !== 0) this.take(this.uint32());
    }
    const version = this.varUint();
    this.take(8);
    this.take(this.uint32());
    return { eventType, version, wanted: (flags & 64) !== 0 };
  }
}

function folded(requestId: number, fields: Fields): Buffer {
  for (let left = fields.varUint(); left > 0; left--) void [fields.text(), fields.text()];
  const items = Array.from({ length: fields.varUint() }, () => {
    void [fields.varUint(), fields.text(), fields.text(), fields.varUint()];
    if (fields.byte() === 1 && fields.byte() === 1) fields.take(fields.uint32());
    const count = fields.varUint();
    fields.uint32();
    return count;
  });
  const answers = items.map((count) => {
    const states: Buffer[] = [];
    let type = '';
    for (let i = 1; i <= count; i++) {
      const { eventType, version, wanted } = fields.event(type);
      type = eventType;
      if (wanted)
        states.push(Buffer.concat([varUint(i), state(JSON.stringify({ count: version, version, last: type }))]));
    }
    return Buffer.concat([u32(states.length), ...states, Buffer.from([0])]);
  });
  return frame(requestId, 132, ...answers);
}

function project(requestId: number, fields: Fields): void {
  void [fields.byte(), fields.text()];
  for (let left = fields.varUint(); left > 0; left--) void [fields.text(), fields.text(), fields.text()];
  let type = '';
  for (let left = fields.varUint(); left > 0; left--) {
    type = fields.event(type).eventType;
    const attack = /^attack:(.+)$/.exec(type)?.[1];
    if (attack === 'deadly') return deadly(requestId);
    const frames = attack === undefined ? undefined : ATTACKS[attack]?.(requestId);
    if (frames !== undefined) return void frames.forEach((one) => socket.write(one));
  }
  socket.write(frame(requestId, 133, u32(0)));
}

let held = Buffer.alloc(0);
socket.on('data', (chunk: Buffer) => {
  held = Buffer.concat([held, chunk]);
  while (held.length >= 4 && held.length >= 4 + held.readUInt32LE()) {
    const end = 4 + held.readUInt32LE();
    const [requestId, tag, payload] = [held.readUInt32LE(4), held[8], Buffer.from(held.subarray(9, end))];
    held = held.subarray(end);
    if (tag === 8) {
      seal = new Seal(payload);
      socket.write(frame(0, 128));
    } else if (tag === 2) socket.write(frame(requestId, 130));
    else if (tag === 5) socket.write(folded(requestId, new Fields(payload)));
    else if (tag === 6) project(requestId, new Fields(payload));
  }
});
socket.on('error', () => process.exit(0));
