import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertWebhookUrlAllowed, specialRange } from '../../src/webhooks/address-guard.js';

const resolve = (...addresses: string[]) => ({ allowPrivate: false, resolve: () => Promise.resolve(addresses) });
const REFUSED = { code: 'WEBHOOK_URL_REFUSED' };

test('only public addresses are public, in whatever form they are written', async () => {
  for (const host of [
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f000001',
    '017700000001',
    '0',
    '0.0.0.0',
    '10.0.0.1',
    '172.16.5.5',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '0xa9fea9fe',
    '168.63.129.16',
    '100.64.0.1',
    '100.100.100.200',
    '192.0.0.192',
    '192.0.2.1',
    '198.18.0.1',
    '198.51.100.7',
    '203.0.113.9',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '１２７.０.０.１',
    '[::]',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::ffff:a9fe:a9fe]',
    '[::127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[64:ff9b::a9fe:a9fe]',
    '[64:ff9b:1::1]',
    '[2002:7f00:1::]',
    '[2002:a9fe:a9fe::1]',
    '[2001:0:4136:e378:8000:63bf:3fff:fdd2]',
    '[fe80::1]',
    '[fc00::1]',
    '[fd00:ec2::254]',
    '[fec0::1]',
    '[ff02::1]',
    '[2001:db8::1]',
    '[100::1]',
    '[5f00::1]',
    '[4000::1]',
  ]) {
    await assert.rejects(assertWebhookUrlAllowed(`https://${host}/hook`, resolve('93.184.215.14')), REFUSED, host);
  }
  for (const host of ['93.184.215.14', '1.1.1.1', '[2606:4700:4700::1111]', '[::ffff:1.1.1.1]', '[64:ff9b::101:101]'])
    await assertWebhookUrlAllowed(`https://${host}/hook`, resolve());
  assert.equal(specialRange('not-an-address'), 'not an address');
});

test('a host is refused when any of its addresses is special, or when it has none, and the refusal does not tell the address', async () => {
  await assertWebhookUrlAllowed('https://hooks.example.com:8443/a?b=c', resolve('1.1.1.1', '2606:4700::1'));
  await assert.rejects(
    assertWebhookUrlAllowed('https://rebind.example.com/', resolve('1.1.1.1', '10.1.2.3')),
    (error: Error) => !error.message.includes('10.1.2.3') && 'code' in error && error.code === 'WEBHOOK_URL_REFUSED',
  );
  await assert.rejects(assertWebhookUrlAllowed('https://nothing.example.com/', resolve()), {
    ...REFUSED,
    message: "the webhook's host nothing.example.com has no address",
  });
  const broken = { allowPrivate: false, resolve: () => Promise.reject(new Error('ENOTFOUND')) };
  await assert.rejects(assertWebhookUrlAllowed('https://nowhere.example.com/', broken), {
    ...REFUSED,
    message: "the webhook's host nowhere.example.com can't be resolved to an address",
  });
});

test('scheme, credentials and length are checked even where private addresses are allowed', async () => {
  const anywhere = { ...resolve('127.0.0.1'), allowPrivate: true };
  await assertWebhookUrlAllowed('http://localhost:3000/hook', anywhere);
  await assertWebhookUrlAllowed('http://[::1]:3000/hook', anywhere);
  for (const url of [
    'ftp://example.com/',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'https://user@example.com/',
    'https://:pw@example.com/',
    'example.com/hook',
    '',
    'https://',
    `https://example.com/${'a'.repeat(2048)}`,
  ]) {
    await assert.rejects(assertWebhookUrlAllowed(url, anywhere), REFUSED, url.slice(0, 40));
  }
});
