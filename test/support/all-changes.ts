import type { Change } from '../../src/core/change.js';
import { nextTurn } from '../../src/core/slices.js';
import { FeedHub } from '../../src/feed/hub.js';
import type { Source, TenantFeed } from '../../src/feed/tenant-feeds.js';
import type { ChangesWriter } from '../../src/projections/changes-writer.js';

/** All accepted changes of a tenant, of every projection and with its faults: what no client follows, and tests compare. */
const ALL_CHANGES: Source<Change> = {
  id: 'all',
  of: ({ changes }) => {
    const { all } = changes as ChangesWriter;
    return {
      get head() {
        return all.head;
      },
      read: (from, budget) => all.read(from, budget),
      recent: (from, budget) => all.recent(from, budget),
      subscribe: (advanced) => all.subscribe(advanced),
      positionOf: ({ sequence }) => sequence,
      start: () => Promise.resolve(1),
      latest: () => Promise.resolve(all.head - 1),
      caughtUp: () => changes.caughtUp(),
    };
  },
};

/** The hub of a process that has this tenant, and always the same feeds of it. */
export const hubOf = (tenant: TenantFeed): FeedHub =>
  new FeedHub({
    notified: {
      active: () => tenant,
      open: () => Promise.resolve(tenant),
      keep: () => () => undefined,
      onActivated: () => undefined,
    },
  });

/** Pushes into the list what a subscription to the tenant is pushed from now on. `inTurns`: it goes through history as those of clients do. */
export function pushedInto(tenant: TenantFeed, pushed: Change[], inTurns = false): void {
  hubOf(tenant)
    .subscribe(
      { tenantId: tenant.tenantId, source: ALL_CHANGES, from: undefined, nextPage: inTurns ? undefined : nextTurn },
      { push: (change) => pushed.push(change) > 0, ended: () => undefined },
    )
    .start();
}
