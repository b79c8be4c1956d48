import type { IncomingMessage, ServerResponse } from 'node:http';
import { Writable } from 'node:stream';
import formidable, { errors as formidableErrors, multipart } from 'formidable';
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
import { declaredLength, MAX_FORM_BYTES, RequestAbortedError, tooLarge } from './body.js';
import { memoryOf } from './request-memory.js';

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
  if (!/^multipart\/form-data\s*;/i.test(request.headers['content-type'] ?? '')) {
    throw new StatefoldError(
      'UNSUPPORTED_MEDIA_TYPE',
      'An upload needs the header Content-Type: multipart/form-data with a boundary.',
    );
  }
  if (declaredLength(request) > limits.maxUploadBytes + MAX_FORM_BYTES) throw tooLarge(limits.maxUploadBytes);
  // express has the response beside the request.
  const { res: response } = request as IncomingMessage & { readonly res?: ServerResponse };
  const hold = response && (await memoryOf(request)?.uploadOf(response, memoryFor(declaredLength(request), limits)));
  // To whoever went away while it waited nothing is told of that any more.
  if (request.destroyed) throw new RequestAbortedError('the client closed the connection');
  const { files, fields } = await receive(request, limits);
  const turn = memoryOf(request)?.turnFor(files.reduce((sum, { content }) => sum + content.length, 0));
  if (turn !== undefined) await turn;
  const all = await sourcesOf(files, limits, withFixtures);
  hold?.set(all.reduce((sum, { text }) => sum + text.length, 0));
  return { sources: all.filter(({ path }) => isCode(path)), fixtures: all.filter(({ path }) => !isCode(path)), fields };
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
  return files.map(({ name, content }) => {
    if (!isCode(name) && !(withFixtures && /\.json$/i.test(name)))
      throw new StatefoldError(
        'INVALID_ARCHIVE',
        `The file ${JSON.stringify(name)} is neither a zip nor a .cs file. Send one zip, or .cs files.`,
      );
    paths.add(name);
    return sourceFile(name, content);
  });
}

async function receive(
  request: IncomingMessage,
  limits: UploadLimits,
): Promise<{ files: ReceivedFile[]; fields: Map<string, string> }> {
  const received = new Map<object, Buffer[]>();
  const form = formidable({
    enabledPlugins: [multipart],
    maxFiles: limits.maxArchiveEntries,
    maxFileSize: limits.maxUploadBytes,
    maxTotalFileSize: limits.maxUploadBytes,
    maxFields: MAX_FIELDS,
    maxFieldsSize: MAX_FIELD_BYTES,
    allowEmptyFiles: true,
    minFileSize: 0,
    fileWriteStreamHandler: (file) => {
      const chunks: Buffer[] = [];
      if (file !== undefined) received.set(file, chunks);
      return new Writable({
        write(chunk: Buffer, _encoding, done) {
          chunks.push(chunk);
          done();
        },
      });
    },
  });
  // What has a file name is a file, whether or not its part declares a type; all else is a field. So is the config, which curl takes
  // from a file with -F config=@notifications.json.
  form.onPart = (part) => {
    if (part.name === CONFIG_FIELD) part.originalFilename = null;
    part.mimetype =
      part.originalFilename === null || part.originalFilename === ''
        ? null
        : (part.mimetype ?? 'application/octet-stream');
    form._handlePart(part);
  };
  try {
    const [fields, files] = await form.parse(request);
    return {
      files: Object.values(files)
        .flatMap((list) => list ?? [])
        .map((file) => ({ name: file.originalFilename ?? '', content: Buffer.concat(received.get(file) ?? []) })),
      fields: new Map(Object.entries(fields).map(([name, values]) => [name, single(name, values ?? [])])),
    };
  } catch (error) {
    throw uploadError(error, limits);
  }
}

function single(name: string, values: readonly string[]): string {
  if (values.length > 1)
    throw new StatefoldError(
      'INVALID_REQUEST',
      `The form has the field ${JSON.stringify(name)} ${values.length} times.`,
    );
  return values[0] ?? '';
}

function uploadError(error: unknown, limits: UploadLimits): unknown {
  if (error instanceof StatefoldError || !(error instanceof Error)) return error;
  const code = (error as Error & { readonly code?: unknown }).code;
  switch (code) {
    case formidableErrors.biggerThanMaxFileSize:
    case formidableErrors.biggerThanTotalMaxFileSize:
      return tooLarge(limits.maxUploadBytes);
    case formidableErrors.maxFilesExceeded:
      return new StatefoldError(
        'INVALID_ARCHIVE',
        `The upload has more files than the limit of ${limits.maxArchiveEntries}.`,
        { cause: error },
      );
    case formidableErrors.maxFieldsSizeExceeded:
    case formidableErrors.maxFieldsExceeded:
      return new StatefoldError(
        'PAYLOAD_TOO_LARGE',
        `The form has more than ${MAX_FIELDS} fields or ${MAX_FIELD_BYTES} bytes of them.`,
        { cause: error },
      );
    case formidableErrors.aborted:
      return new RequestAbortedError('the client closed the connection');
    default:
      return new StatefoldError(
        'INVALID_REQUEST',
        'The body is not valid multipart/form-data: a part is malformed or the last boundary is missing.',
        { cause: error },
      );
  }
}
