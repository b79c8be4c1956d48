// Retries, skips and erasures lie in the log as commits do, and can be written without end.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { StatefoldError } from '../../src/core/errors.js';
import type { Control } from '../../src/core/records.js';
import { storedControlBytes } from '../../src/log/codec/commit-bytes.js';
import { TenantFaults } from '../../src/tenancy/faults.js';

const release = (key: string): Control => ({
  kind: 'ProjectionRelease',
  value: {
    ...{ projectionId: 'p', revision: 1, className: 'C', key, eventId: 'e' },
    ...{ mode: 'retry' as const, commandId: randomUUID() },
  },
});

test('a control has the bytes of its texts, and what is around them', () => {
  const [small, large] = [storedControlBytes(release('k')), storedControlBytes(release('k'.repeat(256)))];
  assert.ok(small > 100 && small < 400, `${small}`);
  assert.equal(large - small, 255);
});

test('past the storage quota all keys are not retried, and one key is', async () => {
  const refusal = new StatefoldError('QUOTA_EXCEEDED', 'the tenant stores as much as it may');
  const written: unknown[] = [];
  const fault = { eventId: 'e', aggregateId: 'a', version: 1 };
  const faults = new TenantFaults({
    tables: {
      liveProjection: () => ({ revision: 1, artefactId: 'a', classNames: ['C'] }),
      keyState: () => ({ fault }),
      faults: { keys: () => [['k', 0]] },
    },
    code: { isHalted: () => false },
    input: { first: { propose: (control: unknown) => Promise.resolve(void written.push(control)) } },
    projections: {
      mustServe: () => undefined,
      releases: { outcomeOf: () => ({ outcome: Promise.resolve({ outcome: 'released' }), forget: () => undefined }) },
    },
    storage: { refusal },
  } as unknown as ConstructorParameters<typeof TenantFaults>[0]);
  const query = { projectionId: 'p', className: undefined, eventId: undefined, version: undefined } as const;
  await assert.rejects(faults.releaseKeys({ ...query, key: undefined, mode: 'retry' }), { code: 'QUOTA_EXCEEDED' });
  assert.equal(written.length, 0);
  for (const [key, mode] of [
    ['k', 'retry'],
    ['k', 'skip'],
    [undefined, 'skip'],
  ] as const)
    assert.equal((await faults.releaseKeys({ ...query, key, mode }))[0]?.outcome, 'released');
  assert.equal(written.length, 3);
});
