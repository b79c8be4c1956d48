import protocol, { type Definition, type GroupAnswer } from 'kafkajs/src/protocol/requests/index.js';
import { BrokerConnection, type ConnectionSettings } from './broker-connection.js';
import type { Cluster } from './cluster.js';
import { KafkaCodeError } from './kafka-error.js';

/** Error codes of Kafka's groups. */
export const GROUP_CODE = {
  LOAD_IN_PROGRESS: 14,
  NOT_AVAILABLE: 15,
  NOT_COORDINATOR: 16,
  ILLEGAL_GENERATION: 22,
  UNKNOWN_MEMBER_ID: 25,
  REBALANCE_IN_PROGRESS: 27,
  MEMBER_ID_REQUIRED: 79,
} as const;

export interface Joined {
  readonly generationId: number;
  readonly leaderId: string;
  readonly memberId: string;
  /** Of the leader's answer alone. */
  readonly members: readonly { readonly memberId: string; readonly memberMetadata: Buffer }[];
}

const API = { FindCoordinator: 10, JoinGroup: 11, Heartbeat: 12, LeaveGroup: 13, SyncGroup: 14 } as const;
const { requests } = protocol;

/**
 * The broker that keeps a group, and its protocol as a member speaks it, on a connection of its own: a join that waits for
 * other members holds it up. All calls throw KafkaCodeError, UnsentError or UnansweredError.
 */
export class GroupCoordinator {
  readonly #connection: BrokerConnection;
  readonly #groupId: string;

  private constructor(
    connection: BrokerConnection,
    readonly host: string,
    readonly port: number,
    groupId: string,
  ) {
    this.#connection = connection;
    this.#groupId = groupId;
  }

  static async find(cluster: Cluster, groupId: string, settings: ConnectionSettings): Promise<GroupCoordinator> {
    const { errorCode, coordinator } = await cluster.ask('query', (connection) =>
      connection.bind(API.FindCoordinator, requests.GroupCoordinator, { groupId }),
    );
    if (errorCode !== 0) throw new KafkaCodeError(errorCode, `the coordinator of group ${groupId}`);
    return GroupCoordinator.at(coordinator.host, coordinator.port, groupId, settings);
  }

  static async at(
    host: string,
    port: number,
    groupId: string,
    settings: ConnectionSettings,
  ): Promise<GroupCoordinator> {
    return new GroupCoordinator(await BrokerConnection.open(host, port, settings), host, port, groupId);
  }

  get usable(): boolean {
    return this.#connection.usable;
  }

  /** Answered when all members have joined, or after the rebalance timeout. Without an id of a member the answer is an id to come with. */
  async join(
    memberId: string,
    protocolName: string,
    metadata: Buffer,
    times: { sessionTimeoutMs: number; rebalanceTimeoutMs: number },
    timeoutMs: number,
  ): Promise<Joined | { memberId: string; generationId?: undefined }> {
    const groupProtocols = [{ name: protocolName, metadata }];
    const args = {
      groupId: this.#groupId,
      memberId,
      protocolType: 'consumer',
      groupProtocols,
      sessionTimeout: times.sessionTimeoutMs,
      rebalanceTimeout: times.rebalanceTimeoutMs,
    };
    const answer = await this.#ask('JoinGroup', requests.JoinGroup, args, timeoutMs, GROUP_CODE.MEMBER_ID_REQUIRED);
    return answer.errorCode === GROUP_CODE.MEMBER_ID_REQUIRED ? { memberId: answer.memberId } : answer;
  }

  /** Answered when the leader has given out the assignments. */
  async sync(
    { memberId, generationId }: { memberId: string; generationId: number },
    assignments: readonly { memberId: string; memberAssignment: Buffer }[],
    timeoutMs: number,
  ): Promise<Buffer> {
    const args = { groupId: this.#groupId, generationId, memberId, groupAssignment: assignments };
    return (await this.#ask('SyncGroup', requests.SyncGroup, args, timeoutMs)).memberAssignment;
  }

  async heartbeat(
    { memberId, generationId }: { memberId: string; generationId: number },
    timeoutMs: number,
  ): Promise<void> {
    await this.#ask(
      'Heartbeat',
      requests.Heartbeat,
      { groupId: this.#groupId, groupGenerationId: generationId, memberId },
      timeoutMs,
    );
  }

  async leave(memberId: string, timeoutMs: number): Promise<void> {
    await this.#ask('LeaveGroup', requests.LeaveGroup, { groupId: this.#groupId, memberId }, timeoutMs);
  }

  close(): void {
    this.#connection.destroy(new Error('it is not needed any more'));
  }

  async #ask<A, T extends GroupAnswer>(
    name: keyof typeof API,
    definition: Definition<A, T>,
    args: A,
    timeoutMs: number,
    ...expected: number[]
  ): Promise<T> {
    const answer = await this.#connection.send(await this.#connection.bind(API[name], definition, args), timeoutMs);
    if (answer.errorCode !== 0 && !expected.includes(answer.errorCode))
      throw new KafkaCodeError(answer.errorCode, `${name} of ${this.#groupId}`);
    return answer;
  }
}
