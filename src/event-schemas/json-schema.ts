import { StatefoldError, type FieldError } from '../core/errors.js';
import { escapedPart, partsOfPointer } from '../core/json-pointer.js';
import { isObject, own, type JsonObject } from './json-values.js';
import { CHECKS } from './keywords.js';
import { LinearPattern } from './linear-pattern.js';
import { Evaluated, Run, stepsFor } from './run.js';
import { apply, FaultyKeyword, type KeywordContext, type Node, type Resource } from './schema-node.js';

/** Bounds of one schema; `docs/reference/limits.md` tells them. */
export const MAX_SCHEMA_BYTES = 64 * 1024;
const MAX_SCHEMAS = 2_000;
/** Each is kept for as long as the schema is. */
const MAX_DYNAMIC_TARGETS = 10_000;
const MAX_DEPTH = 64;
/** Steps of the programs of all patterns. */
const MAX_PATTERN_STEPS = 20_000;
/** Classes of Unicode take hundreds of times the memory of other steps, and of the time to compile. */
const MAX_PATTERN_BYTES = 4 * 1024 * 1024;
/** Of memory, as measured: of each byte of the document as JSON, and of each place of a dynamic reference. */
const DOCUMENT_FACTOR = 60;
const TARGET_BYTES = 100;
/** So many places are told, of faults and of what checks nothing: a pointer may be as long as the schema. */
const MAX_FAULTS = 20;
/** What it costs to compile, in steps of a check: a schema, and so many bytes of a pattern's memory. */
const STEPS_OF_SCHEMA = 200;
const PATTERN_BYTES_PER_STEP = 4;
/** Schemas with an id that a dynamic reference looks through in a step. */
const SCOPE_PER_STEP = 8;

const DIALECT = 'https://json-schema.org/draft/2020-12/schema';
/** Relative references of a schema without an absolute `$id` are resolved against it; nothing is ever fetched. */
const BASE = 'schema:///';

interface Indexed {
  readonly resource: Resource;
  readonly pointer: string;
}

/** A keyword that checks nothing: JSON Schema ignores what it doesn't know. */
export interface IgnoredKeyword {
  readonly pointer: string;
  readonly keyword: string;
}

/** Where a keyword holds schemas. */
const IN_OBJECTS = ['$defs', 'definitions', 'properties', 'patternProperties', 'dependentSchemas'];
const IN_ARRAYS = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
const DIRECT = [
  ...['not', 'if', 'then', 'else', 'items', 'contains'],
  ...['additionalProperties', 'propertyNames', 'unevaluatedItems', 'unevaluatedProperties', 'contentSchema'],
];
/** What says something to readers, and checks nothing by design. */
const ANNOTATIONS = [
  ...['$schema', '$id', '$anchor', '$dynamicAnchor', '$comment', '$vocabulary', '$defs', 'definitions'],
  ...['title', 'description', 'default', 'deprecated', 'readOnly', 'writeOnly', 'examples'],
  ...['format', 'contentEncoding', 'contentMediaType', 'contentSchema'],
  // Read by the keyword that they belong to.
  ...['then', 'else', 'minContains', 'maxContains'],
];
export const KEYWORDS: readonly string[] = [...CHECKS.keys(), ...ANNOTATIONS];
const KNOWN: ReadonlySet<string> = new Set(KEYWORDS);
const ANCHOR = /^[A-Za-z_][-A-Za-z0-9._]*$/;

/**
 * A JSON Schema (2020-12) that is interpreted: nothing of it becomes code. It may come from anybody: patterns run in linear time,
 * nothing is fetched, and a check takes no more steps than the value's size allows.
 */
export class JsonSchema {
  /** The first ones. */
  readonly ignored: readonly IgnoredKeyword[];
  /** How many there are. */
  readonly ignoredCount: number;
  readonly #root: Node;
  readonly #evaluates: boolean;
  /** Of memory, about. */
  readonly bytes: number;

