// What the OpenAPI document says of each answer, as checks that a test can load: to read the document and to compile its schemas takes a
// process longer than most tests do. As a program (`node openapi-checks.js folder`) it writes them into the folder, once for a whole run.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv2020, type Options, type ValidateFunction } from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';
import { openapiDocument } from '../../src/http/openapi/document.js';

interface Content {
  readonly schema?: unknown;
}
interface Document {
  readonly paths: Readonly<
    Record<
      string,
      Readonly<
        Record<
          string,
          { readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Content>> }>> }
        >
      >
    >
  >;
}

/** Of each path of the document, by method and status: the name of what checks the answer; null where that is no JSON. */
export type Answers = Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, string | null>>>>>>;

export interface OpenapiChecks {
  readonly answers: Answers;
  /** Checks by name; `problem` is that of any problem. */
  readonly check: (name: string) => ValidateFunction;
}

const PROBLEM = 'problem';

const pointerTo = (...parts: readonly string[]): string =>
  `#/${parts.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`;

/** The names of the checks, and where in the document the schema of each is. Answers with the same schema share one. */
function listed(document: Document): { readonly answers: Answers; readonly pointers: ReadonlyMap<string, string> } {
  const pointers = new Map([[PROBLEM, pointerTo('components', 'schemas', 'Problem')]]);
  const names = new Map<string, string>();
  const nameOf = (schema: unknown, pointer: string): string => {
    const text = JSON.stringify(schema);
    const name = names.get(text) ?? `answer${names.size}`;
    if (!names.has(text)) pointers.set(name, pointer);
    names.set(text, name);
    return name;
  };
  const answers: Record<string, Record<string, Record<string, string | null>>> = {};
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, { responses }] of Object.entries(methods))
      for (const [status, { content = {} }] of Object.entries(responses)) {
        const [type, of] = Object.entries(content)[0] ?? [];
        // What is no JSON has no members to compare.
        const isJson = type !== undefined && /[/+]json$/.test(type);
        ((answers[path] ??= {})[method] ??= {})[status] = isJson
          ? nameOf(of?.schema, pointerTo('paths', path, method, 'responses', status, 'content', type, 'schema'))
          : null;
      }
  return { answers, pointers };
}

function prepared(options: Options = {}): {
  readonly answers: Answers;
  readonly ajv: Ajv2020;
  readonly names: readonly string[];
} {
  const document = openapiDocument() as Document & object;
  const { answers, pointers } = listed(document);
  const ajv = new Ajv2020({ strict: false, allErrors: true, ...options }).addSchema(document, 'openapi');
  for (const [name, pointer] of pointers) ajv.addSchema({ $ref: `openapi${pointer}` }, name);
  return { answers, ajv, names: [...pointers.keys()] };
}

/** For a test that runs by itself: each is compiled when it is first asked for. */
export function compileChecks(): OpenapiChecks {
  const { answers, ajv } = prepared();
  return {
    answers,
    check: (name) => {
      const check = ajv.getSchema(name);
      if (check === undefined) throw new Error(`the document has no answer ${name}`);
      return check as ValidateFunction;
    },
  };
}

function writeChecks(folder: string): void {
  const { answers, ajv, names } = prepared({ code: { source: true } });
  writeFileSync(join(folder, 'answers.json'), JSON.stringify(answers));
  writeFileSync(
    join(folder, 'checks.cjs'),
    standalone.default(ajv, Object.fromEntries(names.map((name) => [name, name]))),
  );
}

const [, program, folder] = process.argv;
if (program === fileURLToPath(import.meta.url) && folder !== undefined) writeChecks(folder);
