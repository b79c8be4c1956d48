import { JsonError, scanJson } from '../core/json-scanner.js';
import { TooCostlyError } from './run.js';

/**
 * Values of one event's data, which is parsed in one go: as many take 50 ms at most. Objects of which each has names of its own take longest,
 * a megabyte of them 150 ms.
 */
const MAX_VALUES = 50_000;
/** A value is of a byte at least, and has a comma or a bracket. */
const BYTES_PER_VALUE = 2;

/** The data of an event as values. @throws TooCostlyError where there are too many */
export function parsedData(data: Buffer): unknown {
  if (data.length > MAX_VALUES * BYTES_PER_VALUE) mustBeFew(data);
  return JSON.parse(data.toString('utf8'));
}

function mustBeFew(data: Buffer): void {
  try {
    scanJson(data, { maxDepth: MAX_VALUES, maxValues: MAX_VALUES });
  } catch (error) {
    // All else was looked at before it was stored, or is to be.
    if (error instanceof JsonError)
      throw new TooCostlyError(`has more than ${MAX_VALUES} values, which are too many to be checked`);
    throw error;
  }
}
