import type { JsonObject } from './json-values.js';
import type { LinearPattern } from './linear-pattern.js';
import type { Evaluated, Run } from './run.js';

/** What one keyword asks of a value. False: it doesn't fit, and the run was told why. */
export type Check = (value: unknown, run: Run, evaluated: Evaluated | undefined) => boolean;

/** Makes the check of a keyword's value; undefined: there is nothing to check. @throws FaultyKeyword */
export type Keyword = (value: unknown, context: KeywordContext) => Check | undefined;

/** A schema within the document, ready to check values. */
export interface Node {
  /** In their order; those that look at what others have evaluated come last. */
  readonly checks: Check[];
  readonly resource: Resource;
  /** Schemas that are applied to the same value as this one is. */
  readonly inPlace: { readonly node: Node; readonly pointer: string }[];
  /** `false` as a schema. */
  readonly never: boolean;
}

/** The document, or a schema in it with an `$id` of its own. */
export interface Resource {
  readonly uri: string;
  readonly root: unknown;
  readonly pointer: string;
  readonly anchors: Map<string, unknown>;
  readonly dynamicAnchors: Map<string, unknown>;
}

/** Whether the value fits. Of `evaluated` it is told what the schema looked at, where that is asked. */
export function apply(node: Node, value: unknown, run: Run, evaluated: Evaluated | undefined): boolean {
  run.enter();
  if (node.never) {
    run.depth--;
    return run.violated('must not be there: the schema allows nothing here');
  }
  const entered = run.scope.length > 0 && run.scope.at(-1) !== node.resource;
  if (entered) run.scope.push(node.resource);
  let fits = true;
  for (const check of node.checks) {
    if (check(value, run, evaluated)) continue;
    fits = false;
    if (run.isDecided) break;
  }
  if (entered) run.scope.pop();
  run.depth--;
  return fits;
}

/** What the checks of keywords are made with. */
export interface KeywordContext {
  /** The schema that the keyword is a member of. */
  readonly schema: JsonObject;
  /** For what is looked at of one more value; undefined where no schema of the document asks for it. */
  evaluated(): Evaluated | undefined;
  /** Of the keyword's value, or a part of it. @throws FaultyKeyword where it is no schema */
  node(value: unknown, ...parts: (string | number)[]): Node;
  /** The same, of a schema that is applied to the very value. */
  inPlace(value: unknown, ...parts: (string | number)[]): Node;
  /** What the reference names in this document. @throws FaultyKeyword */
  reference(uri: string): Node;
  /** The same, where the outermost schema that was entered decides. @throws FaultyKeyword */
  dynamicReference(uri: string): (run: Run) => Node;
  pattern(source: string): LinearPattern;
}

/** Why a schema is none, at the keyword or a part of it. */
export class FaultyKeyword extends Error {
  constructor(
    message: string,
    readonly parts: readonly (string | number)[] = [],
  ) {
    super(message);
  }
}
