import type { IncomingMessage } from 'node:http';
import { StatefoldError } from '../core/errors.js';
import type { SourceFile } from '../deployments/source-file.js';
import {
  isFixture,
  isZip,
  MAX_RATIO,
  PathSet,
  RATIO_FLOOR,
  readArchive,
  sourceFile,
  type ArchiveLimits,
} from './archive.js';
import { declaredLength, MAX_FORM_BYTES, readBody, RequestAbortedError, tooLarge } from './body.js';
import { MalformedFormError, readForm, TooManyPartsError, type FormPart } from './form.js';
import { memoryOf, responseOf } from './request-memory.js';

export interface UploadLimits extends ArchiveLimits {
  /** Bytes of all files, as sent. */
  readonly maxUploadBytes: number;
}

export interface Upload {
  readonly sources: readonly SourceFile[];
  /** JSON files; none where they are not asked for. */
  readonly fixtures: readonly SourceFile[];
  /** The form's fields that aren't files. */
  readonly fields: ReadonlyMap<string, string>;
}

interface ReceivedFile {
  readonly name: string;
  readonly content: Buffer;
}

interface FormField {
  readonly name: string;
  readonly value: string;
}

const CONFIG_FIELD = 'config';
const isCode = (path: string): boolean => /\.cs$/i.test(path);
const MAX_FIELDS = 20;
const MAX_FIELD_BYTES = 64 * 1024;

/** The most that an upload of so many bytes takes in memory: as it was sent, and inflated. NaN: it does not say how long it is. */
function memoryFor(length: number, { maxUploadBytes, maxInflatedBytes }: UploadLimits): number {
  const sent = Number.isNaN(length) ? maxUploadBytes : length;
  return sent + Math.min(maxInflatedBytes, Math.max(RATIO_FLOOR, sent * MAX_RATIO));
}

/**
 * Reads an upload of sources: one zip in any file field, or `.cs` files in any; `withFixtures` JSON files beside them, in a zip those
 * below a folder `fixtures`. All of it is in memory, within the limits, and is held of the tenant's budget until the request is answered.
 * @throws StatefoldError UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, INVALID_ARCHIVE, INVALID_REQUEST, RATE_LIMITED, UNAVAILABLE
 */
export async function readUpload(
  request: IncomingMessage,
  limits: UploadLimits,
  { withFixtures = false }: { readonly withFixtures?: boolean } = {},
): Promise<Upload> {
  const contentType = request.headers['content-type'] ?? '';
  if (!/^multipart\/form-data\s*;/i.test(contentType)) {
    throw new StatefoldError(
      'UNSUPPORTED_MEDIA_TYPE',
      'An upload needs the header Content-Type: multipart/form-data with a boundary.',
    );
  }
  if (declaredLength(request) > limits.maxUploadBytes + MAX_FORM_BYTES) throw tooLarge(limits.maxUploadBytes);
  const response = responseOf(request);
  const hold = response && (await memoryOf(request)?.uploadOf(response, memoryFor(declaredLength(request), limits)));
  // To whoever went away while it waited nothing is told of that any more.
  if (request.destroyed) throw new RequestAbortedError('the client closed the connection');
  const body = await wholeBody(request, limits);
  const turn = memoryOf(request)?.turnFor(body.length);
  if (turn !== undefined) await turn;
  const { files, fields } = await receive(body, contentType, limits);
  const all = await sourcesOf(files, limits, withFixtures);
  hold?.set(all.reduce((sum, file) => sum + lengthOf(file), 0));
  return { sources: all.filter(({ path }) => isCode(path)), fixtures: all.filter(({ path }) => !isCode(path)), fields };
}

const lengthOf = ({ text }: SourceFile): number =>
  typeof text === 'string' ? text.length : text.reduce((sum, { length }) => sum + length, 0);

/** The form as it was sent; one that is too long is told of its files, which are what makes it so. */
function wholeBody(request: IncomingMessage, { maxUploadBytes }: UploadLimits): Promise<Buffer> {
  const most = maxUploadBytes + MAX_FORM_BYTES;
  return readBody(request, most, () => tooLarge(maxUploadBytes));
}

/** @throws StatefoldError INVALID_REQUEST where the form has a field other than these */
export function requireFields(fields: ReadonlyMap<string, string>, known: readonly string[]): void {
  for (const name of fields.keys()) {
    if (!known.includes(name))
      throw new StatefoldError(
        'INVALID_REQUEST',
        `The form has a field ${JSON.stringify(name)}; the known ones besides files are: ${known.join(', ') || 'none'}.`,
      );
  }
}

