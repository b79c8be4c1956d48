/**
 * The tables of a tenant partition's section, all of them: the first character of a row's key. Stores and snapshots have these
 * letters, so what a letter means is for good; a new table takes one that is free.
 */
export const TABLES = {
  /** One row: how far all others are. */
  checkpoint: 'm',

  /** By aggregate: version, type, time, and where its last commits lie. */
  heads: 'h',
  /** By aggregate and version: where its commits before those lie. */
  commits: 'c',
  /** By aggregate and offset: records that are no commits, and say something of it. */
  controls: 'C',
  /** By aggregate: that it was erased. */
  erasures: 'D',
  /** By type and aggregate: the aggregates of a type. */
  typeMembers: 't',
  /** By type: how many these are. */
  typeCounts: 'T',
  /** By aggregate and command id: what was answered. */
  commands: 'k',
  /** By offset: the command of that commit, so that it is forgotten in time. */
  commandOffsets: 'x',
  /** By first key: ranges of rows of erased aggregates that are given up, and how far they are removed. */
  erasedRows: 'K',
  /** By topic and offset: void records. */
  voids: 'v',
  /** By type of event: how many there are. */
  eventTypes: 'E',
  /** One row: how many types are counted, and how many events are of none of them. */
  otherEventTypes: 'N',

  /** By aggregate: its state by the reducer that is bound. */
  reducerStates: 'r',
  /** By type: how far the states of its aggregates are folded anew. */
  catchUps: 'u',
  /** By aggregate: its states by reducers that were bound before. */
  keptStates: 'j',
  /** By type: how far the states of those are. */
  keptBindings: 'J',
  /** By aggregate: versions that its reducer passes over, and where it stopped. */
  reducerMarks: 'z',
  /** By type and aggregate: the aggregates that are faulted. */
  faultedAggregates: 'g',
  /** By type: how many these are. */
  faultedAggregateCounts: 'G',

  /** By place: a run of records of one partition, in the order of a tenant of several. */
  spans: 'o',
  /** By partition and offset: the place of such a run. */
  spanPlaces: 'O',

  /** By projection: the revision that is live. */
  liveProjections: 'p',
  /** By projection: the build that is under way. */
  builds: 'b',
  /** By projection: the swap that is under way. */
  swaps: 'e',
  /** By projection, place of the revision, key and class: states. */
  keyStates: 's',
  /** By projection: former revisions whose states are still there. */
  keptRevisions: 'q',
  /** By projection and revision: the place at which its states lie, if that is not its own. */
  revisionPlaces: 'a',
  /** By projection, place of the revision, key and class: the keys that are faulted. */
  faultedKeys: 'f',
  /** By projection and place of the revision: how many these are. */
  faultedKeyCounts: 'F',
  /** By projection and revision: that its states are no more those of a build from the start. */
  departed: 'i',

  /** By projection and sequence, in blocks: which sequences its changes have. */
  changeSequences: 'n',
  /** By projection: the last change that retention took. */
  trimmed: 'y',
  /** By projection: the last input of which it has a change. */
  lastInputs: 'l',
  /** By input and name: accepted changes of inputs to which the projections have not come. */
  recordedChanges: 'w',
  /** By input: that its changes come in parts. */
  partedInputs: 'P',

  /** By first key: ranges of rows that are given up, and not yet removed. */
  pendingDrops: 'd',
} as const;
