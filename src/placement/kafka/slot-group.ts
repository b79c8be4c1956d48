import type { Owner, Ownership, SlotShare } from '../ownership.js';
import { slotOf } from '../../core/slots.js';
import type { Logger } from '../../core/logger.js';
import type { ConnectionSettings } from '../../kafka/broker-connection.js';
import { Cluster } from '../../kafka/cluster.js';
import { GroupMember } from '../../kafka/group-member.js';
import { assignSlots, isOf, NOBODY, sameMap, type SlotMap, type SlotProcess } from './slot-assigner.js';
import { decodeAssignment, decodeMember, encodeAssignment, encodeMember, protocolName } from './slot-wire.js';

export interface SlotGroupOptions extends ConnectionSettings {
  /** Each as host:port. */
  readonly brokers: readonly string[];
  /** First part of the names of the topic and the group. */
  readonly prefix: string;
  /** A new one each start. */
  readonly processId: string;
  /** Where the other processes reach this one. Read at each joining: it may not be known before. */
  readonly url: string;
  /** It takes slots. Without, it is a member of the group all the same: so it learns of changes when the others do. */
  readonly tasks: boolean;
  /** It notifies clients of changes. */
  readonly notifier: boolean;
  /** A process that is not heard of for so long loses its slots. Kafka's brokers allow 6 s to 30 min unless told otherwise. */
  readonly sessionTimeoutMs: number;
  /** Slots of which there is state on this machine: they come here rather than elsewhere, as far as its share goes. */
  readonly warmSlots?: () => readonly number[];
  readonly logger: Logger;
}

type Places = 'owners' | 'standbys' | 'notifiers';

/** How soon a change is known. */
const HEARTBEAT_MS = 300;
/** For one question to one broker, of those that any of them can answer. */
const REQUEST_MS = 3000;

/**
 * Ownership from a consumer group on the topic of slots. The group's leader works the whole map out, and every member is given
 * it. During a rebalance, and while Kafka is away, the last known map goes on to hold, with one exception: a process that the
 * group has not confirmed within the session timeout has no slots any more by what this says, as others may have them; it goes on
 * with the epochs that it holds until a claim ends them, and makes no claim until the group has taken it back.
 */
export class SlotGroup implements Ownership {
  readonly slots: number;
  readonly #options: SlotGroupOptions;
  readonly #cluster: Cluster;
  readonly #member: GroupMember;
  readonly #listeners: (() => void)[] = [];
  readonly #waiting = new Set<() => void>();
  #map: SlotMap | undefined;
  /** Listeners were told that this process has no slots, whatever `#map` says. */
  #lost = false;
  #leaving = false;
  /** The slots that this process had when it began to leave. */
  #kept: ReadonlySet<number> = new Set();

  /** Reads how many slots there are. The topic must be there. @throws when Kafka can't be reached, or has no such topic */
  static async open(options: SlotGroupOptions): Promise<SlotGroup> {
    const topic = `${options.prefix}.slots`;
    const { brokers, clientId, connectTimeoutMs, ssl, sasl, throttling } = options;
    const connection = {
      clientId,
      connectTimeoutMs,
      ...(ssl !== undefined && { ssl }),
      ...(sasl !== undefined && { sasl }),
      ...(throttling !== undefined && { throttling }),
    };
    const cluster = new Cluster({ ...connection, brokers, requestTimeoutMs: REQUEST_MS });
    try {
      const layout = await cluster.layout(topic);
      if (layout === undefined) throw new Error(`there is no topic ${topic}`);
      return new SlotGroup(options, connection, cluster, topic, layout.leaders.length);
    } catch (error) {
      cluster.close();
      throw error;
    }
  }

