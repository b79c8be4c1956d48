import { StatefoldError } from '../../src/core/errors.js';
import type { EdgeOptions } from '../../src/http/edge-options.js';
import { ConcurrencyQuota } from '../../src/http/concurrency-quota.js';

const away = (): Promise<never> => Promise.reject(new StatefoldError('UNAVAILABLE', 'The read store is away'));

/** An edge whose read store is away. */
export const NO_SQL: EdgeOptions['sql'] = {
  tenants: { query: away, close: () => Promise.resolve() },
  quota: new ConcurrencyQuota(1),
  withoutFormer: away,
  flush: away,
};
