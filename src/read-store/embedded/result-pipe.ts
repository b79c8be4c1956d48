import { close, constants, open } from 'node:fs';
import { Socket } from 'node:net';
import { promisify } from 'node:util';

const openDescriptor = promisify(open);
const closeDescriptor = promisify(close);

/**
 * The reading end of a named pipe that the engine writes a result into; the engine waits while nobody reads.
 * The engine may open its end once, several times (when it fails) or never: so the pipe holds a writing end of its own, and
 * the result ends when that is let go of, after the statement has.
 */
export class ResultPipe {
  readonly #socket: Socket;
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #guard: number;

  private constructor(socket: Socket, guard: number) {
    this.#socket = socket;
    this.#chunks = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    this.#guard = guard;
  }

  static async open(path: string): Promise<ResultPipe> {
    const guard = await openDescriptor(path, constants.O_RDWR | constants.O_NONBLOCK);
    try {
      const fd = await openDescriptor(path, constants.O_RDONLY | constants.O_NONBLOCK);
      return new ResultPipe(new Socket({ fd, readable: true, writable: false }), guard);
    } catch (error) {
      await closeDescriptor(guard);
      throw error;
    }
  }

  /** The next chunk, or undefined at the end. */
  async next(): Promise<Buffer | undefined> {
    const chunk = await this.#chunks.next();
    return chunk.done === true ? undefined : chunk.value;
  }

  /** Nobody reads it any further. */
  destroy(): void {
    this.#socket.destroy();
  }

  /** To be called once, when the statement has ended: what it wrote can be read still, and then the end. */
  async finish(): Promise<void> {
    await closeDescriptor(this.#guard);
  }
}
