import type { Settings } from '../config/settings.js';
import type { Codecs } from '../log/codec/codec.js';
import type { SchemaIds, SchemaName, TopicSchema } from '../log/codec/schemas.js';
import type { Replication } from '../log/replication.js';
import type { Log } from '../log/log.js';
import type { Ownership } from '../placement/ownership.js';
import type { LocalStore } from '../store/local-store.js';

/** The log of the settings is in the data directory, and this process has it alone. */
export const logIsLocal = ({ kafkaBrokers }: Pick<Settings, 'kafkaBrokers'>): boolean => kafkaBrokers === undefined;

/** The log of the settings, and what goes with it. */
export interface LogSetup {
  readonly log: Log;
  readonly codecs: Codecs;
  readonly schemas: Readonly<Record<SchemaName, TopicSchema>>;
  readonly schemaIds: SchemaIds;
  /** Other processes may write it too. */
  readonly shared: boolean;
  /** In how many places its records are; undefined where that is this machine. */
  readonly replication: Replication | undefined;
  /**
   * Who serves which tenant. `url`: where others reach this process. Of the tenants in `store` it has state when it joins. The log may have to be
   * waited for, which `awaits` is told.
   */
  openOwnership(
    owner: string,
    url: string,
    store: Pick<LocalStore, 'sections'>,
    awaits: (isAway: boolean) => void,
  ): Promise<{ readonly ownership: Ownership; readonly join: () => Promise<void> }>;
}