  /** @throws StatefoldError INVALID_REQUEST with each place that is wrong, as JSON pointers below `at` */
  constructor(document: unknown, at = '', compiler = new Compiler(document, at)) {
    // Those that are left: all, unless it was compiled by `pieces`.
    toItsEnd(compiler.pieces);
    this.#root = compiler.root;
    this.ignored = compiler.ignored;
    this.ignoredCount = compiler.ignoredCount;
    this.#evaluates = compiler.evaluates;
    this.bytes = compiler.bytes + DOCUMENT_FACTOR * JSON.stringify(document).length;
  }

  /** Compiles it a piece at a time, and tells what each piece cost in steps of a check. @throws what the constructor does */
  static *pieces(document: unknown, at = ''): Generator<number, JsonSchema, void> {
    const compiler = new Compiler(document, at);
    yield* compiler.pieces;
    return new JsonSchema(document, at, compiler);
  }

  /** What in the value doesn't fit, at JSON pointers below `at`; the first of it. `run` may go on over several values. @throws TooCostlyError */
  check(value: unknown, run: Run): boolean {
    return apply(this.#root, value, run, this.#evaluates ? new Evaluated() : undefined);
  }

  /** For one value of so many bytes. @throws TooCostlyError */
  violations(value: unknown, at: string, bytes: number): readonly FieldError[] {
    const run = new Run(at, stepsFor(bytes));
    this.check(value, run);
    return run.violations;
  }
}

class Compiler {
  /** To be gone through to its end before anything else is asked. */
  readonly pieces: Generator<number, void, void>;
  readonly ignored: IgnoredKeyword[] = [];
  ignoredCount = 0;
  readonly #at: string;
  readonly #document: unknown;
  readonly #resource: Resource;
  readonly #faults: FieldError[] = [];
  readonly #resources = new Map<string, Resource>();
  readonly #indexed = new Map<object, Indexed>();
  /** Those that are indexed, in the order of the document. */
  readonly #schemas: JsonObject[] = [];
  readonly #nodes = new Map<object, Node>();
  readonly #patterns = new Map<string, LinearPattern | FaultyKeyword>();
  #patternSteps = 0;
  #patternBytes = 0;
  #count = 0;
  #evaluates = false;
  /** Where dynamic references may lead, all of them together. */
  #dynamicTargets = 0;
  readonly #done = new Set<Node>();

  constructor(document: unknown, at: string) {
    this.#at = at;
    this.#document = document;
    this.#resource = resourceOf(BASE, document, '');
    this.pieces = this.#compileAll();
  }

  get root(): Node {
    return this.#nodeOf(this.#document, '', this.#resource);
  }

