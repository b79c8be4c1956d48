/**
 * Entry of the child process that holds the embedded ClickHouse. Its settings come as the first line of stdin (not as
 * arguments, which other users could read), its answer is one line of stdout; when stdin ends, so does the process:
 * it never outlives its parent, however that ended.
 */
import { createInterface } from 'node:readline';
import { within } from '../../core/within.js';
import { Engine } from './engine.js';
import { HttpInterface, type HttpInterfaceOptions } from './http-interface.js';

export interface EngineProcessSettings extends Omit<HttpInterfaceOptions, 'engine' | 'owner'> {
  readonly directory: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly memoryLimit: number;
}

export type EngineProcessMessage =
  | { readonly type: 'ready'; readonly port: number }
  | { readonly type: 'failed'; readonly code: string; readonly message: string };

const say = (message: EngineProcessMessage): Promise<void> =>
  new Promise((resolve) => {
    process.stdout.write(`${JSON.stringify(message)}\n`, () => resolve());
  });

const CLOSING_MS = 2_000;

let engine: Engine | undefined;
let server: HttpInterface | undefined;

/** Statements get a moment to be cancelled; a process of many native threads is then ended without its destructors. */
async function end(): Promise<never> {
  server?.close();
  if (engine !== undefined)
    await within(
      engine.close().catch(() => undefined),
      CLOSING_MS,
    );
  process.kill(process.pid, 'SIGKILL');
  return new Promise<never>(() => undefined);
}

async function start(settings: EngineProcessSettings): Promise<void> {
  try {
    engine = new Engine({ directory: settings.directory, memoryLimit: settings.memoryLimit });
    await engine.open();
    server = new HttpInterface({ ...settings, engine, owner: { user: settings.user, password: settings.password } });
    await say({ type: 'ready', port: await server.listen(settings.port) });
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'UNKNOWN';
    await say({ type: 'failed', code, message: error instanceof Error ? error.message : String(error) });
    await end();
  }
}

// Ctrl-C reaches the whole process group; the parent decides when its engine ends.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => void end());
const lines = createInterface({ input: process.stdin });
lines.once('line', (line) => void start(JSON.parse(line) as EngineProcessSettings));
lines.once('close', () => void end());
