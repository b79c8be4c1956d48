import { check } from './checker.js';
import { NO_FAULTS } from './sim-log.js';
import { Random } from './scheduler.js';
import type { Truth } from './truth.js';
import { World, type WorldOptions } from './world.js';

const target = (projectionId: string, revision: number): WorldOptions['deploys'][number] => ({
  projectionId,
  revision,
  artefactId: `${projectionId}-${revision}`,
  classNames: ['C'],
});

/** A small world without faults; a case says what differs. */
export const calm = (seed: number): WorldOptions => ({
  seed,
  machines: 1,
  clients: 3,
  commands: 5,
  aggregates: 2,
  keys: 3,
  faults: NO_FAULTS,
  crashes: 0,
  pauses: 0,
  takeovers: 0,
  standbys: 0,
  promotions: 0,
  handovers: 0,
  snapshots: 0,
  trims: 0,
  deploys: [target('p', 1)],
  runnerCrashes: 0,
  storeFailures: 0,
  window: 100_000,
  flushEntries: 2000,
  tailBytes: 1e6,
  changesPerProduce: 1000,
  rowsPerSlice: 256,
  bad: 0,
  bitter: 0,
  stops: 0,
  releases: 0,
  transactions: 0,
  erasures: 0,
});

/** What the seed makes of a world: how large it is, and what goes wrong in it. */
export function planOf(seed: number): WorldOptions {
  const random = new Random(seed ^ 0x5f0d);
  const some = (chance: number, value: number): number => (random.chance(chance) ? value : 0);
  // The last two have the code of the first upload again: from states of it that were kept, where there are any, and from the start.
  const again = { artefactId: target('p', 1).artefactId };
  const all = [
    target('p', 1),
    target('a', 1),
    target('p', 2),
    { ...target('p', 3), ...again, cause: 'rollback' as const },
    { ...target('p', 4), ...again, cause: 'rebuild' as const },
  ];
  const plan = {
    seed,
    machines: 1 + random.below(3),
    clients: 1 + random.below(5),
    commands: 3 + random.below(8),
    aggregates: 1 + random.below(3),
    keys: 1 + random.below(4),
    faults: {
      lost: some(0.6, 12),
      dropped: some(0.4, 8),
      refused: some(0.3, 8),
      unreadable: some(0.3, 2),
    },
    crashes: some(0.7, 1 + random.below(4)),
    pauses: some(0.5, 1 + random.below(4)),
    takeovers: some(0.7, 1 + random.below(4)),
    standbys: some(0.7, 1 + random.below(4)),
    promotions: some(0.8, 1 + random.below(3)),
    handovers: some(0.3, 1 + random.below(2)),
    deploys: all.slice(0, random.below(6)),
    runnerCrashes: some(0.3, 10),
    storeFailures: some(0.2, 20),
    window: 100_000,
    flushEntries: random.pick([1, 5, 40, 2000]),
    tailBytes: random.pick([500, 3000, 1e6]),
    bad: some(0.5, 15),
    changesPerProduce: random.pick([1, 2, 1000]),
    bitter: some(0.4, 12),
    stops: some(0.3, 30),
    releases: some(0.7, 4 + random.below(8)),
    snapshots: some(0.5, 1 + random.below(3)),
  };
  // That a process was stopped on an event of a key is in the changes alone: who has neither them nor a store runs it again.
  // Drawn last: what a seed made of a world before is as it was.
  return {
    ...plan,
    faults: { ...plan.faults, lagging: some(0.4, 15) },
    trims: plan.stops > 0 ? 0 : some(0.6, 1 + random.below(4)),
    rowsPerSlice: random.pick([1, 2, 256]),
    transactions: some(0.6, 40),
    erasures: 0,
  };
}

/** The same world, in which aggregates are erased. */
export function erasingPlanOf(seed: number): WorldOptions {
  const plan = planOf(seed);
  const random = new Random(seed ^ 0xe7a5e);
  // Which changes a projection makes of what is being erased is nobody's to say; where processes are stopped, nor is what is left.
  const erasures = 1 + random.below(3);
  const trims = random.chance(0.6) ? 1 + random.below(4) : 0;
  return { ...plan, erasures, stops: 0, aggregates: plan.aggregates + 1, trims };
}

/** The same world, in which more is erased, and more stands by: what comes of both is rare. */
export function standbysWithErasures(seed: number): WorldOptions {
  const plan = erasingPlanOf(seed);
  return { ...plan, machines: Math.max(2, plan.machines), standbys: 4, erasures: 4 };
}

/** A seed with erasures: retention took what was told of erased events, of some keys of those that are looked at then. */
export const PARTLY_FORGOTTEN = 592;

export interface Outcome {
  readonly problems: readonly string[];
  readonly steps: number;
  readonly trace: readonly string[];
  readonly truth: Truth | undefined;
  readonly promoted: World['promoted'];
  /** Machines that started from a snapshot. */
  readonly restored: number;
  readonly trimmed: number;
  /** How often states were looked at; partly: without keys of which nobody can say what is right. */
  readonly looks: number;
  readonly partialLooks: number;
  /** Requests that were answered that the aggregate was erased. */
  readonly gone: number;
}

/** Runs a world to its end and checks it. */
export async function simulate(
  options: WorldOptions,
  play: (world: World) => Promise<void> = (world) => world.run(),
): Promise<Outcome> {
  const world = new World(options);
  const release = world.scheduler.takeTimers();
  try {
    await play(world);
    const { problems, truth } = await check(world);
    return {
      problems,
      truth,
      steps: world.scheduler.step,
      trace: world.scheduler.trace,
      promoted: world.promoted,
      restored: world.restored,
      trimmed: world.trimmed,
      looks: world.looks,
      partialLooks: world.partialLooks,
      gone: goneIn(world),
    };
  } catch (error) {
    const problem = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return {
      problems: [...world.problems, problem],
      truth: undefined,
      steps: world.scheduler.step,
      trace: world.scheduler.trace,
      promoted: world.promoted,
      restored: world.restored,
      trimmed: world.trimmed,
      looks: world.looks,
      partialLooks: world.partialLooks,
      gone: goneIn(world),
    };
  } finally {
    release();
  }
}

const goneIn = ({ reads, commands }: World): number =>
  reads.filter(({ gone }) => gone).length +
  commands
    .flatMap(({ attempts }) => attempts)
    .filter(({ answer }) => answer?.kind === 'refused' && answer.error.code === 'GONE').length;
