import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { crc32, deflateRawSync } from 'node:zlib';
import { StatefoldError } from '../../src/core/errors.js';
import { isZip, readArchive, sourceFile } from '../../src/http/archive.js';

/** One entry as its bytes are written; what is left out is as a sound archive has it. */
interface Part {
  readonly name: string | Buffer;
  readonly content?: Buffer;
  readonly method?: 0 | 8 | 99;
  readonly flags?: number;
  readonly localName?: string;
  readonly localFlags?: number;
  readonly localSize?: number;
  readonly size?: number;
  readonly compressedSize?: number;
  readonly crc?: number;
  readonly mode?: number;
  readonly offset?: number;
  readonly data?: Buffer;
}

function zip(parts: readonly Part[], end: { count?: number; zip64?: boolean } = {}): Buffer {
  const files: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const part of parts) {
    const content = part.content ?? Buffer.from('class A {}');
    const method = part.method ?? 8;
    const data = part.data ?? (method === 8 ? deflateRawSync(content) : content);
    const crc = part.crc ?? crc32(content);
    const raw = Buffer.from(part.name as string);
    const local = Buffer.alloc(30);
    const localName = part.localName === undefined ? raw : Buffer.from(part.localName);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(20, 4);
    local.writeUInt16LE(part.localFlags ?? part.flags ?? 0, 6);
    local.writeUInt16LE(method, 8);
    local.writeUInt32LE(crc, 14);
    local.writeUInt32LE(part.compressedSize ?? data.length, 18);
    local.writeUInt32LE(part.localSize ?? part.size ?? content.length, 22);
    local.writeUInt16LE(localName.length, 26);
    const central = Buffer.alloc(46);
    central.writeUInt32LE(0x02014b50, 0);
    central.writeUInt16LE((3 << 8) | 20, 4);
    central.writeUInt16LE(20, 6);
    central.writeUInt16LE(part.flags ?? 0, 8);
    central.writeUInt16LE(method, 10);
    central.writeUInt32LE(crc, 16);
    central.writeUInt32LE(part.compressedSize ?? data.length, 20);
    central.writeUInt32LE(part.size ?? content.length, 24);
    central.writeUInt16LE(raw.length, 28);
    central.writeUInt32LE(((part.mode ?? 0o100644) << 16) >>> 0, 38);
    central.writeUInt32LE(part.offset ?? offset, 42);
    directory.push(central, raw);
    files.push(local, localName, data);
    offset += local.length + localName.length + data.length;
  }
  const length = directory.reduce((sum, part) => sum + part.length, 0);
  const eocd = Buffer.alloc(22);
  eocd.writeUInt32LE(0x06054b50, 0);
  eocd.writeUInt16LE(end.count ?? parts.length, 8);
  eocd.writeUInt16LE(end.count ?? parts.length, 10);
  eocd.writeUInt32LE(length, 12);
  eocd.writeUInt32LE(offset, 16);
  const zip64: Buffer[] = [];
  if (end.zip64 === true) {
    const record = Buffer.alloc(56);
    record.writeUInt32LE(0x06064b50, 0);
    record.writeBigUInt64LE(44n, 4);
    record.writeBigUInt64LE(4_000_000_000n, 24);
    record.writeBigUInt64LE(4_000_000_000n, 32);
    record.writeBigUInt64LE(BigInt(length), 40);
    record.writeBigUInt64LE(BigInt(offset), 48);
    const locator = Buffer.alloc(20);
    locator.writeUInt32LE(0x07064b50, 0);
    locator.writeBigUInt64LE(BigInt(offset + length), 8);
    locator.writeUInt32LE(1, 16);
    zip64.push(record, locator);
  }
  return Buffer.concat([...files, ...directory, ...zip64, eocd]);
}

