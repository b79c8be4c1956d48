import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  assignSlots,
  NOBODY,
  sameMap,
  type SlotMap,
  type SlotMember,
} from '../../src/placement/kafka/slot-assigner.js';

const member = (processId: string, map?: SlotMap, more: Partial<SlotMember> = {}): SlotMember => ({
  processId,
  url: `http://${processId}:8080`,
  tasks: true,
  notifier: true,
  warm: [],
  map,
  ...more,
});
const nameOf = (map: SlotMap, place: number | undefined): string | undefined =>
  map.processes[place ?? NOBODY]?.processId;
const owners = (map: SlotMap): (string | undefined)[] => map.owners.map((place) => nameOf(map, place));
const standbys = (map: SlotMap): (string | undefined)[] => map.standbys.map((place) => nameOf(map, place));
const notifiers = (map: SlotMap): (string | undefined)[] => map.notifiers.map((place) => nameOf(map, place));
const slotsOf = (names: readonly (string | undefined)[], name: string): number[] =>
  names.flatMap((one, slot) => (one === name ? [slot] : []));
const names = (count: number): string[] => Array.from({ length: count }, (_, i) => `p${i}`);

function assertSound(map: SlotMap, slots: number, processes: readonly string[]): void {
  assert.equal(map.owners.length, slots);
  assert.equal(map.standbys.length, slots);
  const counts = processes.map((name) => slotsOf(owners(map), name).length);
  assert.equal(
    counts.reduce((sum, count) => sum + count, 0),
    processes.length === 0 ? 0 : slots,
    'every slot has an owner that is there',
  );
  if (processes.length > 0)
    assert.ok(Math.max(...counts) - Math.min(...counts) <= 1, `owners are within one: ${counts.join(' ')}`);
  assert.deepEqual(notifiers(map), owners(map), 'the owner notifies: it has the role');
  for (let slot = 0; slot < slots; slot++) {
    if (processes.length < 2) assert.equal(standbys(map)[slot], undefined);
    else
      assert.ok(
        processes.includes(standbys(map)[slot] ?? '') && standbys(map)[slot] !== owners(map)[slot],
        `slot ${slot} has a standby in another process`,
      );
  }
}

/** The fewest moves between living processes that balance asks for, given how many slots each had. */
function fewestMoves(had: readonly number[], slots: number): number {
  const floor = Math.floor(slots / had.length);
  const extra = slots % had.length;
  const rising = [...had].sort((a, b) => b - a);
  return rising.reduce((sum, count, place) => sum + Math.max(0, count - floor - (place < extra ? 1 : 0)), 0);
}

/** Sets of processes, one after the other, as a cluster may see them. */
const history = fc.array(fc.uniqueArray(fc.integer({ min: 0, max: 7 }), { maxLength: 8 }), {
  minLength: 1,
  maxLength: 12,
});
const slotCount = fc.integer({ min: 1, max: 96 });
/** Processes that keep their roles, by number: all of them, of one role each, or of some. */
const ROLES: readonly Partial<SlotMember>[] = [
  {},
  { notifier: false },
  { tasks: false },
  { tasks: false, notifier: false },
];
const roles = fc.array(fc.constantFrom(...ROLES), { minLength: 8, maxLength: 8 });

