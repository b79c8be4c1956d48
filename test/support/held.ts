import { until, type Service } from './service.js';
import type { Held } from './watched-service.js';

/** How long the event loop of a `WATCHED_SERVICE` was held, since the last call. */
export async function heldBy(service: Service): Promise<Held> {
  const told = (): string[] => service.output.split('\n').filter((line) => line.startsWith('{"held"'));
  const before = told().length;
  process.kill(service.pid, 'SIGUSR2');
  await until(() => told().length > before);
  return (JSON.parse(told().at(-1) ?? '') as { held: Held }).held;
}
