import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { readOrMakeSecret } from '../core/secret-file.js';

const VERSION = 'v1';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Seals texts that must be read again, such as webhook secrets, with AES-256-GCM. A sealed text is
 * `v1.<base64url of nonce, tag and ciphertext>`.
 */
export class Sealer {
  readonly #key: Buffer;

  /** @param masterKey any text of enough entropy; the key proper is derived from it (HKDF-SHA256) */
  constructor(masterKey: string) {
    this.#key = Buffer.from(hkdfSync('sha256', masterKey, '', 'statefold sealing v1', 32));
  }

  seal(text: string): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce);
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return `${VERSION}.${Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url')}`;
  }

  /** @throws Error when it was sealed with another master key, or is damaged */
  unseal(sealed: string): string {
    const [version, text = ''] = sealed.split('.');
    const bytes = Buffer.from(text, 'base64url');
    if (version !== VERSION || bytes.length < NONCE_BYTES + TAG_BYTES) throw new Error('this is not a sealed text');
    const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
    try {
      return decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
    } catch (cause) {
      throw new Error(
        'a sealed secret cannot be opened: the master key is not the one that it was sealed with (STATEFOLD_MASTER_KEY, or the file master-key of the data directory)',
        { cause },
      );
    }
  }

  /** Was it sealed with this master key? */
  opens(sealed: string): boolean {
    try {
      this.unseal(sealed);
      return true;
    } catch {
      return false;
    }
  }
}

/** The master key: the setting, else the text of `file`, which is made when missing. */
export const masterKey = (setting: string | undefined, file: string): string =>
  setting ?? readOrMakeSecret(file, () => randomBytes(32).toString('base64url'));

/** A signing secret as Standard Webhooks has them: `whsec_` and base64 of 32 random bytes. */
export const mintWebhookSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;
