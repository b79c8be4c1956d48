// Changes as an earlier version wrote them, whose claims counted epochs of their own, and what this one makes of them.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { EMPTY_FENCE, foldRecord, type FenceState } from '../../src/core/fence.js';
import { NotOwnerError } from '../../src/core/errors.js';
import { silentLogger } from '../../src/core/logger.js';
import { FOLD_RULES, type ChangesBody, type ClaimBody } from '../../src/core/records.js';
import { loadCodecs } from '../../src/log/codec/codec.js';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { FencedPartition } from '../../src/log/journal/fenced-partition.js';
import type { Draft } from '../../src/log/journal/partition-handler.js';
import { ROOT, temporaryDirectory } from '../support/service.js';

const HOUR = 3_600_000;
const ref = { topic: 'statefold.acme.changes', partition: 0 };
const { changes: codec } = loadCodecs(join(ROOT, 'schemas', 'avro'));

const change = (inputOffset: number): ChangesBody => ({
  kind: 'Change',
  value: {
    ...{
      projectionId: 'p',
      revision: 1,
      className: 'C',
      key: 'k',
      inputOffset,
      inputIndex: 0,
      eventId: `e${inputOffset}`,
    },
    ...{ aggregateId: 'a', aggregateType: 't', version: inputOffset, timestamp: 0, cause: null, fault: null },
    state: Buffer.from('{}'),
  },
});

async function world(t: TestContext) {
  const clock = { at: Date.parse('2026-01-01T00:00:00Z') };
  const log = new LmdbLog({ path: join(temporaryDirectory(t), 'log'), now: () => clock.at });
  t.after(() => log.close());
  await log.ensureTopics([{ topic: ref.topic, partitions: 1, cleanup: { policy: 'delete', retentionMs: HOUR } }]);
  let written = 0;
  /** A record as the earlier version wrote it. */
  const write = async (owner: string, epoch: number, body: ChangesBody | ClaimBody): Promise<void> => {
    const recordId = `${owner}:${written++}`;
    const value = codec.encode({ epoch, owner, recordId, expectedOffset: -1, previous: '' }, body);
    await log.append(ref, [{ key: Buffer.from(recordId), value }]);
  };
  /** A partition of this version, whose owner has the epoch in the events. */
  const partition = (owner: string, epoch: number, from?: FenceState) => {
    const folded: number[] = [];
    const waiting: number[] = [];
    let [last, stopped]: [number, Error | undefined] = [-1, undefined];
    const fenced = new FencedPartition<ChangesBody>({
      ...{ log, ref, codec, owner, logger: silentLogger, ...(from && { from }) },
      epochs: { epoch, nextEpoch: () => Promise.reject(new NotOwnerError()) },
      handler: {
        judge: ({ value }) => value.inputOffset > last,
        fold: ({ body, accepted }) => {
          if (accepted) folded.push((last = body.value.inputOffset));
        },
        gather: () => waiting.splice(0).map((input): Draft<ChangesBody> => ({ body: change(input), keyPrefix: 'p/k' })),
        undecided: () => assert.fail('nothing is written twice'),
        refused: () => assert.fail('nothing is refused'),
        stopped: (error) => (stopped = error),
      },
    });
    const tell = async (input: number): Promise<void> => {
      waiting.push(input);
      fenced.kick();
      while (!folded.includes(input) && stopped === undefined) await new Promise((resolve) => setImmediate(resolve));
    };
    t.after(() => fenced.close());
    return { fenced, folded, tell, stopped: () => stopped };
  };
  return { clock, log, write, partition };
}

const counted: ClaimBody = { kind: 'Claim', value: { rules: FOLD_RULES } };

test('12: an owner of this version goes on from changes whose epochs were counted, above its own', async (t) => {
  const { log, write, partition } = await world(t);
  for (let epoch = 1; epoch <= 9; epoch++) {
    await write(`old${epoch}`, epoch, counted);
    await write(`old${epoch}`, epoch, change(epoch));
    await write(`old${epoch - 1}`, epoch - 1, change(100 + epoch));
  }
  const first = partition('new', 4);
  await first.fenced.open();
  assert.deepEqual(first.folded, [1, 2, 3, 4, 5, 6, 7, 8, 9], 'what counted counts, what was void is');
  assert.deepEqual([first.fenced.epoch, first.fenced.fence.given], [4, true]);
  await write('old9', 9, change(200));
  await first.tell(10);
  assert.equal(first.stopped(), undefined);

  // An earlier version that still ran finds in its own way that it was deposed.
  let state = EMPTY_FENCE;
  for (const { offset, value } of (await log.read(ref, 0, 1e6)).records.slice(0, 28)) {
    const record = value === null ? undefined : codec.decode(value);
    state = foldRecord<ChangesBody>(state, offset, record, () => true).state;
  }
  assert.deepEqual([state.epoch, state.owner], [10, 'new']);
  // What it claims after that counts for nobody.
  await write('old10', 11, counted);
  await write('old10', 11, change(300));

  const second = partition('next', 5);
  await second.fenced.open();
  assert.deepEqual(second.folded, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  await second.tell(11);
  await first.tell(12);
  assert.ok(first.stopped() instanceof NotOwnerError);
  const late = partition('late', 4);
  await assert.rejects(late.fenced.open(), NotOwnerError);
});

for (const left of ['a claim that was counted', 'no claim'] as const)
  test(`12: retention left ${left} of an earlier version: an old store and none agree from the next claim on`, async (t) => {
    const { clock, log, write, partition } = await world(t);
    for (let epoch = 1; epoch <= 5; epoch++) await write(`old${epoch}`, epoch, counted);
    await write('old5', 5, change(1));
    const before = partition('reader', 0);
    await before.fenced.open({ claim: false });
    const store = before.fenced.fence;
    await before.fenced.close();
    clock.at += HOUR + 1000;
    if (left === 'a claim that was counted') await write('old8', 8, counted);
    await write('old8', 8, change(2));
    await log.clean();
    assert.ok((await log.startOffset(ref)) > store.position - 1);

    const owner = partition('new', 3);
    await owner.fenced.open();
    await owner.tell(3);
    await owner.fenced.repeatClaim();
    const [fresh, old] = [partition('fresh', 4), partition('old', 5, store)];
    for (const { fenced, folded } of [fresh, old]) {
      await fenced.open({ claim: false });
      assert.deepEqual(folded.slice(-1), [3]);
      assert.deepEqual([fenced.fence.epoch, fenced.fence.owner], [3, 'new']);
    }
    assert.deepEqual(fresh.folded, left === 'no claim' ? [3] : [2, 3]);
  });
