import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { bytes, count } from '../words';

export type Usage = Operations['getUsage']['answer'];
export type Quota = keyof Usage['quotas'];

export const QUOTA_NAMES: Readonly<Record<Quota, string>> = {
  requestsPerSecond: 'Requests a second',
  eventsPerSecond: 'Events a second',
  storageBytes: 'Stored',
  projections: 'Projections',
  reducers: 'Reducers',
  connections: 'Connections',
  pendingUploads: 'Uploads under way',
};
export const QUOTAS = Object.keys(QUOTA_NAMES) as Quota[];

export const quotaText = (name: Quota, value: number): string =>
  name === 'storageBytes' ? bytes(value) : count(value);

/** What a tenant takes of its quotas, as bars. `own`: those that the settings do not give it, which are marked. */
export const UsageBars = ({
  of: { usage, quotas },
  own = {},
}: {
  readonly of: Usage;
  readonly own?: Readonly<Partial<Record<Quota, number>>> | undefined;
}): JSX.Element => (
  <ul class="usage">
    {QUOTAS.map((name) => {
      const most = quotas[name];
      return (
        <li key={name}>
          <span>{QUOTA_NAMES[name]}</span>
          <span class="number">
            {quotaText(name, usage[name])}
            {most !== null && ` of ${quotaText(name, most)}`}
            {own[name] !== undefined && <span class="faint"> (its own)</span>}
          </span>
          {most !== null && <meter aria-label={QUOTA_NAMES[name]} min={0} max={most} value={usage[name]} />}
        </li>
      );
    })}
  </ul>
);
