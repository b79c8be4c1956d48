import type { Operations } from '@statefold/client';
import type { JSX } from 'preact';
import { bytes, count } from '../words';
import { Badge } from './parts';

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

/** From there on it is told that little is left. */
const NEAR = 0.8;
const isNear = (value: number, most: number): boolean => most > 0 && value >= NEAR * most;
const percent = (value: number, most: number): string => `${Math.floor((value / most) * 100)} %`;

/** Full is not drawn as nearly nothing is. */
const Level = ({
  name,
  value,
  most,
}: {
  readonly name: string;
  readonly value: number;
  readonly most: number;
}): JSX.Element => (
  <meter
    aria-label={name}
    min={0}
    max={most}
    low={NEAR * most}
    // Past it nothing is: the last step of the colours is for all of it.
    high={0.999 * most}
    optimum={0}
    value={value}
  />
);

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
            {most !== null && isNear(usage[name], most) && (
              <Badge kind={usage[name] >= most ? 'bad' : 'busy'}>{percent(usage[name], most)}</Badge>
            )}
            {own[name] !== undefined && <span class="faint"> (its own)</span>}
          </span>
          {most !== null && <Level name={QUOTA_NAMES[name]} value={usage[name]} most={most} />}
        </li>
      );
    })}
  </ul>
);
