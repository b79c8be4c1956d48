import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { crc32 } from 'node:zlib';
import { hashApiKey, isWellFormedKey, mintApiKey } from '../../src/catalog/keys.js';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const fromBase62 = (text: string): bigint =>
  [...text].reduce((sum, digit) => sum * 62n + BigInt(DIGITS.indexOf(digit)), 0n);

test('minted keys have the documented shape, 256 bits and a checksum over all before its underscore', () => {
  const minted = Array.from({ length: 200 }, mintApiKey);
  for (const { key, hash, prefix } of minted) {
    assert.match(key, /^sf_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/);
    const [, shown, secret = '', sum = ''] = key.split('_');
    assert.equal(prefix, `sf_${shown}`);
    assert.ok(fromBase62(secret) < 2n ** 256n);
    assert.equal(fromBase62(sum), BigInt(crc32(key.slice(0, -7))));
    assert.equal(hash, createHash('sha256').update(key).digest('hex'));
    assert.equal(hashApiKey(key), hash);
    assert.ok(isWellFormedKey(key));
  }
  assert.equal(new Set(minted.map(({ key }) => key)).size, minted.length);
});

test('a key with any one character changed, or of another shape, is not well-formed', () => {
  const { key } = mintApiKey();
  for (let i = 0; i < key.length; i++) {
    const other = key[i] === 'x' ? 'y' : 'x';
    assert.ok(!isWellFormedKey(key.slice(0, i) + other + key.slice(i + 1)), `position ${i}`);
  }
  for (const text of ['', 'sf_', ` ${key}`, `${key}\n`, key.slice(0, -1), `${key}0`, 'a text that an operator chose'])
    assert.ok(!isWellFormedKey(text), text);
});
