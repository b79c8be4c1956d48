import { z } from 'zod';

// By themselves, since the front door answers them too while the rest of the service is not there yet.

/** `starting` is a part that has not been there yet since the service began, and has not failed either. */
export const CHECKS = ['up', 'starting', 'degraded', 'down'] as const;
export type Check = (typeof CHECKS)[number];

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
      checks: z.record(z.string(), z.enum(CHECKS)),
    }),
  },
} as const;

/** Names a part and tells how it is; where a required one is `down`, `/health/ready` answers 503. */
export interface Probe {
  readonly name: string;
  readonly required: boolean;
  /** One that rejects is `down`. */
  check(): Promise<Check>;
}

/** How the parts are now, by name. */
export async function checked(probes: readonly Probe[]): Promise<Readonly<Record<string, Check>>> {
  const results = await Promise.all(
    probes.map(async (probe) => [probe.name, await probe.check().catch((): Check => 'down')] as const),
  );
  return Object.fromEntries(results);
}
