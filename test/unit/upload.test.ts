import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request as requestOf, type ClientRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { readBody, RequestAbortedError } from '../../src/http/body.js';
import { readUpload } from '../../src/http/upload.js';

const LIMITS = { maxUploadBytes: 1_000_000, maxInflatedBytes: 1_000_000, maxArchiveEntries: 10 };

// Nothing tells a reader that comes later of it.
test('an upload whose client left before it was read is given up', { timeout: 10_000 }, async (t) => {
  const headers = { 'content-type': 'multipart/form-data; boundary=b', 'content-length': '1000' };
  let leave = (): unknown => undefined;
  const request = await arriving(t, headers, (client) => {
    client.flushHeaders();
    leave = () => client.destroy();
  });
  // It tells by an error that it was cut.
  const cut = once(request, 'error');
  leave();
  await cut;
  await assert.rejects(readUpload(request, LIMITS), RequestAbortedError);
});

const MIB = 1024 * 1024;

/** A request with such a body as a server has it. */
async function arriving(
  t: TestContext,
  headers: Readonly<Record<string, string | number>>,
  send: (client: ClientRequest) => void,
): Promise<IncomingMessage> {
  const server = createServer().listen(0, '127.0.0.1');
  t.after(() => [server.close(), server.closeAllConnections()]);
  await once(server, 'listening');
  const client = requestOf({ port: (server.address() as AddressInfo).port, method: 'POST', headers });
  client.on('error', () => undefined);
  const request = once(server, 'request');
  send(client);
  return ((await request) as [IncomingMessage])[0];
}

interface FormOptions {
  readonly head?: string;
  readonly content?: Buffer | string;
  readonly boundary?: string;
}

const FILE = 'Content-Disposition: form-data; name="file"; filename="A.cs"';

function uploaded(t: TestContext, { head = FILE, content = 'x', boundary = 'boundary' }: FormOptions) {
  const parts = [`--${boundary}\r\n${head}\r\n\r\n`, content, `\r\n--${boundary}--\r\n`];
  const body = Buffer.concat(parts.map((part) => Buffer.from(part as string)));
  const type = `multipart/form-data; boundary=${boundary}`;
  return arriving(t, { 'content-type': type, 'content-length': body.length }, (client) => client.end(body)).then(
    (request) => readUpload(request, { ...LIMITS, maxUploadBytes: 8 * MIB, maxInflatedBytes: 8 * MIB }),
  );
}

test('a file is as it was sent, whatever in it looks like a boundary, and is read in the time that its bytes take', async (t) => {
  const boundary = 'b'.repeat(70);
  const lines = ['\r', '\r\n--', '\r\n-', `\r\n--${'b'.repeat(69)}c`, 'b'];
  const began = process.cpuUsage();
  for (const line of lines) {
    const content = Buffer.alloc(4 * MIB, line);
    const { sources } = await uploaded(t, { content, boundary });
    const [{ path, text } = assert.fail(), ...others] = sources;
    assert.deepEqual([path, others], ['A.cs', []]);
    assert.ok([text].flat().join('') === content.toString(), 'as it was sent');
  }
  const { user, system } = process.cpuUsage(began);
  assert.ok(user + system < 4_000_000, `${(user + system) / 1000} ms of a processor`);
});

test('a part whose headers are long, or name a file again and again, is malformed, and costs next to nothing', async (t) => {
  const began = process.cpuUsage();
  for (const times of [9, 100_000])
    await assert.rejects(
      uploaded(t, { head: `Content-Disposition: form-data; name="f"; ${'filename="'.repeat(times)}x` }),
      /^StatefoldError: The body is not valid multipart\/form-data: a (part|header)/,
    );
  const { user, system } = process.cpuUsage(began);
  assert.ok(user + system < 2_000_000, `${(user + system) / 1000} ms of a processor`);
});

test('a part may say how it is encoded, a field too; in a way that is not known it is refused', async (t) => {
  const encoded = (encoding: string, head = FILE) => `${head}\r\nContent-Transfer-Encoding: ${encoding}`;
  for (const encoding of ['7bit', '8bit', 'binary'])
    assert.equal((await uploaded(t, { head: encoded(encoding), content: 'é' })).sources[0]?.text, 'é', encoding);
  assert.equal((await uploaded(t, { head: encoded('base64'), content: 'w6k=' })).sources[0]?.text, 'é');
  const field = encoded('7bit', 'Content-Disposition: form-data; name="config"');
  await assert.rejects(uploaded(t, { head: field, content: '{}' }), /The upload has no file/);
  await assert.rejects(uploaded(t, { head: encoded('quoted-printable') }), /is not valid multipart\/form-data/);
});

test('a form that is none is refused with what is wrong', async (t) => {
  const send = (body: string) =>
    arriving(t, { 'content-type': 'multipart/form-data; boundary=b' }, (client) => client.end(body)).then((request) =>
      readUpload(request, LIMITS),
    );
  const head = `--b\r\n${FILE}\r\n\r\n`;
  await assert.rejects(send(`x\r\n${head}x\r\n--b--`), /does not begin with the boundary/);
  await assert.rejects(send(`${head}x\r\n--bb\r\n--b--`), /a line begins with the boundary, and goes on/);
  await assert.rejects(send(`${head}x`), /the last boundary is missing/);
  await assert.rejects(send(`--b\r\nno header\r\n\r\nx\r\n--b--`), /a header of a part is none/);
  await assert.rejects(send(`${`${head}x\r\n`.repeat(40)}--b--`), /more files than the limit of 10/);
  const { sources } = await send(`${head}\r\n--b--`);
  assert.deepEqual(sources, [{ path: 'A.cs', text: '' }]);
});

test('a body in chunks of a byte is held in about its own size, and refused past thousands of them', async (t) => {
  const crumbs = (count: number, bytes: number) => (client: ClientRequest) => {
    for (let i = 0; i < count; i++) client.write(Buffer.alloc(bytes, i));
    client.end();
  };
  const few = await readBody(await arriving(t, {}, crumbs(4000, 1)), MIB);
  assert.deepEqual(few, Buffer.from(Array.from({ length: 4000 }, (_, i) => i % 256)));
  const many = await readBody(await arriving(t, {}, crumbs(6000, 20)), MIB);
  assert.deepEqual([many.length, many[20], many.at(-1)], [120_000, 1, 5999 % 256]);
  await assert.rejects(readBody(await arriving(t, {}, crumbs(5000, 1)), MIB), /comes in chunks of some bytes each/);
});
