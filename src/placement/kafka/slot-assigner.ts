/**
 * Which process owns each slot, which stands by, and which notifies. A pure function that the leader of the group calls; it sees what the
 * members say of themselves, and gives the same answer whatever the order of the members.
 */

export interface SlotProcess {
  readonly processId: string;
  /** Where the other processes reach it. */
  readonly url: string;
}

/** Who has each slot. Owners, standbys and notifiers are places in `processes`, by slot; -1 is nobody. */
export interface SlotMap {
  /** Grows with each map of the cluster's life that differs from the one before. */
  readonly version: number;
  readonly processes: readonly SlotProcess[];
  readonly owners: readonly number[];
  readonly standbys: readonly number[];
  /** Who tells clients of the changes of the slot's tenants. */
  readonly notifiers: readonly number[];
}

export interface SlotMember extends SlotProcess {
  /** It takes slots; a gateway only wants to know the map. */
  readonly tasks: boolean;
  /** It tells clients of changes, by webhooks and streams. */
  readonly notifier: boolean;
  /** Slots of which it has local state, from before or on its disk: it takes them over more cheaply than others would. */
  readonly warm: readonly number[];
  /** The last map that it knows. */
  readonly map: SlotMap | undefined;
}

export const NOBODY = -1;

/**
 * Owners are balanced within one slot, and no slot moves between two living processes but for that balance. The standbys of
 * one owner's slots lie so that after its end each slot goes to its standby, all is balanced again, and nothing else moves.
 * The notifier is whoever has the tenants at hand: the owner, else its standby, where they have the role; else any that has it.
 */
export function assignSlots(slots: number, members: readonly SlotMember[]): SlotMap {
  const known = newestMap(slots, members);
  const workers = distinct(members).filter((member) => member.tasks || member.notifier);
  const placeOf = new Map(workers.map((worker, place) => [worker.processId, place]));
  const before = (places: readonly number[] | undefined, slot: number): number =>
    placeOf.get(known?.processes[places?.[slot] ?? NOBODY]?.processId ?? '') ?? NOBODY;
  const warm = workers.map((worker) => new Set(worker.warm));
  const warmAt = (slot: number): number[] => warm.flatMap((its, place) => (its.has(slot) ? [place] : []));
  const all = Array.from({ length: slots }, (_, slot) => slot);

  const owners = spread(
    all,
    workers.map(({ tasks }) => (tasks ? 0 : undefined)),
    (slot) => {
      const owner = before(known?.owners, slot);
      return { stays: owner !== NOBODY, places: [owner, before(known?.standbys, slot), ...warmAt(slot)] };
    },
  );
  const owned = workers.map((_, place) => all.filter((slot) => owners.get(slot) === place));
  const standbys = new Map<number, number>();
  for (const [place, its] of owned.entries()) {
    // The owner itself is no bin: what it has goes on top of what the others have.
    const loads = owned.map((other, at) => (at === place || workers[at]?.tasks !== true ? undefined : other.length));
    const chosen = spread(its, loads, (slot) => {
      const standby = before(known?.standbys, slot);
      return {
        stays: standby !== NOBODY && standby !== place,
        places: [standby, before(known?.owners, slot), ...warmAt(slot)],
      };
    });
    for (const [slot, at] of chosen) standbys.set(slot, at);
  }
  const atHand = (slot: number): number | undefined =>
    [owners.get(slot), standbys.get(slot)].find((place) => place !== undefined && workers[place]?.notifier === true);
  const notifiers = new Map(
    all.flatMap((slot) => [[slot, atHand(slot) ?? NOBODY] as const]).filter(([, place]) => place !== NOBODY),
  );
  const apart = all.filter((slot) => !notifiers.has(slot));
  const telling = workers.map(({ notifier }, place) =>
    notifier ? [...notifiers.values()].filter((at) => at === place).length : undefined,
  );
  for (const [slot, at] of spread(apart, roomy(telling, apart.length), (slot) => {
    const notifier = before(known?.notifiers, slot);
    return { stays: notifier !== NOBODY, places: [notifier, ...warmAt(slot)] };
  }))
    notifiers.set(slot, at);

  const map: SlotMap = {
    version: (known?.version ?? 0) + 1,
    processes: workers.map(({ processId, url }) => ({ processId, url })),
    owners: all.map((slot) => owners.get(slot) ?? NOBODY),
    standbys: all.map((slot) => standbys.get(slot) ?? NOBODY),
    notifiers: all.map((slot) => notifiers.get(slot) ?? NOBODY),
  };
  return known !== undefined && sameMap(known, map) ? known : map;
}

/** They say the same of every slot. */
export function sameMap(a: SlotMap, b: SlotMap): boolean {
  const said = (map: SlotMap, slot: number): string =>
    [map.owners, map.standbys, map.notifiers]
      .map((places) => map.processes[places[slot] ?? NOBODY])
      .map((process) => (process === undefined ? '' : `${process.processId} ${process.url}`))
      .join('\n');
  return (
    a.owners.length === b.owners.length &&
    a.processes.length === b.processes.length &&
    a.owners.every((_, slot) => said(a, slot) === said(b, slot))
  );
}

/** The map is of so many slots. */
export const isOf = (slots: number, { owners, standbys, notifiers }: SlotMap): boolean =>
  [owners, standbys, notifiers].every((places) => places.length === slots);

/** What the group agreed on last. A map of another number of slots is of no use. */
function newestMap(slots: number, members: readonly SlotMember[]): SlotMap | undefined {
  const maps = members.flatMap(({ map }) => (map !== undefined && isOf(slots, map) ? [map] : []));
  return maps.sort((a, b) => b.version - a.version || (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))[0];
}

