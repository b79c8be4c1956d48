import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Signs certificates for 127.0.0.1. */
export class Authority {
  readonly #directory: string;

  /** @param directory of its own, where nobody else looks */
  constructor(directory: string) {
    this.#directory = directory;
    mkdirSync(directory, { recursive: true });
    openssl(directory, [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
      ...['-subj', '/CN=authority of the tests', '-keyout', 'ca.key', '-out', 'ca.crt'],
    ]);
  }

  /** Writes `tls.crt`, `tls.key` and `ca.crt` into the folder. */
  sign(to: string): string {
    mkdirSync(to, { recursive: true });
    writeFileSync(join(to, 'extensions'), 'subjectAltName=IP:127.0.0.1\n');
    openssl(to, [
      ...['req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-subj', '/CN=statefold', '-keyout', 'tls.key', '-out', 'tls.csr'],
    ]);
    const [ca, key] = ['ca.crt', 'ca.key'].map((file) => join(this.#directory, file)) as [string, string];
    openssl(to, [
      ...['x509', '-req', '-in', 'tls.csr', '-CA', ca, '-CAkey', key, '-CAcreateserial', '-days', '1'],
      ...['-extfile', 'extensions', '-out', 'tls.crt'],
    ]);
    writeFileSync(join(to, 'ca.crt'), readFileSync(ca));
    return to;
  }
}

export const needsOpenssl = spawnSync('openssl', ['version']).error === undefined ? false : 'openssl is not installed';

function openssl(cwd: string, args: readonly string[]): void {
  const { status, stderr } = spawnSync('openssl', args, { cwd });
  if (status !== 0) throw new Error(`openssl ${args[0]}: ${String(stderr)}`);
}
