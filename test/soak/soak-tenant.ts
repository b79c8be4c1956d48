import { History } from '../support/history.js';

/** A tenant under load, and all that it was answered. */
export class LoadTenant {
  readonly history = new History();
  /** By aggregate, the highest version that was answered. */
  readonly seen = new Map<string, number>();

  constructor(
    readonly tenantId: string,
    readonly key: string,
    readonly aggregates: number,
  ) {}

  aggregateId(number: number): string {
    return `ledger-${number}`;
  }
}
