import { compressingText, droppingText, isWell } from '../log/replication.js';
import type { Ground } from './ground.js';
import type { Storage } from './open-storage.js';

/** Well: brokers come and go rarely, and a look asks for all topics. Short: who raises it wants to see that it is. */
const LOOK_AGAIN_MS = { well: 5 * 60_000, short: 10_000 };
/** Of many, so many are named in the log. */
const MOST_NAMED = 20;

/** Whether the log's records are in as many places as the settings want, and stay there. */
export interface ReplicationWatch {
  /** As of the last look; undefined where there is nothing to look at, or could not be yet. */
  readonly enough: boolean | undefined;
}

/**
 * Looks how many copies the topics have, at the start and from then on: a topic keeps those that it was made with. And whether somebody has one drop
 * records, or compress them, since it was opened, as long as they are there.
 * What compresses is set back at once.
 */
export function watchReplication({ logger, metrics, shutdown }: Ground, { replication }: Storage): ReplicationWatch {
  if (replication === undefined) return { enough: undefined };
  let short: number | undefined;
  let well: boolean | undefined;
  let dropping = 0;
  let compressing = 0;
  let timer: NodeJS.Timeout | undefined;
  let ended = false;
  /** Names them in the log where there are more of them than before, or fewer; gives how many there are. */
  const tell = <T extends object>(topics: readonly T[], before: number, text: (topic: T) => string): number => {
    if (topics.length !== before) for (const topic of topics.slice(0, MOST_NAMED)) logger.error(topic, text(topic));
    return topics.length;
  };
  const look = async (): Promise<void> => {
    try {
      const found = await replication.look();
      if (found.short.length > 0 && short !== found.short.length)
        logger.warn(
          {
            topics: found.short.slice(0, MOST_NAMED),
            short: found.short.length,
            of: found.topics,
            brokers: found.brokers,
          },
          `${found.short
            .slice(0, MOST_NAMED)
            .map(({ topic }) => topic)
            .join(
              ', ',
            )}${found.short.length > MOST_NAMED ? ' and others' : ''}: fewer copies on Kafka than wanted, so that the loss of a broker may lose records; \`statefold topics raise\` adds them`,
        );
      if (found.short.length === 0 && (short ?? 0) > 0)
        logger.info({ topics: found.topics }, 'all topics have as many copies on Kafka as wanted');
      short = found.short.length;
      if (found.dropping.length === 0 && dropping > 0)
        logger.info({ topics: found.topics }, 'no topic drops records any more that are to be kept');
      dropping = tell(found.dropping, dropping, droppingText);
      compressing = tell(found.compressing, compressing, compressingText);
      well = isWell(found);
      // Else each append of a tenant that is served is one more that nobody can read.
      if (found.compressing.length > 0) await replication.uncompress(found.compressing);
    } catch (error) {
      logger.debug({ err: error }, 'how many copies the topics have can not be asked now');
    }
    if (!ended) timer = setTimeout(() => void look(), well ? LOOK_AGAIN_MS.well : LOOK_AGAIN_MS.short).unref();
  };
  void look();
  shutdown.add('watch of the copies', () => {
    ended = true;
    clearTimeout(timer);
  });
  metrics.watch('log_topics_short_of_copies', () => short ?? 0);
  return {
    get enough() {
      return well;
    },
  };
}
