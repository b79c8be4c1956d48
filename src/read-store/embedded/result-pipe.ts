import { constants, open } from 'node:fs';
import { Socket } from 'node:net';
import { promisify } from 'node:util';

const openDescriptor = promisify(open);

/**
 * The reading end of a named pipe that the engine writes a result into; the engine waits while nobody reads.
 * It is opened before the engine opens the writing end (which would else wait for a reader), and without waiting for it.
 */
export class ResultPipe {
  readonly #socket: Socket;
  readonly #chunks: AsyncIterator<Buffer>;

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#chunks = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  static async open(path: string): Promise<ResultPipe> {
    const fd = await openDescriptor(path, constants.O_RDONLY | constants.O_NONBLOCK);
    return new ResultPipe(new Socket({ fd, readable: true, writable: false }));
  }

  /** The next chunk, or undefined when the engine has closed its end, or after `close`. */
  async next(): Promise<Buffer | undefined> {
    try {
      const { value, done } = await this.#chunks.next();
      return done === true ? undefined : value;
    } catch (error) {
      if (this.#socket.destroyed) return undefined;
      throw error;
    }
  }

  close(): void {
    this.#socket.destroy();
  }
}
