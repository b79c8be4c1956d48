/** A range that is being read. */
export class OpenRange<T> {
  isClosed = false;

  constructor(readonly rows: Iterator<T>) {}

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.rows.return?.();
  }
}

/**
 * The ranges of one turn of the event loop. lmdb has 126 readers for a whole environment, and keeps all that is deleted while one reads.
 * Who goes through a range may wait for something between two rows, for the log say: it is closed with the turn, and is to be opened anew
 * behind its last row.
 */
export class OpenRanges {
  /** Most of them are closed when the turn ends: it costs less to keep them until then. */
  #opened: OpenRange<unknown>[] = [];
  readonly #endOfTurn: (work: () => void) => void;

  constructor(endOfTurn: (work: () => void) => void = (work) => void setImmediate(work)) {
    this.#endOfTurn = endOfTurn;
  }

  open<T>(range: Iterable<T>): OpenRange<T> {
    const opened = new OpenRange(range[Symbol.iterator]());
    if (this.#opened.push(opened) === 1) this.#endOfTurn(() => this.#closeAll());
    return opened;
  }

  #closeAll(): void {
    const opened = this.#opened;
    this.#opened = [];
    for (const range of opened) range.close();
  }
}
