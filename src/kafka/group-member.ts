import type { Logger } from '../core/logger.js';
import type { ConnectionSettings } from './broker-connection.js';
import type { Cluster } from './cluster.js';
import { GROUP_CODE, GroupCoordinator } from './group-coordinator.js';
import { KafkaCodeError, UnansweredError, UnsentError } from './kafka-error.js';

export interface GroupMemberOptions {
  /** Asked for the group's coordinator. */
  readonly cluster: Cluster;
  readonly connection: ConnectionSettings;
  readonly groupId: string;
  readonly protocol: string;
  /** Without a heartbeat for so long the group goes on without this member. */
  readonly sessionTimeoutMs: number;
  readonly heartbeatMs: number;
  readonly logger: Logger;
  /** What this member says of itself, at each joining. */
  readonly metadata: () => Buffer;
  /** This member leads: what each is given. */
  readonly assign: (
    members: readonly { readonly memberId: string; readonly memberMetadata: Buffer }[],
  ) => { memberId: string; memberAssignment: Buffer }[];
  /** May throw when it makes no sense; then this member joins anew, later. */
  readonly assigned: (assignment: Buffer) => void;
  /** After each heartbeat: `current` is true, and the last assignment counts. */
  readonly confirmed: () => void;
  /** `current` is false, until one of the two above. May be called again meanwhile. */
  readonly lost: () => void;
}

const RETRY_MS = { first: 50, most: 500, refused: 5000 };
const LEAVE_MS = 1000;

/**
 * A member of a Kafka consumer group that consumes nothing: join, sync, heartbeats, leave. kafkajs's consumer would fetch
 * all the time to stay a member (its heartbeats go between fetches), and ends for good after some errors; this one comes back
 * from all of them.
 */
export class GroupMember {
  readonly #options: GroupMemberOptions;
  readonly #callMs: number;
  #coordinator: GroupCoordinator | undefined;
  #memberId = '';
  /** Of the assignment that counts; undefined while this member has to join (again). */
  #generationId: number | undefined;
  #currentUntil = 0;
  /** How often what this member says of itself has changed. */
  #changes = 0;
  #left = false;
  #wake: (() => void) | undefined;

  constructor(options: GroupMemberOptions) {
    this.#options = options;
    this.#callMs = Math.max(1000, Math.ceil(options.sessionTimeoutMs / 3));
  }

  /**
   * The group counts this member among its own, as far as can be known without asking: it confirmed that within the session
   * timeout. By the clock, so that a process that was paused knows it before it does anything else.
   */
  get current(): boolean {
    return performance.now() < this.#currentUntil;
  }

