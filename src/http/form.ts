import { Readable } from 'node:stream';
import formidable, { multipart, type Part } from 'formidable';

/** A part of a form, its content as it was meant. */
export interface FormPart {
  readonly name: string | null;
  readonly filename: string | null;
  readonly content: Buffer;
}

/** The body is no multipart/form-data, or none that an honest client makes. */
export class MalformedFormError extends Error {
  override readonly name = 'MalformedFormError';
}

/** The form has more parts than asked for. */
export class TooManyPartsError extends Error {
  override readonly name = 'TooManyPartsError';
}

/** RFC 2046, 5.1.1. */
const MAX_BOUNDARY = 70;
/** Of the headers of one part: a disposition with two names, and a type. */
const MAX_HEAD_BYTES = 4096;
/** formidable looks for a file's name from each `filename=` to the end of the header. */
const MAX_FILENAMES = 8;
/** What formidable takes for a header: at a line of another kind it sees the headers end. */
const HEADER_LINE = /^[a-z-]+:[^\r\n]*$/i;
const CRLF = Buffer.from('\r\n');
const HEAD_END = Buffer.from('\r\n\r\n');
const SKELETON = 'skeleton';

interface RawPart {
  readonly head: Buffer;
  readonly content: Buffer;
}

/**
 * The parts of a form, in their order. formidable reads their headers alone, within bounds: it makes an event, and a stream's chunk, of each
 * carriage return in a content, 19 s for 5 MiB of them, and fails outside of any promise at encodings that it takes
 * (`docs/decisions/forms-are-split-here.md`).
 * @throws MalformedFormError, TooManyPartsError
 */
export async function readForm(body: Buffer, contentType: string, mostParts: number): Promise<readonly FormPart[]> {
  const raw = splitForm(body, boundaryOf(contentType), mostParts);
  const heads = await readHeads(raw);
  return raw.map(({ content }, i) => formPart(heads[i], content));
}

function boundaryOf(contentType: string): string {
  const [, quoted, plain = quoted] = /boundary=(?:"([^"]+)"|([^;]+))/i.exec(contentType) ?? [];
  const boundary = plain?.trim() ?? '';
  if (boundary === '' || boundary.length > MAX_BOUNDARY)
    throw new MalformedFormError(`the boundary has no character, or more than ${MAX_BOUNDARY}`);
  return boundary;
}

function splitForm(body: Buffer, boundary: string, mostParts: number): readonly RawPart[] {
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  const parts: RawPart[] = [];
  if (body.length === 0 || body.equals(Buffer.from(`--${boundary}\r\n`))) return parts;
  if (!body.subarray(0, delimiter.length - CRLF.length).equals(delimiter.subarray(CRLF.length)))
    throw new MalformedFormError('it does not begin with the boundary');
  // A delimiter that neither ends nor begins a part is malformed, so that there is no more work than parts.
  for (let at = delimiter.length - CRLF.length; !isLast(body, at);) {
    if (parts.length === mostParts) throw new TooManyPartsError();
    const start = at + CRLF.length;
    const headEnd = body.subarray(start, start + MAX_HEAD_BYTES).indexOf(HEAD_END);
    if (headEnd < 0)
      throw new MalformedFormError(`a part has no headers, or more than ${MAX_HEAD_BYTES} bytes of them`);
    const head = body.subarray(start, start + headEnd);
    requireHead(head);
    const content = start + headEnd + HEAD_END.length;
    const end = body.indexOf(delimiter, content);
    if (end < 0) throw new MalformedFormError('the last boundary is missing');
    parts.push({ head, content: body.subarray(content, end) });
    at = end + delimiter.length;
  }
  return parts;
}

/** Whether the boundary that ends there is that of the end. */
function isLast(body: Buffer, at: number): boolean {
  const behind = body.toString('latin1', at, at + CRLF.length);
  if (behind !== '\r\n' && behind !== '--')
    throw new MalformedFormError('a line begins with the boundary, and goes on');
  return behind === '--';
}

function requireHead(head: Buffer): void {
  const lines = head.toString('latin1').split('\r\n');
  if (!lines.every((line) => HEADER_LINE.test(line))) throw new MalformedFormError('a header of a part is none');
  if (lines.some((line) => line.split(/filename=/i).length > MAX_FILENAMES + 1))
    throw new MalformedFormError('a header of a part names a file again and again');
}

/** What formidable makes of the headers, of parts without a content. It refuses encodings that it doesn't know. */
async function readHeads(parts: readonly RawPart[]): Promise<readonly Part[]> {
  const lines = parts.flatMap(({ head }) => [Buffer.from(`--${SKELETON}\r\n`), head, Buffer.from('\r\n\r\n\r\n')]);
  const skeleton = Buffer.concat([...lines, Buffer.from(`--${SKELETON}--\r\n`)]);
  const request = Object.assign(Readable.from([skeleton]), {
    headers: {
      'content-type': `multipart/form-data; boundary=${SKELETON}`,
      'content-length': String(skeleton.length),
    },
  });
  const heads: Part[] = [];
  const form = formidable({ enabledPlugins: [multipart] });
  form.onPart = (part) => void heads.push(part);
  try {
    await form.parse(request as unknown as Parameters<typeof form.parse>[0]);
  } catch (error) {
    throw new MalformedFormError('the headers of a part can not be read', { cause: error });
  }
  if (heads.length !== parts.length) throw new MalformedFormError('the headers of the parts can not be told apart');
  return heads;
}

function formPart(head: Part | undefined, content: Buffer): FormPart {
  // The type of a part lacks it.
  const { transferEncoding } = (head ?? {}) as { readonly transferEncoding?: string };
  return {
    name: head?.name ?? null,
    filename: head?.originalFilename ?? null,
    content: transferEncoding === 'base64' ? Buffer.from(content.toString('latin1'), 'base64') : content,
  };
}
