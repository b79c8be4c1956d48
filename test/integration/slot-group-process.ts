// A process that shares the slots, for tests that kill or pause it: node slot-group-process.js <brokers> <prefix> <process id> <session timeout in ms>
import { silentLogger } from '../../src/core/logger.js';
import { SlotGroup } from '../../src/placement/kafka/slot-group.js';

const [, , brokers = '', prefix = '', processId = '', sessionTimeoutMs = ''] = process.argv;
const group = await SlotGroup.open({
  brokers: brokers.split(','),
  clientId: processId,
  connectTimeoutMs: 2000,
  prefix,
  processId,
  url: `http://${processId}`,
  tasks: true,
  notifier: true,
  sessionTimeoutMs: Number(sessionTimeoutMs),
  logger: silentLogger,
});
await group.join();
process.send?.('joined');
// Asked for a tenant, it says who owns it, as of now.
process.on('message', (tenantId: string) =>
  process.send?.({ tenantId, owner: group.ownerOf(tenantId) ?? null, at: performance.now() }),
);
