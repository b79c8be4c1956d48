import type { CompileRequest, CompileResult, Diagnostic, Discovered, SourceText } from '../code-host.js';
import { FrameReader } from './frame-reader.js';
import type { FrameWriter } from './frame-writer.js';
import { MAX_FRAME, Tag, WireError } from './wire.js';

/** What becomes of code that can't be replayed: refused, told of, or not looked for. */
export type DeterminismChecks = 'error' | 'warn' | 'off';

/** More than the compiler tells of: 100 findings, and classes in 4 MiB of sources. */
const MAX_FINDINGS = 1000;
const MAX_CLASSES = 10_000;
/** Where they would be more, it says of each class that it may be anything. */
const MAX_STATE_TYPES = 4 * 1024 * 1024;

const CHECKS: Record<DeterminismChecks, number> = { off: 0, warn: 1, error: 2 };

export function encodeCompile(
  writer: FrameWriter,
  requestId: number,
  request: Pick<CompileRequest, 'kind'> & { readonly sources: readonly SourceText[] },
  checks: DeterminismChecks,
): void {
  writer.begin(requestId, Tag.Compile);
  writer.byte(request.kind === 'projection' ? 1 : 0);
  writer.varUint(request.sources.length);
  for (const source of request.sources) {
    writer.string(source.path);
    writer.blob(Buffer.from(source.text));
  }
  writer.byte(CHECKS[checks]);
}

/** @throws WireError */
export function decodeCompiled(payload: Buffer, kind: CompileRequest['kind']): CompileResult {
  const reader = new FrameReader(payload);
  const ok = reader.byte();
  if (ok === 0) {
    const compilationError = reader.string(1024 * 1024);
    const diagnostics = readDiagnostics(reader);
    return { ok: false, compilationError, diagnostics };
  }
  if (ok !== 1) throw new WireError('an outcome is of no known kind');
  // A copy: the frame around it need not be kept as long.
  const assembly = Buffer.from(reader.blob(MAX_FRAME));
  const discovered = Array.from({ length: reader.count(MAX_CLASSES) }, () => readDiscovered(reader, kind));
  const stateTypes = Buffer.from(reader.blob(MAX_STATE_TYPES));
  const diagnostics = readDiagnostics(reader);
  return { ok: true, assembly, discovered, stateTypes, diagnostics };
}

function readDiscovered(reader: FrameReader, kind: CompileRequest['kind']): Discovered {
  const className = reader.string();
  const stateTypeName = reader.string();
  const aggregateType = reader.string();
  return { className, stateTypeName, kind, ...(aggregateType === '' ? {} : { aggregateType }) };
}

function readDiagnostics(reader: FrameReader): Diagnostic[] {
  const diagnostics: Diagnostic[] = [];
  for (let left = reader.count(MAX_FINDINGS); left > 0; left--) {
    const severity = reader.byte() === 1 ? 'error' : 'warning';
    const code = reader.string();
    const message = reader.string();
    const file = reader.string();
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
