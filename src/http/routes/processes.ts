import { z } from 'zod';
import { StatefoldError } from '../../core/errors.js';
import { anyText, described } from '../parameters.js';
import type { KnownProcess, Processes } from '../processes.js';
import { checked, CHECKS } from '../probes.js';
import { component, integer, text, timestamp } from '../schema.js';
import { route } from './dependencies.js';

// Which processes there are, and how each does: for whoever runs the service and has no Prometheus at hand.

const number = z.number();
const ofTenant = z.strictObject({ tenantId: text, events: integer, folded: integer, changes: integer });

export const Process = component(
  'Process',
  z.strictObject({
    url: text.describe('Where the other processes reach it.'),
    self: z.literal(true).describe('It is the one that answers.').optional(),
    owned: integer.describe('Slots whose tenants it serves.'),
    standbys: integer.describe('Slots of which it keeps standbys.'),
    notified: integer.describe('Slots whose webhooks and streams it sends.'),
  }),
);
export type Process = z.infer<typeof Process>;

export const ProcessSample = component(
  'ProcessSample',
  z.strictObject({
    at: timestamp.describe('When the time that is counted ended.'),
    seconds: number,
    requests: integer,
    failures: integer.describe('Requests that were answered 5xx.'),
    appends: integer,
    events: integer,
    folded: integer.describe('Events that reducers folded.'),
    changes: integer.describe('Changes of state that projections made.'),
    appendP50Ms: number.optional(),
    appendP99Ms: number.optional(),
    lagCommits: integer,
    residentBytes: integer,
    longestHoldMs: number,
    tenants: z.array(ofTenant).describe('The ten that took most; the others are in the sums.'),
  }),
);

export const ReadStoreRebuild = component(
  'ReadStoreRebuild',
  z.strictObject({
    state: z
      .enum(['preparing', 'filling', 'swapping', 'done', 'cancelled'])
      .describe(
        'Until it is done, and for good where it is cancelled, the rows of before are served, and what is new comes to them.',
      ),
    since: timestamp,
    endedAt: timestamp.optional(),
    tenantIds: z.array(text).describe("Whose rows are written anew; absent: everyone's.").optional(),
    position: integer.describe('Positions of the log that it has, of the tenants that are active.'),
    of: integer.describe('Positions that the rows of before have.'),
    failure: text.describe('Why it stands still, where it does; it tries again.').optional(),
  }),
);

export const ProcessActivity = component(
  'ProcessActivity',
  z.strictObject({
    url: text,
    version: text,
    startedAt: timestamp,
    roles: z.array(text),
    samples: z.array(ProcessSample).describe('Of the last hour, each of 15 s, ascending by time.'),
    moves: z
      .array(
        z.strictObject({
          at: timestamp,
          tenantId: text,
          partition: integer,
          what: z
            .enum(['restored', 'promoted', 'closed'])
            .describe('promoted: it was a standby here; closed: idle, or another process has it.'),
          tookMs: number.optional(),
        }),
      )
      .describe(
        'Tenants, and partitions of them, that came to this process or left it: the latest 500, ascending by time.',
      ),
    faulted: z
      .array(z.strictObject({ tenantId: text, aggregates: integer, keys: integer, artefacts: integer }))
      .describe(
        'Tenants with aggregates or keys of projections that stand at an event here, or with code that is halted; the 50 that have most.',
      ),
    tenantNames: z.record(z.string(), text).describe('Of the tenants that are named here, by id.'),
    holds: z
      .array(z.strictObject({ work: text, longestMs: number, long: integer }))
      .describe(
        'The longest that each kind of work held the event loop in the last one to two minutes, and how often it held it for over 50 ms.',
      ),
    figures: z.record(z.string(), number).describe('As `/metrics` has them, without the prefix.'),
    readStoreRebuild: ReadStoreRebuild.describe(
      'The rebuild of the read store that is under way, or the last one since the start.',
    ).optional(),
    memory: z.strictObject({
      limitBytes: integer.describe('What may be held of work under way for all tenants together.'),
      tenantLimitBytes: integer,
      held: z.record(z.string(), integer).describe('By kind of work.'),
    }),
    checks: z.record(z.string(), z.enum(CHECKS)).describe('As `/health/ready` has them.'),
  }),
);
export type ProcessActivity = z.infer<typeof ProcessActivity>;

/** The process at a URL; unless that is given, this one. @throws StatefoldError NOT_FOUND */
export function processAt(processes: Pick<Processes, 'list'>, url: string | undefined): KnownProcess {
  const known = processes.list().find((one) => (url === undefined ? one.self === true : one.url === url));
  if (known !== undefined) return known;
  throw new StatefoldError('NOT_FOUND', `no process of the service is at '${url}'; GET /admin/processes lists them`);
}

const common = { tag: 'Admin', method: 'GET', servedBy: 'any', credentials: 'admin' } as const;

const listProcesses = route({
  ...common,
  path: '/admin/processes',
  operationId: 'listProcesses',
  summary: 'The processes of the service, and their slots',
  answers: { 200: z.strictObject({ processes: z.array(Process) }) },
  serve: ({ processes }, call) => call.answer(200, { processes: [...processes.list()] }),
});

const getProcessActivity = route({
  ...common,
  path: '/admin/processes/activity',
  operationId: 'getProcessActivity',
  summary: 'How a process does, and has done in the last hour',
  query: { url: described(anyText, 'One of GET /admin/processes; unless given, the one that answers.') },
  answers: { 200: ProcessActivity },
  errors: ['NOT_FOUND'],
  serve: async ({ processes, probes }, call) => {
    const known = processAt(processes, call.query().url);
    if (known.self) call.answer(200, { ...processes.activity(), checks: await checked(probes) });
    else call.answer(200, await processes.activityOf(known.url));
  },
});

export const PROCESSES = [listProcesses, getProcessActivity];
