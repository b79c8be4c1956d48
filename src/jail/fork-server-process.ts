/*
 * The process that starts others for a service: it stays small, so that each costs a millisecond. Asked over the channel of its parent, it
 * connects what leads to the child to the parent's socket, and tells how the child comes and goes. It ends when its parent does; what it has
 * started ends by itself, since its connections are the parent's.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { giveWay } from '../core/priority.js';
import type { ForkAnswer, ForkRequest } from './fork-server.js';

/** Its parent may have ended by then: that is no failure of this process, which would end it before it has tidied up. */
const tell = (answer: ForkAnswer): void => void process.send?.(answer, undefined, undefined, () => undefined);

/** Says whose it is. Nothing is read of it here: the child does. */
async function connected(path: string, greeting: string): Promise<Socket> {
  const socket = connect(path);
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  await new Promise<void>((resolve, reject) => {
    socket.write(greeting, (error) => (error ? reject(error) : resolve()));
  });
  return socket;
}

/**
 * Node's own end of a connection is read when there is something, and a program waits for its own as for a file. Node makes the first three
 * so by itself. Nothing comes before the parent knows that the child is there: this process never waits.
 */
function block(socket: Socket): void {
  (socket as unknown as { readonly _handle: { setBlocking(on: boolean): number } })._handle.setBlocking(true);
}

async function start({
  id,
  path,
  token,
  command,
  args,
  cwd,
  env,
  pipes,
  niceness,
  isGrouped,
}: ForkRequest): Promise<void> {
  const failed = (error: unknown, isUnreachable: boolean): void =>
    tell({ kind: 'failed', id, message: error instanceof Error ? error.message : String(error), isUnreachable });
  let ends: readonly Socket[];
  try {
    ends = await Promise.all(pipes.map((descriptor) => connected(path, `${token} ${descriptor}\n`)));
  } catch (error) {
    return failed(error, true);
  }
  try {
    const stdio = Array.from({ length: Math.max(3, ...pipes.map((descriptor) => descriptor + 1)) }, (_, descriptor) =>
      pipes.includes(descriptor) ? (ends[pipes.indexOf(descriptor)] as Socket) : ('ignore' as const),
    );
    for (const end of ends) block(end);
    const child = spawn(command, [...args], { cwd, env: { ...env }, detached: isGrouped !== true, stdio });
    child.once('error', (error) => {
      if (child.pid === undefined) failed(error, false);
    });
    child.once('exit', (code, signal) => tell({ kind: 'exited', id, code, signal }));
    if (child.pid === undefined) return;
    // Before it has threads.
    if (niceness !== undefined) giveWay(child.pid, niceness);
    tell({ kind: 'started', id, pid: child.pid });
  } catch (error) {
    failed(error, false);
  } finally {
    for (const end of ends) end.destroy();
  }
}

const folders = new Set<string>();
process.on('message', (request: ForkRequest) => {
  folders.add(dirname(request.path));
  void start(request);
});
process.once('disconnect', () => process.exit());
// A terminal sends them to all that it started, and the service may have work to end first.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => undefined);
// Its parent may have been killed, and left them there.
process.once('exit', () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
