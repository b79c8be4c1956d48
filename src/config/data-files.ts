/** What lies in a data directory, by its name there. */
export const DATA_FILES = {
  /** Which format the data has. */
  format: 'format.json',
  /** The log, where it is embedded: a folder. */
  log: 'log',
  /** Folded from the log: a folder. */
  store: 'store',
  /** The embedded engine's own: a folder. */
  clickhouse: 'clickhouse',
  /** In which processes with tenants' code work: an empty folder. */
  work: 'work',
  /** Marks of exchanges with runners in which a process ended: a folder. */
  exchanges: 'exchanges',
  /** Ids that imports have seen: a folder. */
  imports: 'imports',
  adminKey: 'admin-key',
  masterKey: 'master-key',
  /** The key of tenant default, until it was shown. */
  firstKey: 'first-key',
  /** There while a backup is being restored into the directory. */
  restoring: 'restoring',
  /** In a data directory that was restored: the name of that restore, 8 hexadecimal digits. */
  restored: 'restored',
  /** In one that was backed up: when the last whole backup of it was taken, in ISO 8601. */
  lastBackup: 'last-backup',
} as const;
