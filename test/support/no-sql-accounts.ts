import { StatefoldError } from '../../src/core/errors.js';
import type { EdgeOptions } from '../../src/http/edge-options.js';

const none = (): never => {
  throw new StatefoldError('SQL_NOT_ISOLATED', 'there are no accounts here');
};

/** An edge whose read store has no accounts. */
export const NO_SQL_ACCOUNTS: EdgeOptions['sqlAccounts'] = {
  areOffered: false,
  ...{ create: none, list: none, remove: none },
  removeAll: () => Promise.resolve(),
};
