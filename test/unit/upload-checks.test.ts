import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConcurrencyQuota } from '../../src/http/concurrency-quota.js';
import type { Call } from '../../src/http/route.js';
import type { Route, RouteDependencies } from '../../src/http/routes/dependencies.js';
import { UPLOAD_CHECKS } from '../../src/http/routes/upload-checks.js';

const ROUTES: readonly Route[] = UPLOAD_CHECKS;

test('a check past those that may be under way is refused before its form is read', async () => {
  const checks = new ConcurrencyQuota(1, 'checks under way');
  const dependencies = { checks } as RouteDependencies;
  const call = { tenantId: 't', body: () => Promise.reject(new Error('it was read')) } as unknown as Call;
  const release = checks.take('t');
  for (const route of ROUTES)
    await assert.rejects(async () => route.serve(dependencies, call), { code: 'RATE_LIMITED' }, route.path);
  release();
  for (const route of ROUTES)
    await assert.rejects(async () => route.serve(dependencies, call), /it was read/, route.path);
  checks.take('t')();
});