const LIMITS = { maxInflatedBytes: 1024 * 1024, maxArchiveEntries: 5 };
const read = (bytes: Buffer): ReturnType<typeof readArchive> => readArchive(bytes, LIMITS);
const refuses = async (bytes: Buffer, reason: RegExp): Promise<void> => {
  await assert.rejects(read(bytes), (error) => {
    assert.ok(error instanceof StatefoldError, String(error));
    assert.equal(error.code, 'INVALID_ARCHIVE');
    assert.match(error.message, reason);
    return true;
  });
};

describe('an archive', () => {
  it('gives its C# files, and passes over the rest', async () => {
    const bytes = zip([
      { name: 'src/', content: Buffer.alloc(0), method: 0, mode: 0o040755 },
      { name: 'src/A.cs', content: Buffer.from('\ufeffclass A { /* é */ }') },
      { name: 'B.CS', content: Buffer.from('class B {}'), method: 0 },
      { name: 'README.md', content: Buffer.from([0xff]) },
      { name: '__MACOSX/._A.cs', content: Buffer.from([0xff]) },
    ]);
    assert.ok(isZip(bytes));
    assert.deepEqual(await read(bytes), [
      { path: 'src/A.cs', text: 'class A { /* é */ }' },
      { path: 'B.CS', text: 'class B {}' },
    ]);
  });

  it('may tell the sizes behind the data', async () => {
    const content = Buffer.from('class A {}');
    const bytes = zip([{ name: 'A.cs', content, flags: 8 }]);
    bytes.fill(0, 14, 26);
    assert.equal((await read(bytes))[0]?.text, 'class A {}');
  });

  const paths: [string, string | Buffer][] = [
    ['a parent', '../A.cs'],
    ['a parent inside', 'src/../../A.cs'],
    ['an absolute path', '/etc/A.cs'],
    ['a backslash', 'src\\A.cs'],
    ['a drive letter', 'C:/A.cs'],
    ['a stream of a file', 'A.cs:x.cs'],
    ['a NUL', 'A.cs\0.cs'],
    ['an empty part', 'src//A.cs'],
    ['a dot', './A.cs'],
    ['a long name', `${'a'.repeat(300)}.cs`],
  ];
  for (const [what, name] of paths) it(`with ${what} in a name is refused`, () => refuses(zip([{ name }]), /./));

  it('with a name twice is refused, in other letter case too', () =>
    refuses(zip([{ name: 'A.cs' }, { name: 'a.CS' }]), /comes twice/));
  it('with a link is refused', () =>
    refuses(zip([{ name: 'A.cs', mode: 0o120777, content: Buffer.from('/etc/passwd') }]), /link or a special file/));
  it('with a link that no reader would follow is refused', () =>
    refuses(zip([{ name: 'A.cs' }, { name: 'notes', mode: 0o120777 }]), /link or a special file/));
  it('with a device is refused', () => refuses(zip([{ name: 'A.cs', mode: 0o020666 }]), /special file/));
  it('that is encrypted is refused', () => refuses(zip([{ name: 'A.cs', flags: 1 }]), /encrypted/));
  it('encrypted by its local header alone is refused', () =>
    refuses(zip([{ name: 'A.cs', localFlags: 1 }]), /encryption/));
  it('with another compression is refused', () => refuses(zip([{ name: 'A.cs', method: 99 }]), /compression method/));
  it('whose header has another name is refused', () =>
    refuses(zip([{ name: 'A.cs', localName: 'B.cs' }]), /another name/));
  it('whose header has another size is refused', () => refuses(zip([{ name: 'A.cs', localSize: 1 }]), /another size/));
  it('whose header is a zip64 lie is refused', () =>
    refuses(zip([{ name: 'A.cs', localSize: 0xffffffff }]), /another size/));
  it('whose directory claims billions of entries is refused', () =>
    refuses(zip([{ name: 'A.cs' }], { zip64: true }), /4000000000 entries/));
  it('that claims a size it has not is refused', () => refuses(zip([{ name: 'A.cs', size: 5 }]), /./));
  it('that claims a zip64 size it has not is refused', () => refuses(zip([{ name: 'A.cs', size: 0xffffffff }]), /./));
  it('whose entries overlap is refused', () => {
    const one = { name: 'A.cs', content: Buffer.from('class A {}') };
    return refuses(zip([one, { ...one, name: 'B.cs', localName: 'A.cs', offset: 0 }]), /another name|overlaps/);
  });
  it('whose data runs into the next entry is refused', () => {
    const inner = zip([{ name: 'B.cs' }]);
    // A.cs is stored, and its content is where B.cs begins.
    const outer = zip([
      { name: 'A.cs', content: inner, method: 0 },
      { name: 'B.cs', offset: 34 },
    ]);
    return refuses(outer, /overlaps/);
  });
  it('with a wrong checksum is refused', () => refuses(zip([{ name: 'A.cs', crc: 1 }]), /checksum/));
  it('with more entries than the limit is refused', () =>
    refuses(zip(Array.from({ length: 6 }, (_, i) => ({ name: `${i}.txt` }))), /6 entries/));
  it('that says it has fewer entries than it has reads none of the others', async () => {
    assert.equal((await read(zip([{ name: 'A.cs' }, { name: '../B.cs' }], { count: 1 }))).length, 1);
  });
  it('that inflates past the limit is refused', () => {
    const half = Buffer.from(Array.from({ length: 150_000 }, (_, i) => `${i}`).join(','));
    return refuses(
      zip([
        { name: 'A.cs', content: half },
        { name: 'B.cs', content: half },
      ]),
      /more than the limit/,
    );
  });
  it('that lies about its size and inflates past the limit is refused', () =>
    refuses(zip([{ name: 'A.cs', content: Buffer.alloc(3 * 1024 * 1024, 0x20), size: 100 }]), /./));
  it('that is a bomb is refused', () =>
    refuses(zip([{ name: 'A.cs', content: Buffer.alloc(900_000, 0x20) }]), /inflates more than 200 times/));
  it('with sources that are not UTF-8 is refused', async () => {
    await refuses(zip([{ name: 'A.cs', content: Buffer.from([0x63, 0xe9]) }]), /not UTF-8/);
    // At the end of a long one, too, where a character is cut off.
    const cut = Buffer.from('é'.repeat(400_000)).subarray(0, -1);
    await refuses(zip([{ name: 'A.cs', content: cut, method: 0 }]), /not UTF-8/);
    await assert.rejects(sourceFile('A.cs', cut), /not UTF-8/);
  });

  it('with a long source has it in pieces, which end between characters', async () => {
    // Characters of one to four bytes, so that each end of a chunk comes within some.
    const text = 'a😀é漢'.repeat(200_000);
    const bytes = Buffer.from(`\ufeff${text}`);
    const limits = { maxInflatedBytes: 20_000_000, maxArchiveEntries: 10 };
    const [inflated] = await readArchive(zip([{ name: 'A.cs', content: bytes, method: 0 }]), limits);
    for (const file of [inflated, await sourceFile('A.cs', bytes)]) {
      const pieces = file?.text ?? assert.fail();
      assert.ok(Array.isArray(pieces) && pieces.length > 4 && pieces.every((piece: string) => piece.isWellFormed()));
      assert.equal(pieces.join(''), text);
    }
    assert.deepEqual(await sourceFile('B.cs', Buffer.from('\ufeffclass B;')), { path: 'B.cs', text: 'class B;' });
    assert.deepEqual(await sourceFile('C.cs', Buffer.alloc(0)), { path: 'C.cs', text: '' });
  });
  it('that is cut short or damaged is refused', async () => {
    const whole = zip([{ name: 'A.cs' }, { name: 'B.cs' }]);
    for (let length = 4; length < whole.length; length += 3) await refuses(whole.subarray(0, length), /./);
    await refuses(Buffer.from('PK\x03\x04 nothing of the kind'), /cannot be read/);
  });
});
