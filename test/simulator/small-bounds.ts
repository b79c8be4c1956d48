import type { LoadHook } from 'node:module';

/**
 * Bounds of the product, and what they are in a small world: a run of a few events comes to them. By module and name; these are
 * replaced where a module is loaded, since the product itself has no switch for tests.
 */
export const SMALL_BOUNDS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'projections/key-releases.js': { EVENTS_PER_BATCH: 2 },
  'projections/projector.js': { EVENTS_PER_BATCH: 3, BATCHES_IN_FLIGHT: 3, CHANGES_PER_PIECE: 2 },
  'projections/batch-size.js': { CHANGES: 5 },
  'projections/projection-builds.js': { MOST_EVENTS_PER_BATCH: 4, NEAR: 3 },
  'projections/projection-fold.js': { SLICE: 2 },
  'projections/projection-changes.js': { FIRST_READ: 2 },
  'projections/parted-input.js': { ROWS_PER_TURN: 1 },
  'projections/projection-swap.js': { PAST: 2 },
  'store/recorded-changes.js': { HELD_BYTES: 400, PAGE_ROWS: 2 },
  'store/local-store.js': { REMOVED_AT_ONCE: 2 },
  'store/store-section.js': { FLUSH_BYTES: 1000 },
  'store/change-index.js': { BLOCK: 4 },
  'feed/subscription.js': { PAGE: 2 },
  'feed/log-feed.js': { PAGES: 1, ITEMS_PER_READ: 3, RESTORED_TAIL: 4 },
  'core/slices.js': { MAPPED: 2, ITEMS_PER_LOOK: 1 },
  'aggregates/aggregate-history.js': { COMMITS_PER_READ: 2 },
  'aggregates/reducers.js': { HISTORY_EVENTS: 3 },
  'aggregates/reducer-turns.js': { COMMITS_PER_TURN: 2, BACKGROUND_EVENTS: 2 },
  'aggregates/reducer-catch-ups.js': { STANDING_AT_ONCE: 1 },
};

/** @throws Error when a module has no such bound: it was renamed, or is gone */
export function withSmallBounds(module: string, source: string): string {
  let small = source;
  for (const [name, value] of Object.entries(SMALL_BOUNDS[module] ?? {})) {
    const declared = new RegExp(`^((?:export )?const ${name} = )[^;]*;`, 'm');
    if (!declared.test(small)) throw new Error(`${module} has no constant ${name}: mend the list of small bounds`);
    small = small.replace(declared, `$1${value};`);
  }
  return small;
}

/** Hook of Node's loader. */
export const load: LoadHook = async (url, context, next) => {
  const loaded = await next(url, context);
  const module = Object.keys(SMALL_BOUNDS).find((name) => url.endsWith(`/dist/src/${name}`));
  if (module === undefined || loaded.source === undefined || loaded.source === null) return loaded;
  const { source } = loaded;
  const text = typeof source === 'string' ? source : Buffer.from(source as Uint8Array).toString();
  return { ...loaded, source: withSmallBounds(module, text) };
};
