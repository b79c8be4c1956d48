/** ClickHouse refused or failed; `message` is its text: `Code: N. DB::Exception: …`. */
export class EngineError extends Error {
  constructor(
    readonly engineCode: number,
    message: string,
  ) {
    super(message);
    this.name = 'EngineError';
  }
}
