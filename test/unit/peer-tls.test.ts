import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { PeerTls, type PeerCertificate } from '../../src/http/gateway/peer-tls.js';
import { Authority, needsOpenssl } from '../support/certificates.js';
import { until } from '../support/service.js';

test('the certificate for the other processes', { skip: needsOpenssl }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'statefold-tls-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const authority = new Authority(join(folder, 'authority'));
  const own = authority.sign(join(folder, 'own'));
  const renewed = authority.sign(join(folder, 'renewed'));

  await t.test('a renewed one is taken on, and not before all of it is there', async () => {
    const tls = new PeerTls(own, silentLogger, 10);
    t.after(() => tls.close());
    const first = tls.current;
    const taken: PeerCertificate[] = [];
    tls.onRenewed((certificate) => void taken.push(certificate));
    // For a while the certificate is not the key's.
    copyFileSync(join(renewed, 'tls.crt'), join(own, 'tls.crt'));
    assert.equal(tls.current, first);
    copyFileSync(join(renewed, 'tls.key'), join(own, 'tls.key'));
    await until(() => taken.length > 0);
    assert.equal(taken[0]?.cert, readFileSync(join(renewed, 'tls.crt'), 'utf8'));
    assert.equal(tls.current.key, readFileSync(join(renewed, 'tls.key'), 'utf8'));
  });

  await t.test('a folder without it is one sentence', () => {
    rmSync(join(renewed, 'ca.crt'));
    assert.throws(
      () => new PeerTls(renewed, silentLogger),
      /CLUSTER_TLS: .*ca\.crt.* must have tls\.crt, tls\.key, ca\.crt/,
    );
    copyFileSync(join(own, 'ca.crt'), join(renewed, 'ca.crt'));
    copyFileSync(join(folder, 'authority', 'ca.key'), join(renewed, 'tls.key'));
    assert.throws(() => new PeerTls(renewed, silentLogger), /CLUSTER_TLS: /);
  });
});
