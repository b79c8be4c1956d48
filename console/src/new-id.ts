/**
 * An id as the service makes them (UUID 7), for what is made by a request whose answer may be lost: asked again, it is found, and not made
 * twice. Pages that come over plain HTTP have no `crypto.randomUUID`.
 */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const text = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  const time = Date.now().toString(16).padStart(12, '0');
  const variant = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return [
    time.slice(0, 8),
    time.slice(8),
    `7${text.slice(13, 16)}`,
    `${variant.toString(16)}${text.slice(18, 20)}`,
    text.slice(20),
  ].join('-');
}
