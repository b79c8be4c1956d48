import { StatefoldError } from '../../src/core/errors.js';
import type { EdgeOptions } from '../../src/http/edge-options.js';

const none = (): never => {
  throw new StatefoldError('UNAVAILABLE', 'nothing is sent from here');
};

/** Of an edge whose tenants have no webhook endpoints. */
export const noEndpoints: Pick<EdgeOptions, 'endpoints' | 'endpointOperations'> = {
  endpoints: {
    list: () => [],
    ...{ require: none, secretOf: none, create: none, change: none, remove: none },
    ...{ pause: none, resume: none, rotate: none },
  },
  endpointOperations: {
    ...{ state: none, progress: none, attempts: none, deadLetters: none },
    ...{ test: none, replay: none, resend: none, resendAll: none, retry: none },
  },
};
