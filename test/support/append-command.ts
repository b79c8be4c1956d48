import type { AppendCommand } from '../../src/core/event.js';
import { uuidv7 } from '../../src/core/ids.js';

/** An append of one event as the edge would ask for it, whatever version its aggregate has. */
export const appendOf = (aggregateId: string, eventType: string, data = '{}'): AppendCommand => ({
  commandId: uuidv7(),
  keyed: false,
  requestHash: Buffer.alloc(0),
  aggregateId,
  aggregateType: undefined,
  expectedVersion: 'any',
  correlationId: undefined,
  causationId: undefined,
  metadata: undefined,
  events: [{ eventType, data: Buffer.from(data) }],
});