/** One member a process, by its id: a connection that broke while joining may have left a second one until it times out. */
function distinct(members: readonly SlotMember[]): SlotMember[] {
  const byId = new Map<string, SlotMember>();
  const roles = ({ tasks, notifier }: SlotMember): number => Number(tasks) + Number(notifier);
  // Of two that know the same, the one that takes less is on its way out.
  const newer = (a: SlotMember, b: SlotMember): boolean =>
    (a.map?.version ?? 0) > (b.map?.version ?? 0) ||
    ((a.map?.version ?? 0) === (b.map?.version ?? 0) && roles(a) < roles(b));
  for (const member of members) {
    const other = byId.get(member.processId);
    if (other === undefined || newer(member, other)) byId.set(member.processId, member);
  }
  return [...byId.values()].sort((a, b) => (a.processId < b.processId ? -1 : 1));
}

/** The loads without the bins that have more than their share before anything is added: the others are filled up to one level. */
function roomy(loads: readonly (number | undefined)[], items: number): readonly (number | undefined)[] {
  const bins = loads.filter((load) => load !== undefined);
  const level = Math.floor((items + bins.reduce((sum, load) => sum + load, 0)) / bins.length);
  return bins.some((load) => load > level)
    ? roomy(
        loads.map((load) => (load !== undefined && load > level ? undefined : load)),
        items,
      )
    : loads;
}

interface Choice {
  /** It is at its first choice now, and would have to move. */
  readonly stays: boolean;
  /** The bins that it would rather be in, best first; `NOBODY`, bins that are not there and repetitions are passed over. */
  readonly places: readonly number[];
}

/** An item, with the bins that are there of those that it would rather be in. */
interface Wish extends Choice {
  readonly item: number;
}

/**
 * Gives each item to a bin, so that the bins (their load and what they get) end within one of each other. What is in a bin
 * already leaves it only when the bin is over its share; what has to go elsewhere goes to its next choice that has room.
 */
function spread(
  items: readonly number[],
  loads: readonly (number | undefined)[],
  choiceOf: (item: number) => Choice,
): Map<number, number> {
  const bins = loads.flatMap((load, bin) => (load === undefined ? [] : [bin]));
  const placed = new Map<number, number>();
  if (bins.length === 0) return placed;

  const wishes = items.map((item): Wish => {
    const { stays, places } = choiceOf(item);
    return { item, stays, places: [...new Set(places)].filter((bin) => loads[bin] !== undefined) };
  });
  const wanting = new Map(bins.map((bin) => [bin, wishes.filter(({ places }) => places[0] === bin)]));
  const room = roomIn(bins, loads, items.length, wanting);
  const roomOf = (bin: number): number => room.get(bin) ?? 0;
  const put = (item: number, bin: number): void => {
    placed.set(item, bin);
    room.set(bin, roomOf(bin) - 1);
  };

  // Each bin takes of those whose first choice it is as many as it has room for.
  const hasSpare = new Set(bins.filter((bin) => roomOf(bin) > (wanting.get(bin)?.length ?? 0)));
  for (const bin of bins)
    for (const { item } of inOrder(wanting.get(bin) ?? [], hasSpare).slice(0, roomOf(bin))) put(item, bin);

  // The others go to their next choice with room; those that have none, where there is most of it.
  const left = wishes.filter(({ item }) => !placed.has(item));
  for (const { item, places } of left) {
    const next = places.find((bin) => roomOf(bin) > 0);
    if (next !== undefined) put(item, next);
  }
  const roomiest = (): number => bins.reduce((best, bin) => (roomOf(bin) > roomOf(best) ? bin : best));
  for (const { item } of left) if (!placed.has(item)) put(item, roomiest());
  return placed;
}

/** What each bin may get: all the same, and one more those that would otherwise have to give something up, then those that are wanted. */
function roomIn(
  bins: readonly number[],
  loads: readonly (number | undefined)[],
  items: number,
  wanting: ReadonlyMap<number, readonly Wish[]>,
): Map<number, number> {
  const load = (bin: number): number => loads[bin] ?? 0;
  const total = items + bins.reduce((sum, bin) => sum + load(bin), 0);
  const floor = Math.floor(total / bins.length);
  const fits = (count: number): number => (count > floor ? 0 : 1);
  const rankOf = (bin: number): string => {
    const wanted = wanting.get(bin) ?? [];
    const staying = wanted.filter(({ stays }) => stays).length;
    return [load(bin), load(bin) + staying, load(bin) + wanted.length].map(fits).join('');
  };
  const ranked = bins
    .map((bin) => ({ bin, rank: rankOf(bin) }))
    .sort((a, b) => (a.rank === b.rank ? a.bin - b.bin : a.rank < b.rank ? -1 : 1));
  const more = total % bins.length;
  return new Map(ranked.map(({ bin }, place) => [bin, floor + (place < more ? 1 : 0) - load(bin)]));
}

/** First those that are there already, and of these and the others each time those first that would find no room in another choice. */
function inOrder(wishes: readonly Wish[], hasSpare: ReadonlySet<number>): readonly Wish[] {
  const rank = ({ stays, places }: Wish): number =>
    (stays ? 0 : 2) + (places.slice(1).some((other) => hasSpare.has(other)) ? 1 : 0);
  return [...wishes].sort((a, b) => rank(a) - rank(b) || a.item - b.item);
}
