import { crc32 } from 'node:zlib';
import { fromBufferPromise, type Entry, type LocalFileHeader, type ZipFile } from 'yauzl';
import { StatefoldError } from '../core/errors.js';
import { nextTurn } from '../core/slices.js';
import type { SourceFile } from '../deployments/source-file.js';

export interface ArchiveLimits {
  /** Bytes of all sources together, counted while they are inflated. */
  readonly maxInflatedBytes: number;
  /** Entries of every kind, also those that are not read. */
  readonly maxArchiveEntries: number;
}

const refused = (what: string, cause?: unknown): StatefoldError =>
  new StatefoldError('INVALID_ARCHIVE', what, cause === undefined ? {} : { cause });

const ENCRYPTED = 0x0001 | 0x0040 | 0x2000;
/** General purpose bit 3: sizes and checksum follow the data, and may be 0 in the local header. */
const SIZES_FOLLOW = 0x0008;
const STORED = 0;
const DEFLATED = 8;
const UNIX = 3;
const FILE_TYPE = 0o170000;
const REGULAR = 0o100000;
const DIRECTORY = 0o040000;
/** An archive is a bomb, not source code, past this many bytes out for one in. Small files compress better than this now and then. */
export const MAX_RATIO = 200;
export const RATIO_FLOOR = 64 * 1024;
const MAX_PATH = 256;

/** What an archive looks like, wherever its file came from. */
export const isZip = (bytes: Buffer): boolean =>
  bytes.length >= 4 && bytes.readUInt16BE(0) === 0x504b && [0x0304, 0x0506].includes(bytes.readUInt16BE(2));

/** Of a project with its fixtures: those too, which are the JSON files below a folder `fixtures`. */
export const isFixture = (path: string): boolean =>
  /(^|\/)fixtures\/.+\.json$/i.test(path) && !path.startsWith('__MACOSX/');

/**
 * The `.cs` files of a zip, and others that are `wanted`, in memory. Nothing that an archive says is believed: the central directory, each local header and
 * the bytes themselves must agree. Entries of other kinds are passed over, but their names are checked like all.
 * @throws StatefoldError INVALID_ARCHIVE with what to do
 */
export async function readArchive(
  bytes: Buffer,
  limits: ArchiveLimits,
  wanted: (path: string) => boolean = () => false,
): Promise<SourceFile[]> {
  try {
    return await readEntries(
      await fromBufferPromise(bytes, { strictFileNames: true, validateEntrySizes: true, decodeStrings: true }),
      bytes,
      limits,
      wanted,
    );
  } catch (error) {
    if (error instanceof StatefoldError) throw error;
    throw refused(
      `The zip cannot be read: ${error instanceof Error ? error.message : 'it is damaged'}. Make it again with a common zip tool.`,
      error,
    );
  }
}

async function readEntries(
  zip: ZipFile,
  bytes: Buffer,
  limits: ArchiveLimits,
  wanted: (path: string) => boolean,
): Promise<SourceFile[]> {
  if (zip.entryCount > limits.maxArchiveEntries) {
    throw refused(
      `The archive has ${zip.entryCount} entries, more than the limit of ${limits.maxArchiveEntries}. Upload only the sources.`,
    );
  }
  const entries: { readonly entry: Entry; readonly header: LocalFileHeader }[] = [];
  const paths = new PathSet();
  for await (const entry of zip.eachEntry()) {
    checkEntry(entry);
    paths.add(entry.fileName);
    const header = await zip.readLocalFileHeaderPromise(entry);
    checkHeader(entry, header);
    entries.push({ entry, header });
  }
  checkOverlaps(entries, bytes.length);
  const sources: SourceFile[] = [];
  let left = limits.maxInflatedBytes;
  for (const { entry } of entries) {
    if (!isSource(entry.fileName) && !wanted(entry.fileName)) continue;
    const content = new SourceContent(entry.fileName);
    await inflate(zip, entry, left, limits.maxInflatedBytes, content);
    left -= content.bytes;
    sources.push(content.end());
  }
  return sources;
}

/** Only C# is read; the resource forks that macOS puts beside files are not C#. */
const isSource = (path: string): boolean => /\.cs$/i.test(path) && !path.startsWith('__MACOSX/');

function checkEntry(entry: Entry): void {
  const { fileName } = entry;
  const name = JSON.stringify(fileName);
  if ((entry.generalPurposeBitFlag & ENCRYPTED) !== 0)
    throw refused(`The entry ${name} is encrypted. Upload an archive without a password.`);
  if (entry.compressionMethod !== STORED && entry.compressionMethod !== DEFLATED) {
    throw refused(
      `The entry ${name} has a compression method other than stored or deflate. Make the archive with a common zip tool.`,
    );
  }
  const isDirectory = fileName.endsWith('/');
  if (entry.versionMadeBy >>> 8 === UNIX) {
    const type = (entry.externalFileAttributes >>> 16) & FILE_TYPE;
    if (type !== 0 && type !== (isDirectory ? DIRECTORY : REGULAR))
      throw refused(`The entry ${name} is a link or a special file. Put the file itself in the archive.`);
  }
  if (isDirectory && entry.uncompressedSize !== 0)
    throw refused(`The entry ${name} is a directory with content. Make the archive again.`);
}

