import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { StartupError } from '../../core/startup-error.js';
import type { Logger } from '../../core/logger.js';

/** PEM texts: what a process shows, and the authority that must have signed what others show. */
export interface PeerCertificate {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}

const FILES = { cert: 'tls.crt', key: 'tls.key', ca: 'ca.crt' } as const;
/** Renewed certificates are taken on so soon. */
const LOOK_MS = 60_000;

/** The certificate with which the processes of a cluster meet: the files `tls.crt`, `tls.key` and `ca.crt` of a folder, as a Kubernetes secret has them. */
export class PeerTls {
  readonly #directory: string;
  readonly #timer: NodeJS.Timeout;
  readonly #listeners = new Set<(certificate: PeerCertificate) => void>();
  #current: PeerCertificate;

  /** @throws StartupError naming the setting when a file is missing or isn't what it should be */
  constructor(directory: string, logger: Logger, lookMs = LOOK_MS) {
    this.#directory = directory;
    try {
      this.#current = this.#read();
    } catch (error) {
      throw new StartupError(
        `CLUSTER_TLS: ${(error as Error).message}. The folder must have ${Object.values(FILES).join(', ')} in PEM: the certificate of this process, its key, and the authority that signs those of all processes.`,
      );
    }
    this.#timer = setInterval(() => {
      try {
        const read = this.#read();
        if (read.cert === this.#current.cert && read.key === this.#current.key && read.ca === this.#current.ca) return;
        this.#current = read;
        for (const listener of [...this.#listeners]) listener(read);
        logger.info({}, 'the certificate for the other processes was renewed');
      } catch (error) {
        // In the middle of a renewal one file may be new and the other not.
        logger.warn(
          { err: error },
          'the certificate for the other processes can not be read anew; the one before stays',
        );
      }
    }, lookMs).unref();
  }

  get current(): PeerCertificate {
    return this.#current;
  }

  /** Told of renewals. */
  onRenewed(listener: (certificate: PeerCertificate) => void): void {
    this.#listeners.add(listener);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #read(): PeerCertificate {
    const text = (file: string): string => readFileSync(join(this.#directory, file), 'utf8');
    const read = { cert: text(FILES.cert), key: text(FILES.key), ca: text(FILES.ca) };
    // Throws where the key is not the certificate's.
    createSecureContext(read);
    return read;
  }
}