  *#compileAll(): Generator<number, void, void> {
    yield* this.#indexing(this.#document, '', this.#resource, 0);
    this.#refuse();
    this.#nodeOf(this.#document, '', this.#resource);
    // References may lead to more.
    for (const schema of this.#schemas) {
      for (const source of patternsOf(schema)) yield this.#prepare(source);
      this.#compile(schema);
      yield STEPS_OF_SCHEMA;
      if (this.#faults.length === MAX_FAULTS) break;
    }
    this.#refuse();
    for (const node of [...this.#nodes.values()]) {
      this.#refuseCycles(node);
      yield 1 + node.inPlace.length;
    }
    this.#refuse();
    if (this.#dynamicTargets > 0) {
      const { resource } = this.root;
      this.root.checks.unshift((_value, run) => {
        if (run.scope.length === 0) run.scope.push(resource);
        return true;
      });
    }
  }

  /** Some schema asks what others have evaluated. */
  get evaluates(): boolean {
    return this.#evaluates;
  }

  /** Of memory, beside what the length of the document tells. */
  get bytes(): number {
    return this.#patternBytes + TARGET_BYTES * this.#dynamicTargets;
  }

  #refuse(): void {
    const [first] = this.#faults;
    if (first === undefined) return;
    const more = this.#faults.length > 1 ? `, and ${this.#faults.length - 1} more` : '';
    throw new StatefoldError(
      'INVALID_REQUEST',
      `The schema is not one that can be used: ${first.pointer === '' ? 'it' : first.pointer} ${first.message}${more}.`,
      { errors: this.#faults },
    );
  }

  #fault(pointer: string, message: string): void {
    if (this.#faults.length < MAX_FAULTS) this.#faults.push({ pointer: this.#at + pointer, message });
  }

  /** Finds the schemas that lie in it, and what they are called; tells what each took, in steps. */
  *#indexing(schema: unknown, pointer: string, within: Resource, depth: number): Generator<number, void, void> {
    if (typeof schema === 'boolean') return;
    if (!isObject(schema)) return this.#fault(pointer, 'must be a schema: an object, or true or false');
    if (this.#indexed.has(schema)) return;
    if (++this.#count > MAX_SCHEMAS) {
      if (this.#count === MAX_SCHEMAS + 1)
        this.#fault(pointer, `is one schema too many: at most ${MAX_SCHEMAS} may lie in one`);
      return;
    }
    if (depth > MAX_DEPTH) return this.#fault(pointer, `lies too deep: at most ${MAX_DEPTH} schemas within each other`);
    const resource = this.#resourceFor(schema, pointer, within);
    this.#indexed.set(schema, { resource, pointer });
    this.#schemas.push(schema);
    yield STEPS_OF_SCHEMA;
    for (const [keyword, anchors] of [
      ['$anchor', resource.anchors],
      ['$dynamicAnchor', resource.dynamicAnchors],
    ] as const) {
      const name = own(schema, keyword);
      if (name === undefined) continue;
      if (typeof name !== 'string' || !ANCHOR.test(name))
        this.#fault(`${pointer}/${keyword}`, 'must begin with a letter or _, and have letters, digits, -, . and _');
      else if (resource.anchors.has(name) && resource.anchors.get(name) !== schema)
        this.#fault(`${pointer}/${keyword}`, `is the name of another schema too`);
      else {
        anchors.set(name, schema);
        resource.anchors.set(name, schema);
      }
    }
    this.#evaluates ||= Object.hasOwn(schema, 'unevaluatedItems') || Object.hasOwn(schema, 'unevaluatedProperties');
    const below = (value: unknown, ...parts: (string | number)[]): Generator<number, void, void> =>
      this.#indexing(value, below_(pointer, parts), resource, depth + 1);
    for (const keyword of DIRECT) {
      // A list is of earlier drafts: what to write in its place is said with the keyword.
      if (!Object.hasOwn(schema, keyword) || (keyword === 'items' && Array.isArray(schema[keyword]))) continue;
      yield* below(schema[keyword], keyword);
    }
    for (const keyword of IN_ARRAYS) {
      const list = own(schema, keyword);
      if (Array.isArray(list)) for (const [i, one] of list.entries()) yield* below(one, keyword, i);
    }
    for (const keyword of IN_OBJECTS) {
      const map = own(schema, keyword);
      if (isObject(map)) for (const name of Object.keys(map)) yield* below(map[name], keyword, name);
    }
  }

  /** The resource that the schema lies in, or is. */
  #resourceFor(schema: JsonObject, pointer: string, within: Resource): Resource {
    const dialect = own(schema, '$schema');
    if (dialect !== undefined && dialect !== DIALECT && dialect !== `${DIALECT}#`)
      this.#fault(
        `${pointer}/$schema`,
        `must be ${DIALECT}, or be left out: other versions of JSON Schema mean other things`,
      );
    const id = own(schema, '$id');
    if (id === undefined) {
      if (pointer === '') this.#resources.set(within.uri, within);
      return within;
    }
    const uri = typeof id === 'string' ? resolved(id, within.uri) : undefined;
    if (uri === undefined || /#./.test(uri)) {
      this.#fault(`${pointer}/$id`, 'must be a URI reference without a fragment');
      return within;
    }
    const resource = resourceOf(uri.replace(/#$/, ''), schema, pointer);
    if (this.#resources.has(resource.uri)) this.#fault(`${pointer}/$id`, 'is the id of another schema too');
    this.#resources.set(resource.uri, resource);
    return resource;
  }

  #nodeOf(schema: unknown, pointer: string, within: Resource): Node {
    if (!isObject(schema)) return { checks: [], resource: within, inPlace: [], never: schema === false };
    if (!this.#indexed.has(schema)) toItsEnd(this.#indexing(schema, pointer, within, 0));
    let node = this.#nodes.get(schema);
    if (node === undefined) {
      const resource = this.#indexed.get(schema)?.resource ?? within;
      this.#nodes.set(schema, (node = { checks: [], resource, inPlace: [], never: false }));
    }
    return node;
  }

  #compile(schema: JsonObject): void {
    const { resource, pointer } = this.#indexed.get(schema) as Indexed;
    const node = this.#nodeOf(schema, pointer, resource);
    for (const keyword of Object.keys(schema))
      if (!KNOWN.has(keyword) && !keyword.startsWith('x-') && this.ignoredCount++ < MAX_FAULTS)
        this.ignored.push({ pointer: `${this.#at}${pointer}/${escapedPart(keyword)}`, keyword });
    for (const [name, keyword] of CHECKS) {
      const value = own(schema, name);
      if (value === undefined) continue;
      try {
        const check = keyword(value, this.#context(schema, node, resource, pointer, name));
        if (check !== undefined) node.checks.push(check);
      } catch (error) {
        if (!(error instanceof FaultyKeyword)) throw error;
        this.#fault(below_(pointer, [name, ...error.parts]), error.message);
      }
    }
  }

  #context(schema: JsonObject, node: Node, resource: Resource, pointer: string, name: string): KeywordContext {
    const place = below_(pointer, [name]);
    const child = (value: unknown, parts: readonly (string | number)[]): Node =>
      this.#nodeOf(value, below_(place, parts), resource);
    const inPlace = (target: Node): Node => {
      node.inPlace.push({ node: target, pointer: place });
      return target;
    };
    const evaluates = (): boolean => this.#evaluates;
    return {
      schema,
      evaluated: () => (evaluates() ? new Evaluated() : undefined),
      node: (value, ...parts) => child(value, parts),
      inPlace: (value, ...parts) => inPlace(child(value, parts)),
      reference: (uri) => inPlace(this.#target(uri, resource).node),
      dynamicReference: (uri) => {
        const { node: target, anchor } = this.#target(uri, resource);
        inPlace(target);
        if (anchor === undefined || !target.resource.dynamicAnchors.has(anchor)) return () => target;
        this.#dynamicTargets += this.#resources.size;
        if (this.#dynamicTargets > MAX_DYNAMIC_TARGETS)
          throw new FaultyKeyword(
            `is one too many: such references may lead to ${MAX_DYNAMIC_TARGETS} places together, each to one for every $id`,
          );
        const byResource = new Map<unknown, Node>();
        for (const one of this.#resources.values()) {
          const found = one.dynamicAnchors.get(anchor);
          if (found !== undefined) byResource.set(one, inPlace(this.#nodeOf(found, one.pointer, one)));
        }
        return (run) => {
          run.spend(run.scope.length / SCOPE_PER_STEP);
          for (const entered of run.scope) {
            const found = byResource.get(entered);
            if (found !== undefined) return found;
          }
          return target;
        };
      },
      pattern: (source) => this.#pattern(source),
    };
  }

  #target(reference: string, within: Resource): { readonly node: Node; readonly anchor: string | undefined } {
    const uri = reference.startsWith('#') ? within.uri + reference : resolved(reference, within.uri);
    if (uri === undefined) throw new FaultyKeyword('must be a URI reference');
    const [base = '', fragment = ''] = uri.split('#', 2);
    const resource = this.#resources.get(base);
    if (resource === undefined)
      throw new FaultyKeyword(
        `refers to ${short(base === '' ? uri : base.replace(BASE, ''))}, which is not in this document: nothing is fetched, put it into $defs`,
      );
    let text: string;
    try {
      text = decodeURIComponent(fragment);
    } catch {
      throw new FaultyKeyword('has a fragment that is not percent-encoded as it should be');
    }
    if (text !== '' && !text.startsWith('/')) {
      const schema = resource.anchors.get(text);
      if (schema === undefined) throw new FaultyKeyword(`refers to the anchor ${short(text)}, which is not there`);
      return { node: this.#nodeOf(schema, resource.pointer, resource), anchor: text };
    }
    let value: unknown = resource.root;
    let holder = resource;
    for (const part of partsOfPointer(text)) {
      if (Array.isArray(value)) value = /^(0|[1-9]\d*)$/.test(part) ? value[Number(part)] : undefined;
      else value = isObject(value) ? own(value, part) : undefined;
      if (isObject(value)) holder = this.#indexed.get(value)?.resource ?? holder;
    }
    if (typeof value !== 'boolean' && !isObject(value))
      throw new FaultyKeyword(`refers to ${short(text)}, where there is no schema`);
    const before = this.#faults.length;
    const node = this.#nodeOf(value, resource.pointer + text, holder);
    if (this.#faults.length > before) throw new FaultyKeyword(`refers to ${short(text)}, where there is no schema`);
    return { node, anchor: undefined };
  }

  #pattern(source: string): LinearPattern {
    this.#prepare(source);
    const pattern = this.#patterns.get(source) as LinearPattern | FaultyKeyword;
    if (pattern instanceof FaultyKeyword) throw pattern;
    return pattern;
  }

  /** Gives what it cost, in steps. Past the bounds of a schema none is compiled any more. */
  #prepare(source: string): number {
    if (this.#patterns.has(source)) return 0;
    let pattern: LinearPattern | FaultyKeyword;
    let bytes = 0;
    try {
      if (this.#patternSteps > MAX_PATTERN_STEPS || this.#patternBytes > MAX_PATTERN_BYTES) throw tooMuch();
      pattern = new LinearPattern(source);
      bytes = pattern.bytes;
      this.#patternSteps += pattern.size;
      this.#patternBytes += bytes;
      if (this.#patternSteps > MAX_PATTERN_STEPS || this.#patternBytes > MAX_PATTERN_BYTES) throw tooMuch();
    } catch (error) {
      pattern = new FaultyKeyword((error as Error).message);
    }
    this.#patterns.set(source, pattern);
    return 1 + bytes / PATTERN_BYTES_PER_STEP;
  }

  /** A schema that is applied to a value again and again, without going into it, never ends. */
  #refuseCycles(start: Node): void {
    const done = this.#done;
    if (done.has(start)) return;
    const path: { readonly node: Node; next: number }[] = [{ node: start, next: 0 }];
    const open = new Set<Node>([start]);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const edge = top.node.inPlace[top.next++];
      if (edge === undefined) {
        open.delete(top.node);
        done.add(top.node);
        path.pop();
      } else if (open.has(edge.node)) {
        this.#fault(edge.pointer, 'leads back to itself without going into the value: a check would never end');
        return;
      } else if (!done.has(edge.node)) {
        open.add(edge.node);
        path.push({ node: edge.node, next: 0 });
      }
    }
  }
}

function toItsEnd(pieces: Generator<number, void, void>): void {
  while (pieces.next().done !== true);
}

const tooMuch = (): Error => new Error('is too much with the patterns before it: use fewer or simpler ones');

/** What the schema's own keywords match texts with. */
function* patternsOf(schema: JsonObject): Generator<string> {
  const pattern = own(schema, 'pattern');
  if (typeof pattern === 'string') yield pattern;
  const byPattern = own(schema, 'patternProperties');
  if (isObject(byPattern)) yield* Object.keys(byPattern);
}

const below_ = (pointer: string, parts: readonly (string | number)[]): string =>
  pointer + parts.map((part) => `/${escapedPart(String(part))}`).join('');

const resourceOf = (uri: string, root: unknown, pointer: string): Resource => ({
  uri,
  root,
  pointer,
  anchors: new Map(),
  dynamicAnchors: new Map(),
});

function resolved(reference: string, base: string): string | undefined {
  try {
    return new URL(reference, base).href;
  } catch {
    return undefined;
  }
}

const short = (text: string): string => (text.length > 100 ? `${text.slice(0, 100)}…` : text);