  private constructor(
    options: SlotGroupOptions,
    connection: ConnectionSettings,
    cluster: Cluster,
    topic: string,
    slots: number,
  ) {
    const { prefix, processId, sessionTimeoutMs, logger } = options;
    this.#options = options;
    this.#cluster = cluster;
    this.slots = slots;
    this.#member = new GroupMember({
      cluster,
      connection,
      groupId: `${prefix}-slots`,
      protocol: protocolName(slots),
      sessionTimeoutMs,
      heartbeatMs: HEARTBEAT_MS,
      logger,
      metadata: () =>
        encodeMember(topic, {
          processId,
          url: options.url,
          tasks: options.tasks && !this.#leaving,
          notifier: options.notifier && !this.#leaving,
          warm: this.#warm(),
          map: this.#map,
        }),
      assign: (members) => {
        const said = members.map(({ memberId, memberMetadata }) => ({
          memberId,
          member: decodeMember(memberMetadata),
        }));
        const map = assignSlots(
          slots,
          said.flatMap(({ member }) => member ?? []),
        );
        return said.map(({ memberId, member }) => ({
          memberId,
          memberAssignment: encodeAssignment(topic, map, member?.processId ?? ''),
        }));
      },
      assigned: (assignment) => this.#assigned(decodeAssignment(assignment)),
      confirmed: () => this.#setLost(false),
      lost: () => this.#setLost(true),
    });
  }

  /** To be called when this process can be reached at its URL. Resolves when it knows who owns what. @throws when the group refuses this process */
  join(): Promise<void> {
    return this.#member.join();
  }

  ownerOf(slotKey: string): Owner {
    const owner = this.#placed('owners', slotKey);
    if (owner === undefined) return this.#kept.has(slotOf(slotKey, this.slots)) ? 'self' : undefined;
    return this.#asOwner(owner);
  }

  owns(slotKey: string): boolean {
    return this.ownerOf(slotKey) === 'self';
  }

  standsBy(slotKey: string): boolean {
    const standby = this.#placed('standbys', slotKey);
    return standby !== undefined && this.#asOwner(standby) === 'self';
  }

  notifies(tenantId: string): boolean {
    const notifier = this.#placed('notifiers', tenantId);
    return notifier !== undefined && this.#asOwner(notifier) === 'self';
  }

  notifierOf(tenantId: string): Owner {
    const notifier = this.#placed('notifiers', tenantId);
    return notifier === undefined ? this.ownerOf(tenantId) : this.#asOwner(notifier);
  }

  notifiedElsewhere(tenantId: string): boolean {
    const notifier = this.notifierOf(tenantId);
    return notifier !== undefined && notifier !== 'self';
  }

  #placed(places: Places, slotKey: string): SlotProcess | undefined {
    return this.#map?.processes[this.#map[places][slotOf(slotKey, this.slots)] ?? NOBODY];
  }

  /** What is said of this process counts as far as the group has confirmed it. */
  #asOwner({ processId, url }: SlotProcess): Owner {
    if (processId !== this.#options.processId) return { url };
    return this.#member.current ? 'self' : undefined;
  }

  shares(): readonly SlotShare[] {
    const map = this.#map;
    return (map?.processes ?? []).map(({ processId, url }, place) => {
      const of = (places: readonly number[] = []): number => places.filter((one) => one === place).length;
      return {
        process: processId === this.#options.processId ? 'self' : { url },
        owned: of(map?.owners),
        standbys: of(map?.standbys),
        notified: of(map?.notifiers),
      };
    });
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  changed(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, withinMs);
      this.#waiting.add(done);
    });
  }

  /**
   * Stays a member, but one without a role, so that this process too learns who has its slots now, for forwarding. Resolves
   * when it knows, or after the session timeout. Slots that nobody takes stay here.
   */
  async leave(): Promise<void> {
    if (this.#leaving) return;
    this.#kept = new Set(this.#own());
    this.#leaving = true;
    this.#member.rejoin();
    const end = performance.now() + this.#options.sessionTimeoutMs;
    while (this.#hasSlots && this.#member.current && performance.now() < end)
      await this.changed(end - performance.now());
  }

  /** Leaves the group at once, if `leave` was not called with its slots. What is known of the others goes on to hold. */
  async close(): Promise<void> {
    this.#leaving = true;
    await this.#member.leave();
    this.#cluster.close();
    for (const done of this.#waiting) done();
  }

  /** By the map, confirmed or not. */
  #own(places: Places = 'owners'): number[] {
    const { processId } = this.#options;
    return (
      this.#map?.[places].flatMap((place, slot) =>
        this.#map?.processes[place]?.processId === processId ? [slot] : [],
      ) ?? []
    );
  }

  /** As owner or notifier, whom others send requests to. */
  get #hasSlots(): boolean {
    return this.#own().length > 0 || this.#own('notifiers').length > 0;
  }

  #warm(): number[] {
    const slots = [
      ...(this.#options.warmSlots?.() ?? []),
      ...this.#own(),
      ...this.#own('standbys'),
      ...this.#own('notifiers'),
    ];
    return [...new Set(slots)].filter((slot) => slot < this.slots);
  }

  #assigned(map: SlotMap | undefined): void {
    // Its leader is no process of ours, or does not understand us.
    if (map === undefined || !isOf(this.slots, map)) throw new Error(`the group gave no map of ${this.slots} slots`);
    const same = !this.#lost && this.#map !== undefined && sameMap(this.#map, map);
    this.#map = map;
    this.#lost = false;
    if (same) return;
    this.#options.logger.info(
      {
        map: map.version,
        processes: map.processes.length,
        slots: this.#own().length,
        standbys: this.#own('standbys').length,
        notified: this.#own('notifiers').length,
      },
      'slots were assigned',
    );
    this.#tell();
  }

  #setLost(lost: boolean): void {
    if (this.#lost === lost || !this.#hasSlots) return;
    this.#lost = lost;
    const { logger } = this.#options;
    if (lost)
      logger.warn(
        { slots: this.#own().length },
        'this process may have lost its slots; it claims none until the group confirms that they are its own',
      );
    else logger.info({ slots: this.#own().length }, 'the slots of this process were its own all the time');
    this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
    for (const done of [...this.#waiting]) done();
  }
}