describe('the assignment of slots', () => {
  it('is balanced within one, with a standby elsewhere, and moves no more slots between living processes than balance asks for', () => {
    fc.assert(
      fc.property(slotCount, history, (slots, steps) => {
        let map: SlotMap | undefined;
        for (const step of steps) {
          const processes = step.map((n) => `p${n}`);
          const next: SlotMap = assignSlots(
            slots,
            processes.map((name) => member(name, map)),
          );
          assertSound(next, slots, processes);
          if (map !== undefined && processes.length > 0) {
            const [was, is] = [owners(map), owners(next)];
            const moved = was.filter(
              (name, slot) => name !== undefined && processes.includes(name) && name !== is[slot],
            ).length;
            assert.equal(
              moved,
              fewestMoves(
                processes.map((name) => slotsOf(was, name).length),
                slots,
              ),
            );
          }
          if (processes.length > 0) map = next;
        }
      }),
      { numRuns: 300 },
    );
  });

  it('gives each slot of a process that is gone to its standby, and moves nothing else', () => {
    fc.assert(
      fc.property(slotCount, history, fc.nat(), (slots, steps, pick) => {
        let map: SlotMap | undefined;
        let processes: string[] = [];
        for (const step of steps) {
          if (step.length < 2) continue;
          processes = step.map((n) => `p${n}`);
          map = assignSlots(
            slots,
            processes.map((name) => member(name, map)),
          );
        }
        fc.pre(map !== undefined);
        const gone = processes[pick % processes.length];
        const rest = processes.filter((name) => name !== gone);
        const next = assignSlots(
          slots,
          rest.map((name) => member(name, map)),
        );
        assertSound(next, slots, rest);
        assert.deepEqual(
          owners(next),
          owners(map).map((name, slot) => (name === gone ? standbys(map)[slot] : name)),
        );
      }),
      { numRuns: 300 },
    );
  });

  it('is the same whatever the order of the members, and whoever computes it', () => {
    fc.assert(
      fc.property(slotCount, history, fc.nat(), (slots, steps, seed) => {
        let map: SlotMap | undefined;
        for (const step of steps) {
          const members = step.map((n) => member(`p${n}`, n % 3 === 0 ? undefined : map));
          const turned = [
            ...members.slice(seed % (members.length || 1)),
            ...members.slice(0, seed % (members.length || 1)),
          ];
          const next: SlotMap = assignSlots(slots, members);
          assert.deepEqual(assignSlots(slots, turned.reverse()), next);
          map = next;
        }
      }),
    );
  });

  it('stays what it is, with its version, while the processes are the same', () => {
    const first = assignSlots(
      64,
      names(3).map((name) => member(name)),
    );
    assert.equal(first.version, 1);
    assert.deepEqual(
      assignSlots(64, [
        ...names(3).map((name) => member(name, first)),
        member('gateway', undefined, { tasks: false, notifier: false }),
      ]),
      first,
    );
    const moved = assignSlots(
      64,
      names(3).map((name) => member(name, first, name === 'p1' ? { url: 'http://elsewhere:1' } : {})),
    );
    assert.equal(moved.version, 2);
    assert.equal(sameMap(first, moved), false);
    assert.deepEqual(owners(moved), owners(first));
  });

  it('goes by the newest map that anyone knows: a process that was away brings no old one back', () => {
    const old = assignSlots(
      64,
      names(2).map((name) => member(name)),
    );
    const alone = assignSlots(64, [member('p1', old)]);
    const again = assignSlots(64, [member('p0', old), member('p1', alone), member('p2')]);
    assert.equal(again.version, alone.version + 1);
    assert.equal(slotsOf(owners(again), 'p1').length, 22);
    const other = assignSlots(32, [member('p0', old), member('p1', alone)]);
    assertSound(other, 32, ['p0', 'p1']);
  });

  it('gives a process that comes back the slots that it has state of, as far as its share goes', () => {
    const first = assignSlots(
      60,
      names(3).map((name) => member(name)),
    );
    const had = slotsOf(owners(first), 'p1');
    const without = assignSlots(
      60,
      ['p0', 'p2'].map((name) => member(name, first)),
    );
    const back = assignSlots(60, [
      member('p0', without),
      member('p1', undefined, { warm: had }),
      member('p2', without),
    ]);
    assert.deepEqual(slotsOf(owners(back), 'p1'), had);
    assert.equal(back.version, 3);
  });

  it('gives nothing to a gateway, and counts a process that is there twice once', () => {
    const none = assignSlots(8, [member('g', undefined, { tasks: false, notifier: false })]);
    assertSound(none, 8, []);
    const first = assignSlots(
      8,
      names(2).map((name) => member(name)),
    );
    const twice = assignSlots(8, [
      member('p0', undefined),
      member('p0', first),
      member('p1', first),
      member('p1', first, { tasks: false, notifier: false }),
    ]);
    assertSound(twice, 8, ['p0']);
    assert.deepEqual(
      twice.processes.map(({ processId }) => processId),
      ['p0'],
    );
  });

  it('lets the owner notify, else its standby, else any process of the role, balanced, and moves it between living processes for that alone', () => {
    fc.assert(
      fc.property(slotCount, roles, history, (slots, kinds, steps) => {
        let map: SlotMap | undefined;
        for (const step of steps) {
          const members = step.map((n) => member(`p${n}`, map, kinds[n]));
          const next: SlotMap = assignSlots(slots, members);
          const telling = members.flatMap(({ processId, notifier }) => (notifier ? [processId] : []));
          const [own, stand, notify] = [owners(next), standbys(next), notifiers(next)];
          const atHand = own.map((owner, slot) => [owner, stand[slot]].find((name) => telling.includes(name ?? '')));
          const apart = atHand.flatMap((name, slot) => (name === undefined ? [slot] : []));
          for (const [slot, name] of notify.entries()) {
            if (atHand[slot] !== undefined)
              assert.equal(name, atHand[slot], `slot ${slot} is notified where it is at hand`);
            else
              assert.equal(
                telling.includes(name ?? ''),
                telling.length > 0,
                `slot ${slot} is notified by a process of the role`,
              );
          }
          const load = (name: string): number => slotsOf(notify, name).length;
          const filled = telling.filter((name) => apart.some((slot) => notify[slot] === name));
          for (const name of filled)
            for (const other of telling)
              assert.ok(load(name) <= load(other) + 1, `${name} got more than ${other}, which has less`);
          if (map !== undefined) {
            const was = notifiers(map);
            const [moved] = apart.filter((slot) => telling.includes(was[slot] ?? '') && was[slot] !== notify[slot]);
            // A slot leaves a living notifier for balance alone: the others would be over their share without it.
            const left = moved === undefined ? undefined : was[moved];
            if (left !== undefined)
              assert.ok(
                load(left) >= Math.max(...filled.map(load)) - 1,
                `${left} lost a slot and has less than the others`,
              );
          }
          if (members.some(({ tasks, notifier }) => tasks || notifier)) map = next;
        }
      }),
      { numRuns: 500 },
    );
  });

  it('moves no notifier when a process without the role comes or goes, or nothing changes', () => {
    const cast = (map?: SlotMap): SlotMember[] => [
      member('t0', map, { notifier: false }),
      member('n0', map, { tasks: false }),
      member('n1', map, { tasks: false }),
    ];
    const first = assignSlots(64, cast());
    assert.deepEqual(
      ['n0', 'n1'].map((name) => slotsOf(notifiers(first), name).length),
      [32, 32],
    );
    assert.deepEqual(assignSlots(64, cast(first)), first);
    const second = assignSlots(64, [...cast(first), member('t1', undefined, { notifier: false })]);
    assert.deepEqual(notifiers(second), notifiers(first));
    assert.deepEqual(notifiers(assignSlots(64, cast(second))), notifiers(first));
    const gone = assignSlots(64, cast(second).slice(0, 2));
    assert.deepEqual(new Set(notifiers(gone)), new Set(['n0']));
    const back = assignSlots(64, [
      ...cast(gone).slice(0, 2),
      member('n1', undefined, { tasks: false, warm: slotsOf(notifiers(first), 'n1') }),
    ]);
    assert.deepEqual(notifiers(back), notifiers(first), 'it gets back what it has state of');
  });
});
