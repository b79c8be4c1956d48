import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { masterKey, mintWebhookSecret, Sealer } from '../../src/catalog/sealing.js';
import { rotateSecrets, signingSecrets } from '../../src/catalog/webhook-secrets.js';
import { signatureOf, signingKeyOf } from '../../src/webhooks/signature.js';

const HOUR = 3600 * 1000;

test('what is sealed opens with the same master key only, and not when a byte of it was changed', () => {
  const sealer = new Sealer('a master key of enough characters');
  const text = 'whsec_ä€😀';
  const sealed = sealer.seal(text);
  assert.ok(!sealed.includes('whsec'));
  assert.notEqual(sealer.seal(text), sealed);
  assert.equal(new Sealer('a master key of enough characters').unseal(sealed), text);
  assert.throws(() => new Sealer('another master key of characters').unseal(sealed), /STATEFOLD_MASTER_KEY/);
  const bytes = Buffer.from(sealed.slice(3), 'base64url');
  for (let i = 0; i < bytes.length; i++) {
    const damaged = Buffer.from(bytes);
    damaged[i] = (damaged[i] ?? 0) ^ 1;
    assert.throws(() => sealer.unseal(`v1.${damaged.toString('base64url')}`), `byte ${i}`);
  }
  for (const odd of ['', 'v1.', 'v2.' + sealed.slice(3), text])
    assert.throws(() => sealer.unseal(odd), /not a sealed text/);
});

test('the master key is made once, readable by its owner alone, and the setting goes before it', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'statefold-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'data', 'master-key');
  const made = masterKey(undefined, file);
  assert.equal(Buffer.from(made, 'base64url').length, 32);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(readFileSync(file, 'utf8').trim(), made);
  assert.equal(masterKey(undefined, file), made);
  assert.equal(masterKey('from the settings', file), 'from the settings');
  assert.deepEqual(readdirSync(join(directory, 'data')), ['master-key']);
  writeFileSync(file, '\n');
  assert.throws(() => masterKey(undefined, file), /is empty/);
});

test('a rotation returns the secret that signs from now on; the ones before sign for 24 hours, three at most', () => {
  const sealer = new Sealer('a master key of enough characters');
  const start = Date.parse('2026-01-01T00:00:00Z');
  const first = rotateSecrets(sealer, [], start);
  assert.deepEqual(signingSecrets(sealer, first.secrets, start), [first.secret]);
  const second = rotateSecrets(sealer, first.secrets, start + HOUR);
  assert.deepEqual(signingSecrets(sealer, second.secrets, start + 24 * HOUR), [second.secret, first.secret]);
  assert.deepEqual(signingSecrets(sealer, second.secrets, start + 25 * HOUR), [second.secret]);
  let { secrets } = second;
  const rotated = [first.secret, second.secret];
  for (let i = 0; i < 4; i++) {
    const next = rotateSecrets(sealer, secrets, start + 2 * HOUR + i);
    secrets = next.secrets;
    rotated.push(next.secret);
  }
  assert.deepEqual(signingSecrets(sealer, secrets, start + 3 * HOUR), rotated.reverse().slice(0, 4));
  assert.equal(
    rotateSecrets(sealer, secrets, start + 72 * HOUR).secrets.length,
    2,
    'expired ones are dropped, the current one begins its overlap',
  );
  const other = new Sealer('another master key of characters');
  const mended = rotateSecrets(other, secrets, start + 3 * HOUR);
  assert.deepEqual(
    signingSecrets(other, mended.secrets, start + 3 * HOUR),
    [mended.secret],
    'after the loss of the master key a rotation starts anew',
  );
});

test('what is signed with a minted webhook secret verifies with the Standard Webhooks library, and with no other secret', () => {
  const secret = mintWebhookSecret();
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const seconds = Math.floor(Date.now() / 1000);
  const body = Buffer.from('{"name":"Ä 😀"}');
  const headers = {
    'webhook-id': 'm1',
    'webhook-timestamp': `${seconds}`,
    'webhook-signature': signatureOf(signingKeyOf(secret), 'm1', seconds, body),
  };
  assert.deepEqual(new Webhook(secret).verify(body, headers), { name: 'Ä 😀' });
  assert.throws(() => new Webhook(mintWebhookSecret()).verify(body, headers));
});
