import type { CompileRequest, CompileResult, Diagnostic, Discovered } from '../code-host.js';
import type { PackedSources } from '../packed-sources.js';
import { FrameReader } from './frame-reader.js';
import type { FrameWriter } from './frame-writer.js';
import { MAX_FRAME, Tag, WireError } from './wire.js';

/** What becomes of code that can't be replayed: refused, told of, or not looked for. */
export type DeterminismChecks = 'error' | 'warn' | 'off';

/** As the compiler has them (`ArtefactCompiler.cs`, `SourceLimits.cs`); no answer of a compiler is believed to keep them. */
const MAX_FINDINGS = 1000;
const MAX_CLASSES = 500;
const MAX_NAME_BYTES = 1024;
const MAX_NAMES_BYTES = 64 * 1024;
/** It tells 64 Ki characters of errors, and as many of findings. */
const MAX_TOLD_BYTES = 256 * 1024;
/** Past 512 KiB it says of each class that its state may be anything. */
const MAX_STATE_TYPES = 1024 * 1024;

const CHECKS: Record<DeterminismChecks, number> = { off: 0, warn: 1, error: 2 };

export function encodeCompile(
  writer: FrameWriter,
  requestId: number,
  { kind, sources }: Pick<CompileRequest, 'kind'> & { readonly sources: PackedSources },
  checks: DeterminismChecks,
): void {
  writer.begin(requestId, Tag.Compile);
  writer.byte(kind === 'projection' ? 1 : 0);
  writer.blob(sources.bytes);
  writer.byte(CHECKS[checks]);
}

/** @throws WireError */
export function decodeCompiled(payload: Buffer, kind: CompileRequest['kind']): CompileResult {
  const reader = new FrameReader(payload);
  const ok = reader.byte();
  if (ok === 0) {
    const compilationError = reader.string(MAX_TOLD_BYTES);
    const diagnostics = readDiagnostics(reader);
    return { ok: false, compilationError, diagnostics };
  }
  if (ok !== 1) throw new WireError('an outcome is of no known kind');
  // A copy: the frame around it need not be kept as long.
  const assembly = Buffer.from(reader.blob(MAX_FRAME));
  const names = new Strings(reader, MAX_NAMES_BYTES);
  const discovered = Array.from({ length: reader.count(MAX_CLASSES) }, () => readDiscovered(names, kind));
  const stateTypes = Buffer.from(reader.blob(MAX_STATE_TYPES));
  const diagnostics = readDiagnostics(reader);
  return { ok: true, assembly, discovered, stateTypes, diagnostics };
}

/** Reads strings that have no more than so many bytes together. */
class Strings {
  readonly #reader: FrameReader;
  #left: number;

  constructor(reader: FrameReader, maxBytes: number) {
    this.#reader = reader;
    this.#left = maxBytes;
  }

  /** @throws WireError where it is longer than `maxBytes`, or than what is left for all */
  next(maxBytes = this.#left): string {
    const text = this.#reader.string(Math.min(maxBytes, this.#left));
    this.#left -= Buffer.byteLength(text);
    return text;
  }
}

function readDiscovered(names: Strings, kind: CompileRequest['kind']): Discovered {
  const className = names.next(MAX_NAME_BYTES);
  const stateTypeName = names.next(MAX_NAME_BYTES);
  const aggregateType = names.next(MAX_NAME_BYTES);
  return { className, stateTypeName, kind, ...(aggregateType === '' ? {} : { aggregateType }) };
}

function readDiagnostics(reader: FrameReader): Diagnostic[] {
  const diagnostics: Diagnostic[] = [];
  const told = new Strings(reader, MAX_TOLD_BYTES);
  for (let left = reader.count(MAX_FINDINGS); left > 0; left--) {
    const severity = reader.byte() === 1 ? 'error' : 'warning';
    const code = told.next();
    const message = told.next();
    const file = told.next();
    const line = reader.varUint();
    const column = reader.varUint();
    diagnostics.push({
      severity,
      code,
      message,
      file: file === '' ? null : file,
      line: line === 0 ? null : line,
      column: column === 0 ? null : column,
    });
  }
  reader.finish();
  return diagnostics;
}
