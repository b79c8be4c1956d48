import { dataFailure, StartupError } from '../core/startup-error.js';
import { UnknownSchemaError } from '../log/codec/codec.js';

/**
 * One sentence or more for whoever started the service, without a stack.
 * `directory`: the data directory, where errors of files are taken to come from; undefined while it isn't known.
 */
export function describeStartFailure(error: unknown, directory: string | undefined): string {
  const causes = causesOf(error);
  for (const cause of causes) {
    if (cause instanceof StartupError || cause instanceof UnknownSchemaError) return cause.message;
    const { path } = cause as NodeJS.ErrnoException;
    const failure = directory === undefined ? undefined : dataFailure(cause, path ?? directory, directory);
    if (failure !== undefined) return failure.message;
  }
  const reasons = [...new Set(causes.map(({ message }) => message.replace(/\.$/, '')))];
  return `Statefold could not start: ${reasons.join(': ')}. LOG_LEVEL=debug shows where it happened.`;
}

/** The error, and what it came from. */
function causesOf(error: unknown): readonly Error[] {
  const causes: Error[] = [];
  for (let cause = error; cause instanceof Error && !causes.includes(cause); cause = cause.cause) causes.push(cause);
  return causes.length > 0 ? causes : [new Error(String(error))];
}
