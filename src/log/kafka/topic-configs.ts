import { DAY_MS } from '../../core/clock.js';
import type { Cleanup } from '../log.js';

const NEVER = '9223372036854775807';

export type TopicConfigs = Readonly<Record<string, string>>;

/** The configs of a topic. Whatever a broker's own defaults are: nothing is dropped but by the cleanup. */
export function configsOf(cleanup: Cleanup, minInsyncReplicas: number, maxMessageBytes: number): TopicConfigs {
  const common = {
    'compression.type': 'producer',
    // Of the many small logs of many tenants a broker would else touch two memory-mapped files every 4 KiB.
    'index.interval.bytes': String(64 * 1024),
    'max.message.bytes': String(maxMessageBytes),
    'message.timestamp.type': 'LogAppendTime',
    'min.insync.replicas': String(minInsyncReplicas),
    'retention.bytes': '-1',
    'unclean.leader.election.enable': 'false',
  };
  switch (cleanup.policy) {
    case 'tombstones':
      // A record lies a day before it can be taken, and what was erased is gone after 30. Keys are never used twice: only tombstones take anything.
      return {
        ...common,
        'cleanup.policy': 'compact',
        'retention.ms': '-1',
        'min.cleanable.dirty.ratio': '1',
        'min.compaction.lag.ms': String(DAY_MS),
        'max.compaction.lag.ms': String(30 * DAY_MS),
      };
    case 'latest':
      return { ...common, 'cleanup.policy': 'compact', 'retention.ms': '-1', 'max.compaction.lag.ms': NEVER };
    case 'delete':
      // Whole segments are dropped: they are rolled often enough that records live little longer than they should.
      return {
        ...common,
        'cleanup.policy': 'delete',
        'retention.ms': String(cleanup.retentionMs),
        'segment.ms': String(Math.max(60_000, Math.min(7 * DAY_MS, Math.floor(cleanup.retentionMs / 8)))),
      };
  }
}

/** What is looked at where a topic is there already; `replication.ts` looks at its copies. */
export const VERIFIED = [
  'cleanup.policy',
  'compression.type',
  'max.compaction.lag.ms',
  'max.message.bytes',
  'message.timestamp.type',
  'retention.bytes',
  'retention.ms',
  'unclean.leader.election.enable',
];

/** Set without asking: how long records are kept is a setting of ours, and what a broker compresses no process may be able to read. */
const OURS = new Set(['compression.type', 'retention.ms']);
/** Of `compression.type`: as it comes, or as Node itself can unpack it. */
export const READABLE: ReadonlySet<string> = new Set(['producer', 'uncompressed', 'gzip']);
const AT_LEAST = new Set(['max.message.bytes']);
const AT_MOST = new Set(['max.compaction.lag.ms']);
const POLICY_CONFIGS = [
  'cleanup.policy',
  'max.compaction.lag.ms',
  'min.cleanable.dirty.ratio',
  'min.compaction.lag.ms',
  'retention.ms',
];

/** What the topic's configs make of it, in the words of the port. */
function policyOf(found: TopicConfigs): string {
  if (found['cleanup.policy'] !== 'compact') return found['cleanup.policy'] ?? 'unknown';
  return found['max.compaction.lag.ms'] === NEVER ? 'latest' : 'tombstones';
}

export interface ConfigDifference {
  /** For the error: what it has and what it should have. */
  readonly text: string;
  /** What makes it right. */
  readonly configs: TopicConfigs;
  /** May be set without asking. */
  readonly ours: boolean;
}

/** The first difference that matters. */
export function differenceOf(
  cleanup: Cleanup,
  wanted: TopicConfigs,
  found: TopicConfigs,
): ConfigDifference | undefined {
  const policy = policyOf(found);
  if (policy !== cleanup.policy) {
    const configs = Object.fromEntries(Object.entries(wanted).filter(([name]) => POLICY_CONFIGS.includes(name)));
    return { text: `cleanup '${policy}', not '${cleanup.policy}'`, configs, ours: false };
  }
  for (const name of VERIFIED) {
    const [is, should] = [found[name], wanted[name]];
    if (should === undefined || is === should) continue;
    // A compacted topic's retention is without effect.
    if (cleanup.policy !== 'delete' && name.startsWith('retention.')) continue;
    if (name === 'compression.type' && READABLE.has(is ?? 'producer')) continue;
    if (AT_LEAST.has(name) && Number(is) >= Number(should)) continue;
    if (AT_MOST.has(name) && Number(is) <= Number(should)) continue;
    const bound = AT_LEAST.has(name) ? 'at least ' : AT_MOST.has(name) ? 'at most ' : '';
    const segment = wanted['segment.ms'];
    const configs =
      name === 'retention.ms' && segment !== undefined ? { [name]: should, 'segment.ms': segment } : { [name]: should };
    return { text: `${name}=${is ?? '(none)'}, not ${bound}${should}`, configs, ours: OURS.has(name) };
  }
  return undefined;
}
