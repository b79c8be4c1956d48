import { MemberAssignment, MemberMetadata } from '../../kafka/protocol.js';
import { z } from 'zod';
import { NOBODY, type SlotMap, type SlotMember } from './slot-assigner.js';

/**
 * What the members of the group tell each other: JSON in the user data of Kafka's consumer protocol, so that Kafka's own
 * tools show the members with their slots as partitions.
 */

const place = z.int().min(NOBODY).max(65_535);
const MAP = z.object({
  version: z.int().min(1),
  processes: z.array(z.tuple([z.string(), z.string()])),
  owners: z.array(place),
  standbys: z.array(place),
  notifiers: z.array(place),
});
const MEMBER = z.object({
  processId: z.string().min(1),
  url: z.string(),
  tasks: z.boolean(),
  notifier: z.boolean(),
  warm: z.array(z.int().min(0)),
  map: MAP.optional(),
});

/** A change of what is said here that older processes would misread is a new name: a group has one that all members know. */
export const protocolName = (slots: number): string => `statefold-slots-v2-of-${slots}`;

export function encodeMember(topic: string, member: SlotMember): Buffer {
  const said: z.input<typeof MEMBER> = { ...member, warm: [...member.warm], map: member.map && wireMap(member.map) };
  return MemberMetadata.encode({
    version: 0,
    topics: [topic],
    userData: Buffer.from(JSON.stringify(said)),
  });
}

/** Undefined for what no process of ours wrote. */
export function decodeMember(metadata: Buffer): SlotMember | undefined {
  const said = parsed(MEMBER, () => MemberMetadata.decode(metadata)?.userData);
  return said && { ...said, map: said.map && slotMap(said.map) };
}

/** What one member is given: the whole map, and its own slots as partitions for whoever looks at the group. */
export function encodeAssignment(topic: string, map: SlotMap, processId: string): Buffer {
  const own = map.owners.flatMap((owner, slot) => (map.processes[owner]?.processId === processId ? [slot] : []));
  return MemberAssignment.encode({
    version: 0,
    assignment: { [topic]: own },
    userData: Buffer.from(JSON.stringify(wireMap(map))),
  });
}

export function decodeAssignment(assignment: Buffer): SlotMap | undefined {
  const map = parsed(MAP, () => MemberAssignment.decode(assignment)?.userData);
  return map && slotMap(map);
}

function parsed<T>(schema: z.ZodType<T>, bytes: () => Buffer | undefined): T | undefined {
  try {
    return schema.parse(JSON.parse(bytes()?.toString() ?? ''));
  } catch {
    return undefined;
  }
}

const wireMap = (map: SlotMap): z.input<typeof MAP> => ({
  version: map.version,
  processes: map.processes.map(({ processId, url }) => [processId, url]),
  owners: [...map.owners],
  standbys: [...map.standbys],
  notifiers: [...map.notifiers],
});
const slotMap = (map: z.output<typeof MAP>): SlotMap => ({
  ...map,
  processes: map.processes.map(([processId, url]) => ({ processId, url })),
});
