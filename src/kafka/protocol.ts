import { AssignerProtocol } from 'kafkajs';
import compression from 'kafkajs/src/protocol/message/compression/index.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';

/** What of kafkajs's protocol layer others build their requests and records with: no file but those of this folder imports kafkajs. */
export type { SASLOptions } from 'kafkajs';

/** Encoders and decoders of the rare requests, by name. */
export const { requests } = protocol;

/** The codec that the attributes of a record batch name; undefined or null where they name none. @throws where it is not installed */
export const codecOf = (attributes: number): { decompress(bytes: Buffer): Promise<Buffer> } | null | undefined =>
  compression.lookupCodecByAttributes(attributes);

/** What members of a consumer group tell each other, in Kafka's consumer protocol. */
export const { MemberMetadata, MemberAssignment } = AssignerProtocol;
