import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  decideAppend,
  decideTransaction,
  headAfterPart,
  isRemembered,
  judgeTransaction,
  type Head,
  type RememberedCommand,
} from '../../src/core/append-rules.js';
import type { AppendCommand, ExpectedVersion, TransactionAppend } from '../../src/core/event.js';

const hash = Buffer.from('one body');
const command = (more: Partial<AppendCommand> = {}): AppendCommand => ({
  commandId: 'c',
  keyed: false,
  requestHash: hash,
  aggregateId: 'order-1',
  aggregateType: undefined,
  expectedVersion: 'any',
  correlationId: undefined,
  causationId: undefined,
  metadata: undefined,
  events: [{ eventType: 'e', data: Buffer.from('{}') }],
  ...more,
});
const head: Head = { version: 3, type: 'order', timestamp: 5000 };
const known: RememberedCommand = { offset: 7, requestHash: hash };

/** What a decision comes to, in one word or a few. */
function said(given: AppendCommand, at: Head | undefined, memory?: RememberedCommand, now = 9000): string {
  const decision = decideAppend(given, at, memory, now);
  if (decision.kind === 'write')
    return `write ${decision.aggregateType}@${decision.baseVersion} at ${decision.timestamp}`;
  if (decision.kind === 'replay') return `replay ${decision.command.offset}`;
  return `${decision.error.code} ${JSON.stringify(decision.error.details ?? {})}`;
}

describe('what is decided of an append', () => {
  it('6: by the version that the client expects', () => {
    const table: [ExpectedVersion, string, string][] = [
      // expected, no such aggregate, at version 3
      ['any', 'write order@0 at 9000', 'write order@3 at 9000'],
      ['none', 'write order@0 at 9000', 'VERSION_CONFLICT {"expectedVersion":"none","currentVersion":3}'],
      ['exists', 'VERSION_CONFLICT {"expectedVersion":"exists","currentVersion":0}', 'write order@3 at 9000'],
      [0, 'write order@0 at 9000', 'VERSION_CONFLICT {"expectedVersion":0,"currentVersion":3}'],
      [
        2,
        'VERSION_CONFLICT {"expectedVersion":2,"currentVersion":0}',
        'VERSION_CONFLICT {"expectedVersion":2,"currentVersion":3}',
      ],
      [3, 'VERSION_CONFLICT {"expectedVersion":3,"currentVersion":0}', 'write order@3 at 9000'],
      [
        4,
        'VERSION_CONFLICT {"expectedVersion":4,"currentVersion":0}',
        'VERSION_CONFLICT {"expectedVersion":4,"currentVersion":3}',
      ],
    ];
    for (const [expectedVersion, missing, there] of table) {
      assert.equal(said(command({ expectedVersion }), undefined), missing, `${expectedVersion}, missing`);
      assert.equal(said(command({ expectedVersion }), head), there, `${expectedVersion}, at 3`);
    }
  });

  it('the type: as sent, else as stored, else by the id; another one is refused', () => {
    assert.equal(said(command({ aggregateType: 'invoice' }), undefined), 'write invoice@0 at 9000');
    assert.equal(said(command({ aggregateId: '2024' }), undefined), 'write default@0 at 9000');
    assert.equal(said(command({ aggregateId: 'cart:9' }), { ...head, type: 'basket' }), 'write basket@3 at 9000');
    assert.equal(said(command({ aggregateType: 'order' }), head), 'write order@3 at 9000');
    assert.equal(
      said(command({ aggregateType: 'invoice' }), head),
      'AGGREGATE_TYPE_MISMATCH {"aggregateType":"order"}',
    );
  });

  it('4: a known key before all else, with the same body alone', () => {
    const keyed = command({ keyed: true, expectedVersion: 0, aggregateType: 'invoice' });
    assert.equal(said(keyed, head, known), 'replay 7');
    assert.equal(said({ ...keyed, requestHash: Buffer.from('another') }, head, known), 'IDEMPOTENCY_KEY_REUSED {}');
    assert.equal(
      said(command({ expectedVersion: 0, aggregateType: 'invoice' }), head),
      'AGGREGATE_TYPE_MISMATCH {"aggregateType":"order"}',
      'the type comes before the version',
    );
  });

  it('4: a key is remembered for a number of offsets, the oldest one still', () => {
    assert.ok(isRemembered(known, 17, 10));
    assert.ok(!isRemembered(known, 18, 10));
    assert.ok(isRemembered(known, 7, 0));
  });

  it('timestamps never go back within an aggregate, whatever the clock does', () => {
    assert.equal(said(command(), head, undefined, 1), 'write order@3 at 5000');
    assert.equal(said(command(), undefined, undefined, 1), 'write order@0 at 1');
  });
});

