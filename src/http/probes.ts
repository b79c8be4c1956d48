import { z } from 'zod';

// By themselves, since the front door answers them too while the rest of the service is not there yet.

const probe = { method: 'GET', tag: 'System', servedBy: 'any', credentials: 'none', probe: true } as const;

export const health = {
  ...probe,
  path: '/health',
  operationId: 'getHealth',
  summary: 'Whether the process answers',
  answers: { 200: z.strictObject({ status: z.literal('ok') }) },
} as const;

export const readiness = {
  ...probe,
  path: '/health/ready',
  operationId: 'getReadiness',
  summary: 'Whether the service can do its work',
  answers: {
    200: z.strictObject({
      status: z.literal('ready'),
      checks: z.record(z.string(), z.enum(['up', 'degraded', 'down'])),
    }),
  },
} as const;

/** Names a part and tells whether it works, or works less well than it should; the required ones decide over `/health/ready`. */
export interface Probe {
  readonly name: string;
  readonly required: boolean;
  check(): Promise<boolean | 'degraded'>;
}

export type Check = 'up' | 'degraded' | 'down';

/** How the parts are now, by name. */
export async function checked(probes: readonly Probe[]): Promise<Readonly<Record<string, Check>>> {
  const results = await Promise.all(
    probes.map(async (probe) => {
      const up = await probe.check().catch(() => false);
      return [probe.name, up === 'degraded' ? up : up ? 'up' : 'down'] as const;
    }),
  );
  return Object.fromEntries(results);
}
