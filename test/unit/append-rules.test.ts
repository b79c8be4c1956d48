import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decideAppend, isRemembered, type Head, type RememberedCommand } from '../../src/core/append-rules.js';
import type { AppendCommand, ExpectedVersion } from '../../src/core/event.js';

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
