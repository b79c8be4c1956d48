import type { Owner, Ownership, SlotShare } from './ownership.js';
import { pause } from '../core/pause.js';

/** One process has every tenant, as with the embedded log. */
export class SoleOwner implements Ownership {
  readonly slots = 1;

  ownerOf(): Owner {
    return 'self';
  }

  owns(): boolean {
    return true;
  }

  standsBy(): boolean {
    return false;
  }

  notifies(): boolean {
    return true;
  }

  notifierOf(): Owner {
    return 'self';
  }

  notifiedElsewhere(): boolean {
    return false;
  }

  shares(): readonly SlotShare[] {
    return [{ process: 'self', owned: 1, standbys: 0, notified: 1 }];
  }

  onChange(): void {
    return;
  }

  changed(withinMs: number): Promise<void> {
    return pause(withinMs);
  }

  leave(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
