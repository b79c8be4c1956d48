import { arrayOf, boolean, input, integer, object, ref, string, type Schema } from './schemas.js';

const state: Schema = { description: 'A state as its code shapes it; null where there is none.' };
const patch: Schema = {
  type: 'array',
  description: 'A JSON Patch (RFC 6902); empty where only the spelling differs.',
  items: {
    type: 'object',
    required: ['op', 'path'],
    properties: { op: { enum: ['add', 'remove', 'replace'] }, path: string },
  },
};
const cut: Schema = { type: 'string', description: 'Why not all was folded, and how far it got.' };
const figures = { events: integer, seconds: { type: 'number', minimum: 0 }, eventsPerSecond: integer };
const seed: Schema = { type: 'integer', minimum: 0, maximum: 4_294_967_295, default: 0 };
const sample: Schema = { type: 'integer', minimum: 1, maximum: 10_000 };
const verdict: Schema = { enum: ['equal', 'different', 'absent', 'behind'] };
const counts = { equal: integer, different: integer, absent: integer };
const names: Schema = { type: 'array', minItems: 1, maxItems: 1_000, items: string };

const FAILED = object({
  status: { const: 'failed' },
  compilationError: string,
  diagnostics: arrayOf(ref('Diagnostic')),
});

const dryRun = (key: 'aggregateId' | 'key', faultOf: Schema): Schema => ({
  oneOf: [
    object({
      status: { const: 'compiled' },
      complete: boolean,
      'cut?': cut,
      classes: arrayOf(
        object({
          className: string,
          'aggregateType?': string,
          'comparedWith?': { type: 'string', description: 'The class whose states they are compared with.' },
          'total?': { ...integer, description: 'Aggregates of the type.' },
          folded: integer,
          changed: integer,
          unchanged: integer,
          added: integer,
          removed: integer,
          faulted: integer,
          faultedBefore: integer,
        }),
      ),
      changes: arrayOf(
        object({ [key]: string, className: string, 'version?': integer, before: state, after: state, patch }),
      ),
      faults: arrayOf(faultOf),
      diagnostics: arrayOf(ref('Diagnostic')),
      ...figures,
    }),
    FAILED,
  ],
});

const verified = (key: 'aggregateId' | 'key', of: Readonly<Record<string, Schema>>): Schema =>
  object({
    complete: boolean,
    ...of,
    'cut?': cut,
    checked: integer,
    ...counts,
    'readStore?': {
      ...object({ ...counts, behind: integer }),
      description: 'Its rows of the same aggregates or keys; absent where it could not be asked.',
    },
    differences: arrayOf(
      object({
        [key]: string,
        className: string,
        'version?': integer,
        store: verdict,
        'readStore?': verdict,
        stored: state,
        recomputed: state,
        patch,
        'storedFault?': ref('Fault'),
        'fault?': ref('Fault'),
      }),
    ),
    ...figures,
  });

const FAULT_OF_KEY: Schema = {
  type: 'object',
  required: ['key', 'eventId', 'message'],
  properties: { key: string },
  description: 'A Fault and the state key that it stops.',
};
const uploaded = (fields: Readonly<Record<string, Schema>>): Schema => ({
  type: 'object',
  properties: {
    file: {
      type: 'string',
      contentMediaType: 'application/octet-stream',
      description: 'A zip of .cs files, or .cs files; in a field of any name.',
    },
    ...fields,
  },
});
const form = (fields: Readonly<Record<string, Schema>>): Schema =>
  uploaded({
    limit: { type: 'integer', minimum: 1, maximum: 100_000, default: 10_000 },
    show: { type: 'integer', minimum: 0, maximum: 100, default: 10 },
    ...fields,
  });

/** What `GET …/state` takes besides. */
export const STATE_AT = {
  atVersion: { type: 'integer', minimum: 1 },
  atTime: { type: 'string', format: 'date-time', description: 'The version that was last appended at or before then.' },
  reducerId: { type: 'string', description: 'Folded by this compiled reducer rather than the bound one.' },
  className: string,
  diff: { ...boolean, default: false, description: 'Also what each event did to the state.' },
  fromVersion: { type: 'integer', minimum: 1, default: 1, description: 'Of the diff.' },
  limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100, description: 'Events of the diff.' },
};

const timestamp: Schema = { type: 'string', pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$' };

/** Members of a state that was folded from the log for the question. */
export const STATE_AT_MEMBERS = {
  'headVersion?': { ...integer, description: 'The last version of the aggregate.' },
  'className?': string,
  'diff?': arrayOf(
    object({
      version: integer,
      eventId: string,
      eventType: string,
      timestamp,
      'patch?': patch,
      'skipped?': { const: true },
      'fault?': { $ref: '#/components/schemas/Fault' },
    }),
  ),
  'nextVersion?': { ...integer, description: 'Where the diff goes on.' },
};

/** What an upload would come to, without one. */
const checked = (of: Readonly<Record<string, Schema>>): Schema => ({
  oneOf: [
    object({
      status: { const: 'compiled' },
      discovered: arrayOf(ref('Discovered')),
      diagnostics: arrayOf(ref('Diagnostic')),
      ...of,
    }),
    FAILED,
  ],
});

/** Operations that fold history again, or compile, and change nothing. */
export const INSPECTIONS = {
  'POST /reducers/check': {
    tag: 'Reducers',
    summary: 'What an upload would be refused for, and whether it is there already; nothing is kept',
    form: uploaded({}),
    success: [
      200,
      checked({
        'sameAs?': {
          type: 'string',
          description: 'A compiled reducer with the same sources: one that is bound, else the newest.',
        },
      }),
    ],
  },
  'POST /projections/check': {
    tag: 'Projections',
    summary: 'What an upload would be refused for, and whether it is there already; nothing is kept',
    form: uploaded({ config: { type: 'string', contentMediaType: 'application/json' }, projectionId: string }),
    success: [
      200,
      checked({
        'sameAs?': {
          ...integer,
          description: 'The revision of projectionId that is live, or on the way to be, where it has the same sources.',
        },
      }),
    ],
    problems: [404],
  },
  'POST /reducers/dry-run': {
    tag: 'Reducers',
    summary: 'Fold stored aggregates with an upload that is not kept, and compare with their states',
    form: form({ aggregateType: string, className: string, sample, seed }),
    success: [200, dryRun('aggregateId', ref('Fault'))],
    problems: [422],
  },
  'POST /projections/dry-run': {
    tag: 'Projections',
    summary: 'Fold the history with an upload that is not kept, and compare with a live projection',
    form: form({ projectionId: string }),
    success: [200, dryRun('key', FAULT_OF_KEY)],
    problems: [404],
  },
  'POST /aggregate-types/{type}/verify': {
    tag: 'Aggregates',
    summary: 'Fold aggregates again from the log and compare with what is stored',
    body: input({ 'aggregateIds?': names, 'sample?': { ...sample, default: 100 }, 'seed?': seed }),
    success: [200, verified('aggregateId', { aggregateType: string, reducerClass: string, unknown: arrayOf(string) })],
    problems: [404],
  },
  'POST /projections/{id}/verify': {
    tag: 'Projections',
    summary: 'Fold keys of a projection again from the log and compare with what is stored',
    body: input({ 'keys?': names, 'sample?': sample, 'seed?': seed }),
    success: [200, verified('key', { projectionId: string, revision: integer, unknown: arrayOf(string) })],
    problems: [404, 409],
  },
} as const;
