import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProjectionEntity } from '../../src/catalog/catalog.js';
import { revised, revisionsOf } from '../../src/deployments/revisions.js';

const AT = '2026-01-01T00:00:00.000Z';
const first: ProjectionEntity = {
  ...{ tenantId: 'a', projectionId: 'p', artefactId: 'a0', createdAt: AT, revision: 1, sse: false },
  status: 'compiled',
};

const after = (uploads: number, className: string): ProjectionEntity => {
  let projection = first;
  for (let i = 1; i <= uploads; i++) {
    const discovered = [{ className, stateTypeName: 'S', kind: 'projection' as const }];
    projection = revised(
      projection,
      { artefactId: `a${i}`, status: 'compiled', uploadedAt: AT, discovered },
      AT,
      new Set(),
    );
  }
  return projection;
};

test('the last fifty revisions are remembered', () => {
  const revisions = revisionsOf(after(60, 'Totals')).map(({ revision }) => revision);
  assert.deepEqual(
    revisions,
    Array.from({ length: 51 }, (_, i) => 11 + i),
  );
});

test('fewer are where they are large', () => {
  const projection = after(60, 'T'.repeat(60_000));
  const revisions = revisionsOf(projection).map(({ revision }) => revision);
  assert.deepEqual(revisions, [57, 58, 59, 60, 61]);
  assert.ok(JSON.stringify(projection).length < 400_000);
});