/** The local header, which other tools believe, must say what the central directory says. */
function checkHeader(entry: Entry, header: LocalFileHeader): void {
  const mismatch = (what: string): StatefoldError =>
    refused(
      `The entry ${JSON.stringify(entry.fileName)} has another ${what} in its header than in the directory of the archive. Make the archive again.`,
    );
  if (!header.fileName.equals(entry.fileNameRaw)) throw mismatch('name');
  if (header.compressionMethod !== entry.compressionMethod) throw mismatch('compression method');
  if ((header.generalPurposeBitFlag & ENCRYPTED) !== 0) throw mismatch('encryption');
  const follow = (header.generalPurposeBitFlag & SIZES_FOLLOW) !== 0;
  // 0xffffffff stands for a size in a zip64 field: that one is a plain lie, the archive being small.
  if (!(follow && header.compressedSize === 0) && header.compressedSize !== entry.compressedSize && !isZip64(header))
    throw mismatch('size');
  if (
    !(follow && header.uncompressedSize === 0) &&
    header.uncompressedSize !== entry.uncompressedSize &&
    !isZip64(header)
  )
    throw mismatch('size');
  if (!(follow && header.crc32 === 0) && header.crc32 !== entry.crc32) throw mismatch('checksum');
}

/** A zip64 local header: its sizes are in the extra field, and the central directory's were read from one as well. */
const isZip64 = (header: LocalFileHeader): boolean =>
  header.compressedSize === 0xffffffff && header.uncompressedSize === 0xffffffff;

function checkOverlaps(
  entries: readonly { readonly entry: Entry; readonly header: LocalFileHeader }[],
  length: number,
): void {
  const ranges = entries
    .map(({ entry, header }) => ({
      start: entry.relativeOffsetOfLocalHeader,
      end: header.fileDataStart + entry.compressedSize,
      name: entry.fileName,
    }))
    .sort((a, b) => a.start - b.start);
  let end = 0;
  for (const range of ranges) {
    if (range.start < end)
      throw refused(
        `The entry ${JSON.stringify(range.name)} overlaps another one. Make the archive again with a common zip tool.`,
      );
    end = range.end;
  }
  if (end > length) throw refused('The archive is cut short. Upload the whole file.');
}

async function inflate(zip: ZipFile, entry: Entry, left: number, limit: number, content: SourceContent): Promise<void> {
  const tooMuch = (): StatefoldError =>
    refused(`The sources inflate to more than the limit of ${limit} bytes. Upload only the sources that are needed.`);
  if (entry.uncompressedSize > left) throw tooMuch();
  const cap = Math.max(RATIO_FLOOR, entry.compressedSize * MAX_RATIO);
  let sum = 0;
  const stream = await zip.openReadStreamPromise(entry);
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    const length = content.bytes + chunk.length;
    if (length > left) throw tooMuch();
    if (length > cap)
      throw refused(
        `The entry ${JSON.stringify(entry.fileName)} inflates more than ${MAX_RATIO} times. Upload it as a plain file if it is really source code.`,
      );
    sum = crc32(chunk, sum);
    await content.add(chunk);
  }
  if (sum !== entry.crc32)
    throw refused(
      `The entry ${JSON.stringify(entry.fileName)} is damaged: its checksum doesn't match. Make the archive again.`,
    );
}

/** A file that is longer stays in the pieces that it came in: each look at 20 MB in one go takes some milliseconds. */
const LONG_BYTES = 1024 * 1024;
/** Of a file that is there so much is looked at in one go. */
const PIECE_BYTES = 256 * 1024;

/** What a source file has, as it comes. */
class SourceContent {
  readonly #path: string;
  // It takes a byte order mark away.
  readonly #decoder = new TextDecoder('utf-8', { fatal: true });
  readonly #pieces: string[] = [];
  bytes = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** @throws StatefoldError INVALID_ARCHIVE */
  async add(chunk: Buffer): Promise<void> {
    this.bytes += chunk.length;
    for (let at = 0; at < chunk.length; at += PIECE_BYTES) {
      if (at > 0) await nextTurn();
      this.#decode(chunk.subarray(at, at + PIECE_BYTES), true);
    }
  }

  /** @throws StatefoldError INVALID_ARCHIVE */
  end(): SourceFile {
    this.#decode(undefined, false);
    const pieces = this.#pieces;
    return { path: this.#path, text: this.bytes < LONG_BYTES ? pieces.join('') : pieces };
  }

  #decode(chunk: Buffer | undefined, stream: boolean): void {
    try {
      this.#pieces.push(this.#decoder.decode(chunk, { stream }));
    } catch (error) {
      throw refused(`The file ${JSON.stringify(this.#path)} is not UTF-8. Save it as UTF-8.`, error);
    }
  }
}

/** A source by its path and bytes, on its own. @throws StatefoldError INVALID_ARCHIVE */
export async function sourceFile(path: string, bytes: Buffer): Promise<SourceFile> {
  const content = new SourceContent(path);
  await content.add(bytes);
  return content.end();
}

// eslint-disable-next-line no-control-regex -- control characters are what it refuses
const FORBIDDEN = /[\u0000-\u001f\u007f\\:]/;

/** Paths of one upload: each is safe to show and to join, and none comes twice, not even in other letter case. */
export class PathSet {
  readonly #seen = new Set<string>();

  /** @throws StatefoldError INVALID_ARCHIVE */
  add(path: string): void {
    const name = JSON.stringify(path);
    const parts = (path.endsWith('/') ? path.slice(0, -1) : path).split('/');
    if (
      path === '' ||
      path.length > MAX_PATH ||
      FORBIDDEN.test(path) ||
      parts.some((part) => part === '' || part === '.' || part === '..')
    ) {
      throw refused(
        `The path ${name} is not allowed. Use relative paths of at most ${MAX_PATH} characters with / between the parts, and no ., .., drive letters or control characters.`,
      );
    }
    const folded = parts.join('/').normalize('NFC').toLowerCase();
    if (this.#seen.has(folded)) throw refused(`The path ${name} comes twice. Give each file a name of its own.`);
    this.#seen.add(folded);
  }
}
