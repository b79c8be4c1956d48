/** The process can't start as it was told to. The message, in sentences, says what to do about it. */
export class StartupError extends Error {
  override readonly name: string = 'StartupError';
}
