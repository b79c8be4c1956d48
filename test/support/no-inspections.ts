import { StatefoldError } from '../../src/core/errors.js';
import type { Inspections } from '../../src/inspection/inspections.js';

const none = (): Promise<never> => Promise.reject(new StatefoldError('UNAVAILABLE', 'nothing is folded again here'));

/** Of an edge whose tenants hold nothing that could be folded. */
export const noInspections: Inspections = {
  stateAt: none,
  dryRunReducers: none,
  runFixtures: none,
  dryRunProjection: none,
  verifyAggregates: none,
  verifyProjection: none,
};
