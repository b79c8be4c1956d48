import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LOG_RESERVE_BYTES, SpaceCheck } from '../../src/core/disk-space.js';

const GIB = 1024 ** 3;

describe('the check of a disk that is written all the time', () => {
  const world = (free: number, size = 100 * GIB) => {
    const disk = { free, size, looks: 0 };
    const check = new SpaceCheck('/data', LOG_RESERVE_BYTES, () => {
      disk.looks++;
      return disk;
    });
    return { disk, check };
  };

  it('looks at a disk with plenty of room some times a second', () => {
    const { disk, check } = world(50 * GIB);
    for (let now = 0; now < 1000; now++) check.require(1000, now);
    assert.equal(disk.looks, 10);
  });

  it('looks before each write at one that is nearly full, and refuses what would not fit', () => {
    const { disk, check } = world(GIB);
    for (let i = 0; i < 5; i++) check.require(1000, 0);
    assert.equal(disk.looks, 5);
    disk.free = LOG_RESERVE_BYTES + 2000;
    check.require(1000, 0);
    assert.throws(() => check.require(1001, 0), /the disk is full: 67110864 bytes are left/);
    assert.throws(() => check.require(1001, 0), /the disk is full/);
    disk.free = 50 * GIB;
    check.require(1001, 0);
  });

  it('looks again when so much was written that the disk may be nearly full', () => {
    const { disk, check } = world(1.2 * GIB);
    for (let i = 0; i < 10; i++) check.require(10 * 1024 ** 2, 0);
    assert.equal(disk.looks, 2, 'each is reckoned twice: pages are copied');
  });

  it('refuses nothing where the file system does not say how large it is', () => {
    const { disk, check } = world(0, 0);
    for (let i = 0; i < 3; i++) check.require(GIB, 0);
    assert.equal(disk.looks, 3);
  });
});
