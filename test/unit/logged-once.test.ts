// What fails again and again has one line in the log, and not one for each time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TenantCode } from '../../src/code-host/tenant-code.js';
import type { Runner } from '../../src/code-host/code-host.js';
import { StatefoldError } from '../../src/core/errors.js';
import { silentLogger, type Logger } from '../../src/core/logger.js';
import type { FeedHub } from '../../src/feed/hub.js';
import type { TenantFeed } from '../../src/feed/tenant-feeds.js';
import { systemTimers } from '../../src/feed/timers.js';
import type { InputFeed } from '../../src/feed/inputs.js';
import { ProjectionBuilds } from '../../src/projections/projection-builds.js';
import { ProjectionCursor } from '../../src/projections/projection-cursor.js';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import { Lane } from '../../src/webhooks/lane.js';
import { EVENT_MESSAGES } from '../../src/webhooks/webhook-message.js';
import { temporaryDirectory, until } from '../support/service.js';

const logging = (): { readonly lines: (readonly [object, string])[]; readonly logger: Logger } => {
  const lines: (readonly [object, string])[] = [];
  return { lines, logger: { ...silentLogger, warn: (...line) => void lines.push(line) } };
};

test('messages that were trimmed while a webhook endpoint was away are told of together', async () => {
  const { lines, logger } = logging();
  const expired = (): Promise<never> =>
    Promise.reject(
      new StatefoldError('CURSOR_EXPIRED', 'it is not kept any more', { details: { oldestSequence: 90 } }),
    );
  const lane = await Lane.restored(
    { tenantId: 'one', events: { read: expired } } as unknown as TenantFeed,
    { end: 60, pending: Array.from({ length: 50 }, (_, i) => [i + 7, 1] as const) },
    Number.POSITIVE_INFINITY,
    {
      ...{
        id: 'endpoint',
        tenantId: 'one',
        messages: EVENT_MESSAGES,
        hub: { inTurn: (_: string, read: () => Promise<unknown>) => read() } as unknown as FeedHub,
        logger,
        timers: systemTimers,
      },
      ...{
        capacity: { count: 100, bytes: 1_000_000 },
        wanted: () => true,
        took: () => true,
        keeps: () => true,
        advanced: () => undefined,
      },
    },
    () => 0,
  );
  assert.equal(lane.window.size, 0);
  assert.deepEqual(
    lines.map(([fields]) => fields),
    [{ endpoint: 'endpoint', messages: 50, first: 7, last: 56 }],
  );
});

test('a swap that a full log refuses is told of once, however often it is asked for', async (t) => {
  const { lines, logger } = logging();
  const store = new LocalStore({ path: temporaryDirectory(t), logger });
  t.after(() => store.close());
  let asked = 0;
  const builds = new ProjectionBuilds({
    tables: new PartitionTables(store.section('one')),
    inputs: {} as InputFeed,
    code: new TenantCode({ forget: () => undefined } as unknown as Runner, { assembly: () => assert.fail() }),
    controls: {
      propose: () => {
        asked++;
        return Promise.reject(new StatefoldError('UNAVAILABLE', 'the disk is full'));
      },
    },
    cursor: new ProjectionCursor(0),
    logger,
  });
  t.after(() => builds.close());
  builds.start({ projectionId: 'p', revision: 1, artefactId: 'A', classNames: ['C'] });
  await until(() => asked === 3);
  assert.equal(lines.length, 1);
});