  /** Joins, and stays a member until `leave`. Resolves with the first assignment. @throws when the group refuses this member */
  join(): Promise<void> {
    return new Promise((resolve, reject) => void this.#stay(resolve, reject));
  }

  /** What this member says of itself has changed: it joins again, and all get new assignments. */
  rejoin(): void {
    this.#changes++;
    this.#generationId = undefined;
    this.#wake?.();
  }

  /** The group goes on without this member at once. Never fails: the session timeout does the same later. */
  async leave(): Promise<void> {
    if (this.#left) return;
    this.#left = true;
    this.#wake?.();
    const { groupId, connection, logger } = this.#options;
    // Its connection may be held up by a join.
    const last = this.#coordinator;
    last?.close();
    if (last === undefined || this.#memberId === '') return;
    try {
      const coordinator = await GroupCoordinator.at(last.host, last.port, groupId, {
        ...connection,
        connectTimeoutMs: LEAVE_MS,
      });
      await coordinator.leave(this.#memberId, LEAVE_MS).finally(() => coordinator.close());
    } catch (error) {
      logger.debug({ err: error, groupId }, 'the group was not left in good order; it notices by itself');
    }
  }

  async #stay(joined: () => void, refused: (error: unknown) => void): Promise<void> {
    for (let failures = 0; !this.#left;) {
      try {
        const coordinator = await this.#reach();
        if (this.#generationId === undefined) {
          await this.#join(coordinator);
          joined();
        } else {
          await this.#beat(coordinator, this.#generationId);
        }
        failures = 0;
        // Unless `rejoin` was called meanwhile.
        if (this.#generationId !== undefined) await this.#pause(this.#options.heartbeatMs);
      } catch (error) {
        if (this.#left) break;
        const wait = this.#recover(error, failures++);
        // Has an effect before the first assignment only.
        if (wait === RETRY_MS.refused) refused(error);
        await this.#pause(wait);
      }
    }
    this.#coordinator?.close();
  }

  async #reach(): Promise<GroupCoordinator> {
    if (this.#coordinator?.usable === true) return this.#coordinator;
    const { cluster, groupId, connection } = this.#options;
    this.#coordinator = await GroupCoordinator.find(cluster, groupId, connection);
    return this.#coordinator;
  }

  async #join(coordinator: GroupCoordinator): Promise<void> {
    const { sessionTimeoutMs, protocol, metadata, assign, assigned, groupId, logger } = this.#options;
    // A process that was killed and is back at once is waited for no longer than that; all others join within a heartbeat.
    const rebalanceTimeoutMs = Math.ceil(sessionTimeoutMs / 2);
    const said = this.#changes;
    let joinedAt = performance.now();
    const join = (): ReturnType<GroupCoordinator['join']> =>
      coordinator.join(
        this.#memberId,
        protocol,
        metadata(),
        { sessionTimeoutMs, rebalanceTimeoutMs },
        rebalanceTimeoutMs + this.#callMs,
      );
    let answer = await join();
    this.#memberId = answer.memberId;
    if (answer.generationId === undefined) {
      joinedAt = performance.now();
      answer = await join();
    }
    if (answer.generationId === undefined) throw new Error(`the group ${groupId} gave an id that it does not know`);
    const { generationId, memberId, leaderId, members } = answer;
    this.#memberId = memberId;
    // Whoever waits in a join that is answered needed no heartbeat meanwhile; one that is not answered says nothing.
    if (this.current) this.#confirmed(joinedAt, sessionTimeoutMs);
    const sentAt = performance.now();
    const assignment = await coordinator.sync(
      { memberId, generationId },
      memberId === leaderId ? assign(members) : [],
      sessionTimeoutMs + this.#callMs,
    );
    if (said === this.#changes) this.#generationId = generationId;
    this.#confirmed(sentAt, sessionTimeoutMs);
    logger.debug({ groupId, memberId, generationId, leads: memberId === leaderId }, 'joined the group');
    assigned(assignment);
  }

  async #beat(coordinator: GroupCoordinator, generationId: number): Promise<void> {
    const sentAt = performance.now();
    try {
      await coordinator.heartbeat({ memberId: this.#memberId, generationId }, this.#callMs);
    } catch (error) {
      // The group knows this member: it is to join again.
      if (error instanceof KafkaCodeError && error.code === GROUP_CODE.REBALANCE_IN_PROGRESS)
        this.#confirmed(sentAt, this.#options.sessionTimeoutMs);
      throw error;
    }
    this.#confirmed(sentAt, this.#options.sessionTimeoutMs);
    this.#options.confirmed();
  }

  #confirmed(at: number, forMs: number): void {
    this.#currentUntil = Math.max(this.#currentUntil, at + forMs);
  }

  /** What to do about it, and for how many milliseconds to wait before. */
  #recover(error: unknown, failures: number): number {
    const { logger, groupId, lost } = this.#options;
    const code = error instanceof KafkaCodeError ? error.code : undefined;
    const unreachable =
      error instanceof UnsentError ||
      error instanceof UnansweredError ||
      code === GROUP_CODE.NOT_COORDINATOR ||
      code === GROUP_CODE.NOT_AVAILABLE;
    const retry = Math.min(RETRY_MS.most, RETRY_MS.first * 2 ** failures);
    if (unreachable || code === GROUP_CODE.LOAD_IN_PROGRESS) {
      // The membership may outlive the connection: the next heartbeat asks.
      if (unreachable) {
        this.#coordinator?.close();
        this.#options.cluster.distrust();
      }
      logger.debug({ err: error, groupId }, 'the coordinator of the group does not answer; it is looked for again');
      if (!this.current) lost();
      return retry;
    }
    this.#generationId = undefined;
    if (code === GROUP_CODE.REBALANCE_IN_PROGRESS || code === GROUP_CODE.ILLEGAL_GENERATION)
      return failures === 0 ? 0 : retry;
    this.#memberId = '';
    this.#currentUntil = 0;
    lost();
    if (code === GROUP_CODE.UNKNOWN_MEMBER_ID) {
      logger.warn({ groupId }, 'the group went on without this process, which joins again');
      return failures === 0 ? 0 : retry;
    }
    logger.error({ err: error, groupId }, 'the group does not take this process, which tries again');
    return RETRY_MS.refused;
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#left) this.#wake();
    });
  }
}
