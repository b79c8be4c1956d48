import { buffer } from 'node:stream/consumers';
import { ZipArchive } from 'archiver';

/** An archive of files, by path. */
export async function zipOf(files: Readonly<Record<string, string>>): Promise<Buffer> {
  const archive = new ZipArchive({ zlib: { level: 9 } });
  for (const [name, text] of Object.entries(files)) archive.append(text, { name });
  const [bytes] = await Promise.all([buffer(archive), archive.finalize()]);
  return bytes;
}
