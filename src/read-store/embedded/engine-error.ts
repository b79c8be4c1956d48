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

/** Without the prefixes and the suffixes that the layers of the engine repeat around it. */
export const onceTold = (message: string): string =>
  message
    .replace(/^(?:Code: \d+\. DB::Exception: )+(?=Code: \d+\.)/, '')
    .replace(/(?: \(version [^)]*\)\. \([A-Z_]+\))+\s*$/, '');
