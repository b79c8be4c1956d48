/*
 *   CREATED ──open──► RESTORING ──tail folded, claimed──► RUNNING ──close──► SUSPENDED ──flushed──► CLOSED
 *                        │                                  ▲                    ▲
 *                        └──as a standby──► FOLLOWING ──promoted, claimed        │
 *                                               └──────────close─────────────────┘
 *   RESTORING, FOLLOWING, RUNNING ──deposed, or broken──► CLOSED
 */
export type TaskStatus = 'CREATED' | 'RESTORING' | 'FOLLOWING' | 'RUNNING' | 'SUSPENDED' | 'CLOSED';
/** What may come after each. */
export const NEXT: Readonly<Record<TaskStatus, readonly TaskStatus[]>> = {
  CREATED: ['RESTORING', 'CLOSED'],
  RESTORING: ['FOLLOWING', 'RUNNING', 'CLOSED'],
  FOLLOWING: ['RUNNING', 'SUSPENDED', 'CLOSED'],
  RUNNING: ['SUSPENDED', 'CLOSED'],
  SUSPENDED: ['CLOSED'],
  CLOSED: [],
};