describe('what is decided of a transaction', () => {
  const heads = new Map<string, Head>([
    ['order-1', head],
    ['order-2', { version: 1, type: 'order', timestamp: 9500 }],
  ]);
  const headOf = (id: string): Head | undefined => heads.get(id);
  const append = (aggregateId: string, more: Partial<TransactionAppend> = {}): TransactionAppend => ({
    aggregateId,
    aggregateType: undefined,
    expectedVersion: 'any',
    events: [{ eventType: 'e', data: Buffer.from('{}') }],
    ...more,
  });
  const decide = (appends: TransactionAppend[], memory?: RememberedCommand): ReturnType<typeof decideTransaction> =>
    decideTransaction({ ...command(), appends }, headOf, memory, 9000);
  const refusal = (appends: TransactionAppend[]): [string, string, unknown] => {
    const decision = decide(appends);
    assert.ok(decision.kind === 'refuse');
    return [decision.error.code, decision.error.message, decision.error.details];
  };

  it('5: all of its aggregates are where it expects them, and it is not older than the last event of any', () => {
    assert.deepEqual(
      decide([append('order-1', { expectedVersion: 3 }), append('order-2'), append('new-1', { expectedVersion: 0 })]),
      {
        kind: 'write',
        parts: [
          { aggregateType: 'order', baseVersion: 3 },
          { aggregateType: 'order', baseVersion: 1 },
          { aggregateType: 'new', baseVersion: 0 },
        ],
        timestamp: 9500,
      },
    );
  });

  it('5, 6: one that is elsewhere refuses all, and each that is elsewhere is named', () => {
    const [code, message, details] = refusal([
      append('order-1', { expectedVersion: 2 }),
      append('order-2', { expectedVersion: 1 }),
      append('new-1', { expectedVersion: 'exists' }),
    ]);
    assert.equal(code, 'VERSION_CONFLICT');
    assert.match(
      message,
      /^aggregate 'order-1' is at version 3, expected was 2, and 1 more is elsewhere; nothing of the/,
    );
    assert.deepEqual(details, {
      mismatches: [
        { aggregateId: 'order-1', expectedVersion: 2, currentVersion: 3 },
        { aggregateId: 'new-1', expectedVersion: 'exists', currentVersion: 0 },
      ],
    });
    assert.match(
      refusal([append('order-1', { expectedVersion: 'none' })])[1],
      /at version 3, expected was none; nothing/,
    );
  });

  it('another type refuses all, and says of which aggregate', () => {
    const [code, , details] = refusal([append('order-2'), append('order-1', { aggregateType: 'invoice' })]);
    assert.deepEqual([code, details], ['AGGREGATE_TYPE_MISMATCH', { aggregateId: 'order-1', aggregateType: 'order' }]);
  });

  it('4: a known key is answered again, and refused for another body, wherever its aggregates are by now', () => {
    const elsewhere = [append('order-1', { expectedVersion: 0 })];
    assert.deepEqual(decide(elsewhere, known), { kind: 'replay', command: known });
    const decision = decide(elsewhere, { offset: 7, requestHash: Buffer.from('other') });
    assert.ok(decision.kind === 'refuse');
    assert.equal(decision.error.code, 'IDEMPOTENCY_KEY_REUSED');
  });

  it('5: its record counts where each of its parts does', () => {
    const part = (aggregateId: string, baseVersion: number, aggregateType = 'order'): Part => ({
      aggregateId,
      baseVersion,
      aggregateType,
      events: [],
    });
    type Part = Parameters<typeof judgeTransaction>[1]['parts'][number];
    const counts = (...parts: Part[]): boolean => judgeTransaction(headOf, { parts });
    assert.ok(counts(part('order-1', 3), part('order-2', 1), part('new-1', 0, 'new')));
    assert.ok(!counts(part('order-1', 3), part('order-2', 0)));
    assert.ok(!counts(part('order-1', 2), part('order-2', 1)));
    assert.ok(!counts(part('order-1', 3), part('order-2', 1, 'invoice')));
    assert.ok(!counts(part('order-1', 3), part('new-1', 1)));
    assert.deepEqual(headAfterPart({ ...part('order-1', 3), events: [EVENT, EVENT] }, { timestamp: 7 }), {
      version: 5,
      type: 'order',
      timestamp: 7,
    });
  });
});

const EVENT = { eventId: Buffer.alloc(16), eventType: 'e', data: Buffer.from('{}') };
