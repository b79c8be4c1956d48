import { uuidv7 } from '../../core/ids.js';
import type { BulkLineBody } from '../append-body.js';
import type { Slot } from './bulk-answers.js';

/** A line on its way to whoever serves its aggregate. */
export class BulkItem {
  /** Another process sent it, and may send it to a third one, or it was on its way to one. */
  remembered: boolean;
  #commandId: string | undefined;

  constructor(
    readonly slot: Slot,
    /** As it came: another process reads it once more. */
    readonly line: Buffer,
    readonly body: BulkLineBody,
    /** Of the process that sent it. */
    commandId: string | undefined,
    /** When an owner must have been found. */
    readonly until: number,
  ) {
    this.#commandId = commandId;
    this.remembered = commandId !== undefined;
  }

  /** Names the append where the client does not: so it can be sent to one owner after the other, and is stored once. */
  get commandId(): string {
    return (this.#commandId ??= uuidv7());
  }
}
