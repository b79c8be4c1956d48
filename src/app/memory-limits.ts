import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import type { Settings } from '../config/settings.js';
import type { BudgetLimits } from '../core/budget.js';

const MIB = 1024 * 1024;
const LEAST = { process: 64 * MIB, tenant: 16 * MIB };
const MOST_OF_TENANT = 128 * MIB;

/** Of this machine, or of the container: bytes that the heap may take, and all memory. */
export interface MachineMemory {
  readonly heap: number;
  readonly total: number;
}

/** 0 and absurdly much both say that nothing constrains the process. */
function machineMemory(): MachineMemory {
  const constrained = process.constrainedMemory();
  const total = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
  return { heap: getHeapStatistics().heap_size_limit, total };
}

/** What may be held, as the settings say, or as the machine allows. */
export function memoryLimits(
  settings: Pick<Settings, 'memoryBudgetBytes' | 'tenantMemoryBudgetBytes'>,
  { heap, total }: MachineMemory = machineMemory(),
): BudgetLimits {
  const { memoryBudgetBytes: given, tenantMemoryBudgetBytes: ofTenant } = settings;
  const processBytes = given === 'auto' ? Math.max(LEAST.process, Math.floor(Math.min(heap / 2, total / 4))) : given;
  const tenantBytes =
    ofTenant === 'auto' ? Math.min(MOST_OF_TENANT, Math.max(LEAST.tenant, Math.floor(processBytes / 4))) : ofTenant;
  return { processBytes, tenantBytes: Math.min(tenantBytes, processBytes) };
}
