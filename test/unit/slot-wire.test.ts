import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AssignerProtocol } from 'kafkajs';
import type { SlotMap, SlotMember } from '../../src/placement/kafka/slot-assigner.js';
import {
  decodeAssignment,
  decodeMember,
  encodeAssignment,
  encodeMember,
  protocolName,
} from '../../src/placement/kafka/slot-wire.js';

const MAP: SlotMap = {
  version: 7,
  processes: [
    { processId: 'p', url: 'http://p' },
    { processId: 'q', url: 'http://q' },
  ],
  owners: [0, 1, 0],
  standbys: [1, 0, -1],
  notifiers: [0, 1, 1],
};
const MEMBER: SlotMember = { processId: 'p', url: 'http://p', tasks: true, notifier: false, warm: [2], map: MAP };
const MAP_JSON =
  '{"version":7,"processes":[["p","http://p"],["q","http://q"]],"owners":[0,1,0],"standbys":[1,0,-1],"notifiers":[0,1,1]}';

describe('what the members of the group of slots tell each other', () => {
  it('has these bytes, under this name: processes of two versions share a group', () => {
    assert.equal(protocolName(64), 'statefold-slots-v2-of-64');
    const string = (text: string): Buffer => Buffer.concat([Buffer.from([0, text.length]), Buffer.from(text)]);
    const blob = (text: string): Buffer =>
      Buffer.concat([Buffer.from([0, 0, text.length >> 8, text.length & 0xff]), Buffer.from(text)]);
    const one = Buffer.from([0, 0, 0, 1]);
    const version = Buffer.from([0, 0]);
    const member = `{"processId":"p","url":"http://p","tasks":true,"notifier":false,"warm":[2],"map":${MAP_JSON}}`;
    assert.deepEqual(encodeMember('t', MEMBER), Buffer.concat([version, one, string('t'), blob(member)]));
    const partitions = Buffer.from([0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2]);
    assert.deepEqual(
      encodeAssignment('t', MAP, 'p'),
      Buffer.concat([version, one, string('t'), partitions, blob(MAP_JSON)]),
    );
  });

  it('comes back as it was', () => {
    assert.deepEqual(decodeMember(encodeMember('t', MEMBER)), MEMBER);
    assert.deepEqual(decodeMember(encodeMember('t', { ...MEMBER, map: undefined, warm: [] })), {
      ...MEMBER,
      map: undefined,
      warm: [],
    });
    assert.deepEqual(decodeAssignment(encodeAssignment('t', MAP, 'nobody')), MAP);
  });

  it('of others is nothing', () => {
    for (const userData of [
      '',
      'null',
      '{"processId":"p"}',
      MAP_JSON.replace('[1,0,-1]', '[1,0,-2]').replace('"version":7,', ''),
    ]) {
      assert.equal(
        decodeMember(
          AssignerProtocol.MemberMetadata.encode({ version: 0, topics: ['t'], userData: Buffer.from(userData) }),
        ),
        undefined,
      );
      assert.equal(
        decodeAssignment(
          AssignerProtocol.MemberAssignment.encode({
            version: 0,
            assignment: { t: [0] },
            userData: Buffer.from(userData),
          }),
        ),
        undefined,
      );
    }
    assert.equal(decodeMember(Buffer.alloc(0)), undefined);
    assert.equal(decodeAssignment(Buffer.alloc(0)), undefined);
    assert.equal(decodeAssignment(Buffer.from([0])), undefined);
  });
});
