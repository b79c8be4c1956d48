import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { judgeCommit, headAfter, type Head } from '../../src/core/append-rules.js';
import { EMPTY_FENCE, foldRecord, type FenceState, type Verdict } from '../../src/core/fence.js';
import { FOLD_RULES, GIVEN_EPOCH_RULES, type ClaimBody, type CommitValue, type Fence } from '../../src/core/records.js';

type Body = { readonly kind: 'Note'; readonly text: string };
type Entry = { readonly fence: Fence; readonly body: Body | ClaimBody } | undefined;

const fence = (owner: string, epoch: number, recordId: string, more: Partial<Fence> = {}): Fence => ({
  owner,
  epoch,
  recordId,
  expectedOffset: -1,
  previous: '',
  ...more,
});
const claim = (owner: string, epoch: number, rules = FOLD_RULES): Entry => ({
  fence: fence(owner, epoch, `${owner}:claim${epoch}`),
  body: { kind: 'Claim', value: { rules } },
});
const note = (owner: string, epoch: number, text: string, more: Partial<Fence> = {}): Entry => ({
  fence: fence(owner, epoch, `${owner}:${text}`, more),
  body: { kind: 'Note', text },
});

function fold(
  entries: readonly Entry[],
  judge: (body: Body) => boolean = () => true,
  from: FenceState = EMPTY_FENCE,
): { state: FenceState; verdicts: Verdict[] } {
  let state = from;
  const verdicts = entries.map((entry, i) => {
    const folded = foldRecord<Body>(state, from.position + i, entry, judge);
    state = folded.state;
    return folded.verdict;
  });
  return { state, verdicts };
}

