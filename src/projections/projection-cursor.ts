/** How far a tenant's live projections are in its order: as a standby they follow the owner's changes, then they are folded here. Ends are exclusive. */
export class ProjectionCursor {
  /** All inputs below are folded; their changes may be on the way. */
  folded: number;
  /** All changes of inputs below are acknowledged, and in the store. */
  stored: number;

  constructor(stored: number) {
    this.folded = this.stored = stored;
  }

  /** Nothing is on the way. */
  moveTo(end: number): void {
    this.folded = this.stored = end;
  }
}
