/** An idempotency key, a UUID. Pages that come over plain HTTP have no `crypto.randomUUID`. */
export function newKey(): string {
  const platform: { randomUUID?(): string } = crypto;
  if (platform.randomUUID !== undefined) return platform.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes.set([((bytes[6] ?? 0) & 0x0f) | 0x40], 6);
  bytes.set([((bytes[8] ?? 0) & 0x3f) | 0x80], 8);
  const text = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return text.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