describe('the fold of a fenced partition', () => {
  it('8: accepts a claim of the next epoch alone, and records of its owner alone', () => {
    const { state, verdicts } = fold([
      note('a', 0, 'before any claim'),
      claim('a', 1),
      note('a', 1, 'x'),
      claim('b', 1),
      claim('b', 3),
      note('b', 1, 'same epoch, another owner'),
      claim('b', 2),
      note('a', 1, 'late'),
      note('b', 2, 'y'),
      note('a', 2, 'same epoch, former owner'),
      claim('a', 2),
    ]);
    assert.deepEqual(verdicts, [
      'void',
      'claimed',
      'accepted',
      'void',
      'void',
      'void',
      'claimed',
      'void',
      'accepted',
      'void',
      'void',
    ]);
    assert.deepEqual(state, { epoch: 2, owner: 'b', position: 11, lastRecordId: 'a:claim2' });
  });

  it('8: a claim that its owner repeats counts, and changes nothing', () => {
    const { state, verdicts } = fold([
      claim('a', 1),
      note('a', 1, 'x'),
      claim('a', 1),
      note('a', 1, 'y'),
      claim('b', 1),
    ]);
    assert.deepEqual(verdicts, ['claimed', 'accepted', 'claimed', 'accepted', 'void']);
    assert.deepEqual([state.epoch, state.owner], [1, 'a']);
  });

  it('8, 12: epochs that are given: any higher one counts, and each is above those that were counted', () => {
    const given = (
      entries: readonly Entry[],
      from: FenceState = EMPTY_FENCE,
    ): { state: FenceState; verdicts: Verdict[] } => {
      let state = from;
      const verdicts = entries.map((entry, i) => {
        const folded = foldRecord<Body>(state, from.position + i, entry, () => true, 'given');
        state = folded.state;
        return folded.verdict;
      });
      return { state, verdicts };
    };
    // As an earlier version wrote it: epochs of its own, 1 to 9; then the first owner by this one, whose events have epoch 4.
    const counted = Array.from({ length: 9 }, (_, i) => claim(`old${i}`, i + 1));
    const rest = [
      note('old8', 9, 'x'),
      claim('b', 10),
      claim('b', 4, GIVEN_EPOCH_RULES),
      note('old8', 9, 'late'),
      note('b', 4, 'y'),
      claim('old8', 11),
      claim('old7', 5),
      claim('z', 3, GIVEN_EPOCH_RULES),
      claim('z', 4, GIVEN_EPOCH_RULES),
      claim('b', 4, GIVEN_EPOCH_RULES),
      note('b', 4, 'z'),
      claim('c', 17, GIVEN_EPOCH_RULES),
      note('b', 4, 'late'),
    ];
    const { state, verdicts } = given([...counted, ...rest]);
    assert.deepEqual(verdicts.slice(9), [
      ...['accepted', 'claimed', 'claimed', 'void', 'accepted'],
      ...['void', 'void', 'void', 'void', 'claimed', 'accepted', 'claimed', 'void'],
    ]);
    assert.deepEqual(state, { epoch: 17, owner: 'c', position: 22, lastRecordId: 'b:late', given: true });
    // Who reads from any given claim on comes to the same.
    const whole = [...counted, ...rest];
    for (const start of [11, 18, 20])
      assert.deepEqual(
        given(whole.slice(start), { ...EMPTY_FENCE, position: start, lastRecordId: undefined }),
        { state, verdicts: verdicts.slice(start) },
        `from ${start} on`,
      );
    assert.throws(() => given([claim('a', 1, GIVEN_EPOCH_RULES + 1)]), /rules 3, this version knows 2/);
    // A version that counts them finds that it is deposed, and then stops.
    assert.deepEqual(fold([claim('a', 1), claim('b', 2), note('a', 1, 'x')]).verdicts, ['claimed', 'claimed', 'void']);
    assert.throws(() => fold([claim('a', 1), claim('b', 2), claim('b', 3, GIVEN_EPOCH_RULES)]), /rules 2.*knows 1/);
  });

  it('asks the judge of records of the current epoch and owner alone', () => {
    const asked: string[] = [];
    const { verdicts } = fold(
      [claim('a', 1), note('a', 1, 'x'), note('b', 1, 'y'), note('a', 1, 'z')],
      ({ text }) => (asked.push(text), text !== 'z'),
    );
    assert.deepEqual(
      [verdicts, asked],
      [
        ['claimed', 'accepted', 'void', 'void'],
        ['x', 'z'],
      ],
    );
  });

  it('passes over foreign bytes and gaps, and then knows no record before', () => {
    const { state, verdicts } = fold([claim('a', 1), undefined]);
    assert.deepEqual(verdicts, ['claimed', 'void']);
    assert.equal(state.lastRecordId, undefined);
    const after = foldRecord<Body>(state, 9, note('a', 1, 'x', { expectedOffset: 9, previous: 'erased' }), () => true);
    assert.deepEqual([after.verdict, after.state.position], ['accepted', 10]);
  });

  it('stops at a claim of rules that it does not know, unless the claim is void', () => {
    assert.throws(() => fold([claim('a', 1, FOLD_RULES + 1)]), /rules 2.*knows 1/);
    assert.deepEqual(fold([claim('a', 5, FOLD_RULES + 1)]).verdicts, ['void']);
  });

  it('stops where the log went back', () => {
    assert.throws(() => foldRecord<Body>({ ...EMPTY_FENCE, position: 5 }, 4, undefined, () => true), /went back/);
  });

  it('stops where an accepted record does not follow the one that its writer saw', () => {
    const start = fold([claim('a', 1), note('a', 1, 'x')]).state;
    const follows = (more: Partial<Fence>): Verdict =>
      foldRecord<Body>(start, 2, note('a', 1, 'y', more), () => true).verdict;
    assert.equal(follows({ expectedOffset: 2, previous: 'a:x' }), 'accepted');
    assert.throws(() => follows({ expectedOffset: 2, previous: 'a:lost' }), /lost data/);
    // Another record came between, or the writer knew none before: nothing to hold it against.
    assert.equal(follows({ expectedOffset: 1, previous: 'a:other' }), 'accepted');
    assert.equal(follows({ expectedOffset: 2, previous: '' }), 'accepted');
    // A void record may say what it likes.
    assert.equal(
      foldRecord<Body>(start, 2, note('b', 1, 'y', { expectedOffset: 2, previous: 'a:lost' }), () => true).verdict,
      'void',
    );
  });

  it('9: whatever is in the log, readers agree: in one go, or from any checkpoint', () => {
    const entry = fc.oneof(
      fc
        .record({ owner: fc.constantFrom('a', 'b', 'c'), epoch: fc.integer({ min: 1, max: 6 }) })
        .map(({ owner, epoch }) => claim(owner, epoch)),
      fc
        .record({
          owner: fc.constantFrom('a', 'b', 'c'),
          epoch: fc.integer({ min: 0, max: 6 }),
          text: fc.string({ maxLength: 3 }),
        })
        .map(({ owner, epoch, text }) => note(owner, epoch, text)),
      fc.constant(undefined),
    );
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 40 }), fc.nat(40), (entries, cut) => {
        const whole = fold(entries);
        const at = Math.min(cut, entries.length);
        const first = fold(entries.slice(0, at));
        const rest = fold(entries.slice(at), () => true, first.state);
        assert.deepEqual({ state: rest.state, verdicts: [...first.verdicts, ...rest.verdicts] }, whole);
        // 8: owners of accepted records are those of the last accepted claim.
        let current: Fence | undefined;
        whole.verdicts.forEach((verdict, i) => {
          if (verdict === 'claimed') {
            const { epoch, owner } = entries[i]?.fence ?? assert.fail();
            const repeated = epoch === current?.epoch && owner === current.owner;
            assert.ok(repeated || epoch === (current?.epoch ?? 0) + 1);
            current = entries[i]?.fence;
          } else if (verdict === 'accepted')
            assert.deepEqual([entries[i]?.fence.epoch, entries[i]?.fence.owner], [current?.epoch, current?.owner]);
        });
      }),
    );
  });

  it('1: versions of an aggregate are 1 to N in log order, whatever its owners wrote', () => {
    const commit = (aggregateId: string, baseVersion: number, count: number, aggregateType: string): CommitValue => ({
      commandId: 'c',
      keyed: false,
      requestHash: Buffer.alloc(0),
      aggregateId,
      aggregateType,
      baseVersion,
      timestamp: 0,
      correlationId: null,
      causationId: null,
      metadata: null,
      events: Array.from({ length: count }, () => ({
        eventId: Buffer.alloc(16),
        eventType: 'e',
        data: Buffer.from('{}'),
      })),
    });
    const commits = fc.record({
      id: fc.constantFrom('x', 'y'),
      base: fc.nat(6),
      count: fc.integer({ min: 1, max: 3 }),
      type: fc.constantFrom('t', 't', 't', 'u'),
    });
    fc.assert(
      fc.property(fc.array(commits, { maxLength: 60 }), (list) => {
        const heads = new Map<string, Head>();
        for (const { id, base, count, type } of list) {
          const before = heads.get(id);
          const value = commit(id, base, count, type);
          const accepted = judgeCommit(before, value);
          assert.equal(accepted, base === (before?.version ?? 0) && (before === undefined || before.type === type));
          if (!accepted) continue;
          heads.set(id, headAfter(value));
          assert.equal(heads.get(id)?.version, (before?.version ?? 0) + count);
          assert.ok(!judgeCommit(heads.get(id), value), 'a duplicate voids itself');
        }
      }),
    );
  });
});
