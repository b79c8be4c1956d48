import { z } from 'zod';
import { upload } from '../bodies.js';
import { CONFIG_FIELD, readNotificationConfig } from '../notification-config.js';
import { anyText } from '../parameters.js';
import { Diagnostic, Discovered, integer, text } from '../schema.js';
import { route, type RouteDependencies } from './dependencies.js';

// What an upload would be refused for, asked without one.

/** An answer of code that was compiled for the question, or was not. */
export const NOT_COMPILED = z.strictObject({
  status: z.literal('failed'),
  compilationError: text,
  diagnostics: z.array(Diagnostic),
});

const checkOf = <T extends z.ZodType>(
  sameAs: T,
): z.ZodDiscriminatedUnion<
  [
    z.ZodObject<
      {
        status: z.ZodLiteral<'compiled'>;
        discovered: z.ZodArray<typeof Discovered>;
        diagnostics: z.ZodArray<typeof Diagnostic>;
        sameAs: z.ZodOptional<T>;
      },
      z.core.$strict
    >,
    typeof NOT_COMPILED,
  ],
  'status'
> =>
  z.discriminatedUnion('status', [
    z.strictObject({
      status: z.literal('compiled'),
      discovered: z.array(Discovered),
      diagnostics: z.array(Diagnostic),
      sameAs: sameAs.optional(),
    }),
    NOT_COMPILED,
  ]);

/**
 * A check keeps its sources in memory until it is compiled, and no log holds others up behind it. What is refused for it is not read:
 * to read a form takes longer than to refuse it, and whoever is refused asks again at once.
 */
export const CHECKS_PER_TENANT = 4;
const limited = async ({ checks }: RouteDependencies, tenantId: string, work: () => Promise<void>): Promise<void> => {
  const release = checks.take(tenantId);
  try {
    return await work();
  } finally {
    release();
  }
};

const common = { method: 'POST', servedBy: 'owner', credentials: 'tenant', scope: 'deploy' } as const;

const checkReducer = route({
  ...common,
  path: '/reducers/check',
  operationId: 'checkReducer',
  tag: 'Reducers',
  summary: 'What an upload would be refused for, and whether it is there already; nothing is kept',
  body: upload({}),
  answers: {
    200: checkOf(text.describe('A compiled reducer with the same sources: one that is bound, else the newest.')),
  },
  errors: ['INVALID_ARCHIVE'],
  serve: (dependencies, call) =>
    limited(dependencies, call.tenantId, async () => {
      const { sources } = await call.body();
      call.answer(200, await dependencies.deployments.checkReducer(call.tenantId, sources));
    }),
});

const checkProjection = route({
  ...common,
  path: '/projections/check',
  operationId: 'checkProjection',
  tag: 'Projections',
  summary: 'What an upload would be refused for, and whether it is there already; nothing is kept',
  body: upload({ config: CONFIG_FIELD, projectionId: anyText }),
  answers: {
    200: checkOf(
      integer.describe(
        'The revision of projectionId that is live, or on the way to be, where it has the same sources.',
      ),
    ),
  },
  errors: ['INVALID_ARCHIVE', 'NOT_FOUND', 'WEBHOOK_URL_REFUSED'],
  serve: (dependencies, call) =>
    limited(dependencies, call.tenantId, async () => {
      const { deployments, settings } = dependencies;
      const { sources, fields } = await call.body();
      const { config, projectionId } = fields;
      const notifications = config === undefined ? undefined : readNotificationConfig(config, settings.maxJsonDepth);
      call.answer(200, await deployments.checkProjection(call.tenantId, sources, notifications, projectionId));
    }),
});

export const UPLOAD_CHECKS = [checkReducer, checkProjection];
