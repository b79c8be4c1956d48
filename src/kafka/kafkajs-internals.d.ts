/** The parts of kafkajs 2.2.4 below its clients, as far as they are used here. It is pinned: no release came after it. */
declare module 'kafkajs/src/protocol/error.js' {
  const errors: {
    createErrorFromCode(code: number): Error & { readonly type: string; readonly code: number };
  };
  export default errors;
}

declare module 'kafkajs/src/protocol/message/compression/index.js' {
  const compression: {
    /** Undefined or null for attributes without compression; throws where the codec is not installed. */
    lookupCodecByAttributes(attributes: number): { decompress(bytes: Buffer): Promise<Buffer> } | null | undefined;
  };
  export default compression;
}

declare module 'kafkajs/src/network/connection.js' {
  import type { Socket } from 'node:net';
  import type { BoundRequest, Versions } from 'kafkajs/src/protocol/requests/index.js';

  interface Logger {
    namespace(): Logger;
    debug(): void;
    info(): void;
    warn(): void;
    error(): void;
  }

  export default class Connection {
    constructor(options: {
      readonly host: string;
      readonly port: number;
      readonly clientId: string;
      readonly logger: Logger;
      readonly ssl: object | null;
      readonly sasl: object | null;
      readonly connectionTimeout: number;
      readonly requestTimeout: number;
      readonly enforceRequestTimeout: boolean;
      readonly reauthenticationThreshold: number;
      readonly socketFactory: (to: {
        readonly host: string;
        readonly port: number;
        readonly ssl: object | null;
        readonly onConnect: () => void;
      }) => Socket;
    });
    readonly requestQueue: { destroy(): void };
    /** Milliseconds that the broker gave with the last authentication; 0 for ever. */
    readonly sessionLifetime: { toNumber(): number };
    processData: (chunk: Buffer) => void;
    connect(): Promise<boolean>;
    authenticate(): Promise<void>;
    setVersions(versions: Versions): void;
    setSupportAuthenticationProtocol(supported: boolean): void;
    send<T>(request: BoundRequest<T>): Promise<T>;
  }
}

declare module 'kafkajs/src/protocol/requests/index.js' {
  export type Versions = Readonly<Record<number, { readonly minVersion: number; readonly maxVersion: number }>>;

  export interface BoundRequest<T> {
    readonly request: {
      readonly apiKey: number;
      readonly apiVersion: number;
      readonly apiName: string;
      encode(): Promise<{ readonly buffer: Buffer }>;
    };
    readonly response: { decode(payload: Buffer): Promise<T> };
  }

  export interface Definition<A, T> {
    readonly versions: readonly string[];
    protocol(version: { readonly version: number }): (args: A) => BoundRequest<T>;
  }

  export interface GroupAnswer {
    readonly errorCode: number;
  }

  export interface TopicsAnswer {
    readonly topicErrors: readonly {
      readonly topic: string;
      readonly errorCode: number;
      readonly errorMessage?: string | null;
    }[];
  }

  const protocol: {
    /** Binds a request to the newest version that both sides know. */
    lookup(versions: Versions): <A, T>(apiKey: number, definition: Definition<A, T>) => (args: A) => BoundRequest<T>;
    readonly requests: {
      readonly ApiVersions: Definition<
        void,
        GroupAnswer & {
          readonly apiVersions: readonly {
            readonly apiKey: number;
            readonly minVersion: number;
            readonly maxVersion: number;
          }[];
        }
      >;
      readonly GroupCoordinator: Definition<
        { groupId: string },
        GroupAnswer & {
          readonly coordinator: { readonly nodeId: number; readonly host: string; readonly port: number };
        }
      >;
      readonly JoinGroup: Definition<
        {
          groupId: string;
          sessionTimeout: number;
          rebalanceTimeout: number;
          memberId: string;
          protocolType: string;
          groupProtocols: readonly { readonly name: string; readonly metadata: Buffer }[];
        },
        GroupAnswer & {
          readonly generationId: number;
          readonly leaderId: string;
          readonly memberId: string;
          readonly members: readonly { readonly memberId: string; readonly memberMetadata: Buffer }[];
        }
      >;
      readonly SyncGroup: Definition<
        {
          groupId: string;
          generationId: number;
          memberId: string;
          groupAssignment: readonly { readonly memberId: string; readonly memberAssignment: Buffer }[];
        },
        GroupAnswer & { readonly memberAssignment: Buffer }
      >;
      readonly Heartbeat: Definition<{ groupId: string; groupGenerationId: number; memberId: string }, GroupAnswer>;
      readonly LeaveGroup: Definition<{ groupId: string; memberId: string }, GroupAnswer>;
      readonly OffsetCommit: Definition<
        {
          groupId: string;
          groupGenerationId: number;
          memberId: string;
          topics: readonly {
            readonly topic: string;
            readonly partitions: readonly { readonly partition: number; readonly offset: string }[];
          }[];
        },
        {
          readonly responses: readonly {
            readonly topic: string;
            readonly partitions: readonly { readonly partition: number; readonly errorCode: number }[];
          }[];
        }
      >;
      readonly CreateTopics: Definition<
        {
          topics: readonly {
            topic: string;
            numPartitions: number;
            replicationFactor: number;
            configEntries: readonly { readonly name: string; readonly value: string }[];
          }[];
          timeout: number;
          validateOnly: boolean;
        },
        TopicsAnswer
      >;
      readonly DeleteTopics: Definition<{ topics: readonly string[]; timeout: number }, TopicsAnswer>;
      /** Throws an error of kafkajs's where the broker refuses any of it. */
      readonly AlterPartitionReassignments: Definition<
        {
          topics: readonly {
            readonly topic: string;
            readonly partitionAssignment: readonly {
              readonly partition: number;
              readonly replicas: readonly number[];
            }[];
          }[];
          timeout: number;
        },
        { readonly errorCode: number }
      >;
      readonly DescribeConfigs: Definition<
        {
          resources: readonly {
            readonly type: number;
            readonly name: string;
            readonly configNames: readonly string[];
          }[];
          includeSynonyms: boolean;
        },
        {
          readonly resources: readonly (GroupAnswer & {
            readonly errorMessage: string | null;
            readonly resourceName: string;
            readonly configEntries: readonly { readonly configName: string; readonly configValue: string | null }[];
          })[];
        }
      >;
    };
  };
  export default protocol;
}
