/** How far work over history has come. Positions are log offsets, or places in the tenant's order. */
export interface Progress {
  readonly status: 'running' | 'done' | 'failed';
  readonly processed: number;
  readonly total: number;
  readonly eventsPerSecond: number;
}