async function sourcesOf(
  files: readonly ReceivedFile[],
  limits: ArchiveLimits,
  withFixtures: boolean,
): Promise<readonly SourceFile[]> {
  const archives = files.filter(({ content }) => isZip(content));
  const [archive] = archives;
  if (archive !== undefined) {
    if (files.length > 1)
      throw new StatefoldError(
        'INVALID_ARCHIVE',
        'The upload has an archive and other files. Send one zip, or .cs files alone.',
      );
    const sources = await readArchive(archive.content, limits, withFixtures ? isFixture : undefined);
    if (!sources.some(({ path }) => isCode(path)))
      throw new StatefoldError('INVALID_ARCHIVE', 'The archive has no .cs file. Put the C# sources in it.');
    return sources;
  }
  if (files.length === 0)
    throw new StatefoldError(
      'INVALID_ARCHIVE',
      'The upload has no file. Send a zip of .cs files, for instance in the field "file".',
    );
  const paths = new PathSet();
  const sources: SourceFile[] = [];
  for (const { name, content } of files) {
    if (!isCode(name) && !(withFixtures && /\.json$/i.test(name)))
      throw new StatefoldError(
        'INVALID_ARCHIVE',
        `The file ${JSON.stringify(name)} is neither a zip nor a .cs file. Send one zip, or .cs files.`,
      );
    paths.add(name);
    sources.push(await sourceFile(name, content));
  }
  return sources;
}

async function receive(
  body: Buffer,
  contentType: string,
  limits: UploadLimits,
): Promise<{ files: ReceivedFile[]; fields: Map<string, string> }> {
  const files: ReceivedFile[] = [];
  const fields: FormField[] = [];
  for (const { name, filename, content } of await partsOf(body, contentType, limits)) {
    // What has a file name is a file, whether or not its part declares a type; all else is a field. So is the config, which curl takes
    // from a file with -F config=@notifications.json.
    if (filename !== null && filename !== '' && name !== CONFIG_FIELD) files.push({ name: filename, content });
    else fields.push({ name: name ?? '', value: content.toString('utf8') });
  }
  requireFew(files, fields, limits);
  return { files, fields: valuesOf(fields) };
}

async function partsOf(body: Buffer, contentType: string, limits: UploadLimits): Promise<readonly FormPart[]> {
  try {
    return await readForm(body, contentType, limits.maxArchiveEntries + MAX_FIELDS + 1);
  } catch (error) {
    if (error instanceof TooManyPartsError) throw tooManyFiles(limits);
    if (!(error instanceof MalformedFormError)) throw error;
    throw new StatefoldError('INVALID_REQUEST', `The body is not valid multipart/form-data: ${error.message}.`, {
      cause: error,
    });
  }
}

function requireFew(files: readonly ReceivedFile[], fields: readonly FormField[], limits: UploadLimits): void {
  if (files.length > limits.maxArchiveEntries) throw tooManyFiles(limits);
  if (files.reduce((sum, { content }) => sum + content.length, 0) > limits.maxUploadBytes)
    throw tooLarge(limits.maxUploadBytes);
  const bytes = fields.reduce((sum, { value }) => sum + Buffer.byteLength(value), 0);
  if (fields.length > MAX_FIELDS || bytes > MAX_FIELD_BYTES)
    throw new StatefoldError(
      'PAYLOAD_TOO_LARGE',
      `The form has more than ${MAX_FIELDS} fields or ${MAX_FIELD_BYTES} bytes of them.`,
    );
}

const tooManyFiles = ({ maxArchiveEntries }: UploadLimits): StatefoldError =>
  new StatefoldError('INVALID_ARCHIVE', `The upload has more files than the limit of ${maxArchiveEntries}.`);

/** @throws StatefoldError INVALID_REQUEST where one is there twice */
function valuesOf(fields: readonly FormField[]): Map<string, string> {
  for (const { name } of fields) {
    const times = fields.filter((other) => other.name === name).length;
    if (times > 1)
      throw new StatefoldError('INVALID_REQUEST', `The form has the field ${JSON.stringify(name)} ${times} times.`);
  }
  return new Map(fields.map(({ name, value }) => [name, value]));
}
