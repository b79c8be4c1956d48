import assert from 'node:assert/strict';
import type { Processes } from '../../src/http/processes.js';

/** Of an edge alone. */
export const NO_PROCESSES: Processes = {
  list: () => [],
  activity: () => ({}),
  activityOf: () => assert.fail('no other process is known'),
};
