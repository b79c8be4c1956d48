import { parentPort } from 'node:worker_threads';
import { LRUCache } from 'lru-cache';
import { hasCode } from '../core/errors.js';
import { threadGivesWay } from '../core/priority.js';
import { checkData, type DataCheck } from './data-check.js';
import { JsonSchema } from './json-schema.js';
import { Run, stepsFor } from './run.js';

/*
 * A thread that holds data of events against schemas, one after the other: what is large takes nothing of the event loop.
 *
 *   ◄─ {schema, data, at}     ─► fits | unfit | too_costly | unusable, once each
 */
export interface CheckQuestion {
  /** JSON. */
  readonly schema: string;
  /** JSON. */
  readonly data: Uint8Array<ArrayBuffer>;
  /** The JSON pointer of the data. */
  readonly at: string;
}

export type CheckAnswer = DataCheck | { readonly kind: 'unusable'; readonly message: string };

/** Of compiled schemas that are kept. */
const SCHEMA_BYTES = 16 * 1024 * 1024;
/** As the compiler has it: who asks waits for it, and the appends of others come first. */
const NICE = 5;

const schemas = new LRUCache<string, JsonSchema>({ maxSize: SCHEMA_BYTES, sizeCalculation: ({ bytes }) => bytes });

function schemaOf(text: string): JsonSchema {
  const known = schemas.get(text);
  if (known !== undefined) return known;
  const schema = new JsonSchema(JSON.parse(text));
  schemas.set(text, schema);
  return schema;
}

function answerTo({ schema, data, at }: CheckQuestion): CheckAnswer {
  try {
    return checkData(schemaOf(schema), Buffer.from(data.buffer), new Run(at, stepsFor(data.length)));
  } catch (error) {
    if (hasCode(error, 'INVALID_REQUEST')) return { kind: 'unusable', message: error.message };
    throw error;
  }
}

threadGivesWay(NICE);
parentPort?.on('message', (question: CheckQuestion) => parentPort?.postMessage(answerTo(question)));
