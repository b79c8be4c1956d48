import { StatefoldError } from '../../src/core/errors.js';
import type { EdgeOptions } from '../../src/http/edge-options.js';

const none = (): Promise<never> => Promise.reject(new StatefoldError('UNAVAILABLE', 'no event has a type here'));

/** Of an edge whose tenants have no schemas of event types. */
export const noEventTypes: Pick<EdgeOptions, 'eventTypes' | 'knows'> = {
  eventTypes: { get: () => undefined, list: () => [], check: none, put: none, remove: none },
  knows: none,
};
