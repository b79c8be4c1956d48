import type { ProjectionRecord } from './remote.js';

type Config = Readonly<Record<string, unknown>>;

/** Where notifications of a projection go. */
export interface Delivery {
  readonly webhook: string | undefined;
  readonly isolated: boolean;
  readonly sse: boolean;
}

export interface NotificationPlan {
  /** The `config` that is sent; undefined: none, what is there stays. */
  readonly config: object | undefined;
  /** It is not what the projection has now. */
  readonly changed: boolean;
  /** A secret comes of it that nobody has seen. */
  readonly newSecret: boolean;
  /** For the reader of the plan. */
  readonly lines: readonly { readonly text: string; readonly warning: boolean }[];
}

export const deliveryOf = ({ webhook, sse = false }: Pick<ProjectionRecord, 'webhook' | 'sse'>): Delivery => ({
  webhook: webhook?.url,
  isolated: webhook?.isolated ?? false,
  sse,
});

/** The `config` that restores it. */
export const configOf = ({ webhook, isolated, sse }: Delivery): object => ({
  webhook: webhook === undefined ? null : { url: webhook },
  isolateSecret: isolated,
  sse,
});

/**
 * What a project's `notifications` would make of those of a projection. Members that the project doesn't name stay as they are,
 * and are sent along: what is not written down is not taken away by accident. A member of a wrong kind is sent as it is, for the
 * service to refuse.
 * @param live undefined: it is a new projection
 */
export function notificationPlan(named: Config | undefined, live: ProjectionRecord | undefined): NotificationPlan {
  const before: Delivery = live === undefined ? { webhook: undefined, isolated: false, sse: false } : deliveryOf(live);
  const hook = named?.['webhook'];
  const after = afterOf(named, before);
  const config = named === undefined ? undefined : configFor(named, before, live === undefined);
  const lines: { text: string; warning: boolean }[] = [];
  const tell = (text: string, warning = false): void => void lines.push({ text, warning });
  if (before.webhook === undefined && after.webhook !== undefined) tell(`webhook ${after.webhook} is added`);
  else if (before.webhook !== undefined && after.webhook === undefined)
    tell(`webhook ${before.webhook} is removed`, true);
  else if (before.webhook !== after.webhook) tell(`webhook ${before.webhook} becomes ${after.webhook}`, true);
  else if (before.webhook !== undefined && hook === undefined)
    tell(
      `webhook ${before.webhook} stays, though statefold.json does not name it; "webhook": null in notifications removes it`,
    );
  if (before.webhook !== undefined && after.webhook !== undefined && before.isolated !== after.isolated)
    tell(
      after.isolated
        ? 'webhook gets a signing secret of its own'
        : "webhook is signed with the tenant's shared secret from now on",
      true,
    );
  if (before.sse !== after.sse) tell(`sse is turned ${after.sse ? 'on' : 'off'}`, !after.sse);
  const changed = before.webhook !== after.webhook || before.sse !== after.sse || before.isolated !== after.isolated;
  return {
    config,
    changed,
    newSecret: before.isolated !== after.isolated || (after.webhook !== undefined && before.webhook === undefined),
    lines,
  };
}

const isObject = (value: unknown): value is Config =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function afterOf(named: Config | undefined, before: Delivery): Delivery {
  if (named === undefined) return before;
  const { webhook, sse } = named;
  const url = isObject(webhook) && typeof webhook['url'] === 'string' ? webhook['url'] : undefined;
  return {
    webhook: webhook === undefined ? before.webhook : url,
    isolated: isolatedOf(named) ?? before.isolated,
    sse: typeof sse === 'boolean' ? sse : before.sse,
  };
}

function isolatedOf({ isolateSecret, webhook }: Config): boolean | undefined {
  const inside = isObject(webhook) ? webhook['isolateSecret'] : undefined;
  if (typeof isolateSecret === 'boolean' || typeof inside === 'boolean')
    return isolateSecret === true || inside === true;
  return undefined;
}

function configFor(named: Config, before: Delivery, isNew: boolean): object {
  if (isNew) return named;
  return {
    ...(before.webhook === undefined ? {} : { webhook: { url: before.webhook } }),
    ...(before.isolated && isolatedOf(named) === undefined && named['webhook'] !== null ? { isolateSecret: true } : {}),
    ...(before.sse ? { sse: true } : {}),
    ...named,
  };
}
