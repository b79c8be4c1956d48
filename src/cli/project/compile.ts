import type { CodeHost, CompileResult, Diagnostic, Discovered } from '../../code-host/code-host.js';
import type { Project } from './sources.js';

export interface CompiledKind {
  readonly discovered: readonly Discovered[];
  readonly assembly: Buffer;
}

/** A project as the service would compile it: once as an upload of reducers, once as one of projections. */
export interface CompiledProject {
  /** Undefined: it has no class of that kind. */
  readonly reducer: CompiledKind | undefined;
  readonly projection: CompiledKind | undefined;
  /** Warnings. */
  readonly diagnostics: readonly Diagnostic[];
}

/** The code of an upload that has nothing of its kind. */
const NOTHING_FOUND = 'SF0001';

/** The project does not compile. */
export class CompileError extends Error {
  override readonly name = 'CompileError';
  readonly diagnostics: readonly Diagnostic[];

  constructor(diagnostics: readonly Diagnostic[]) {
    super('the project does not compile');
    this.diagnostics = diagnostics;
  }
}

/** @throws CompileError also where there is neither a reducer nor a projection */
export async function compileProject(host: CodeHost, { sources }: Pick<Project, 'sources'>): Promise<CompiledProject> {
  const reducer = await host.compile({ kind: 'reducer', sources });
  const projection = await host.compile({ kind: 'projection', sources });
  const results = [reducer, projection];
  // What is wrong with the code is told for both kinds; what is wrong with the classes of a kind for that one.
  const errors = distinct(
    results.flatMap(({ diagnostics }) =>
      diagnostics.filter(({ severity, code }) => severity === 'error' && code !== NOTHING_FOUND),
    ),
  );
  if (errors.length > 0) throw new CompileError([...errors, ...warningsOf(results)]);
  const [reducers, projections] = [kindOf(reducer), kindOf(projection)];
  if (reducers === undefined && projections === undefined) {
    const message = 'No class in the project implements IReducer<T> or IProjection<T>.';
    throw new CompileError([{ severity: 'error', code: NOTHING_FOUND, message, file: null, line: null, column: null }]);
  }
  return { reducer: reducers, projection: projections, diagnostics: warningsOf(results) };
}

const kindOf = (result: CompileResult): CompiledKind | undefined =>
  result.ok ? { discovered: result.discovered, assembly: result.assembly } : undefined;
const warningsOf = (results: readonly CompileResult[]): Diagnostic[] =>
  distinct(results.flatMap(({ diagnostics }) => diagnostics.filter(({ severity }) => severity === 'warning')));

function distinct(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  return [
    ...new Map(
      diagnostics.map((one) => [JSON.stringify([one.code, one.file, one.line, one.column, one.message]), one]),
    ).values(),
  ];
}
