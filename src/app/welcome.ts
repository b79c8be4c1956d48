import { dirname, join, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Service } from './service.js';

export interface WelcomeOptions {
  readonly service: Pick<Service, 'url' | 'jailed' | 'newApiKey' | 'hasDefaultTenant' | 'fixedKey'>;
  readonly settings: { readonly host: string; readonly dataDirectory: string; readonly adminKey: string | undefined };
  /** Where the program is installed, and where it was started. */
  readonly root: string;
  readonly directory: string;
  /** Sentences on the environment. */
  readonly warnings: readonly string[];
}

const DEFAULT_URL = 'http://127.0.0.1:8080';
/** Any number of times, and to no aggregate that the README uses. */
const EXAMPLE = String.raw`
  curl -s "$STATEFOLD_URL/events" -H "X-API-Key: $STATEFOLD_API_KEY" -H 'Content-Type: application/json' \
    -d '{"aggregateId":"hello-1","eventType":"Said","data":{"text":"hello"}}'
`;

/** What whoever started the service reads first. Every line of it that looks like a command works when it is pasted. */
export function welcome({ service, settings, root, directory, warnings }: WelcomeOptions): string {
  const { url, jailed, newApiKey, hasDefaultTenant, fixedKey } = service;
  const local = localUrl(url, settings.host);
  const data = resolve(directory, settings.dataDirectory);
  const inside = directory === root || directory.startsWith(root + sep);
  // The commands of the owner read the admin key from there.
  const elsewhere = inside && data === join(root, 'data') ? [] : [`STATEFOLD_DATA_DIR=${quoted(data)}`];
  const exported = [`STATEFOLD_URL=${local}`, ...elsewhere].map((variable) => `  export ${variable}`).join('\n');
  const program = inside ? 'npx statefold' : `node ${quoted(join(dirname(fileURLToPath(import.meta.url)), 'main.js'))}`;
  const statefold = [...(local === DEFAULT_URL ? [] : [`STATEFOLD_URL=${quoted(local)}`]), ...elsewhere, program].join(
    ' ',
  );
  const admin = settings.adminKey === undefined ? '' : ', with the STATEFOLD_ADMIN_KEY of this service';
  const another = [`This makes another one${admin}:`, '', `  ${statefold} keys create default`];
  const lines = [`Statefold listens on ${url}`, jailed, ...warnings];
  if (fixedKey === 'revoked')
    lines.push('', 'The key in STATEFOLD_API_KEY was revoked, and stays so: choose another text.');
  if (fixedKey === 'of another tenant')
    lines.push('', 'STATEFOLD_API_KEY is a key of another tenant than default, and is left as it is.');
  if (newApiKey !== undefined)
    lines.push(
      '',
      'The tenant default has an API key, which is shown only now. In another terminal:',
      '',
      exported,
      `  export STATEFOLD_API_KEY=${newApiKey}`,
      '',
      'and then, for example:',
    );
  else if (fixedKey === 'in force' || fixedKey === 'of another tenant')
    lines.push(
      '',
      'In another terminal that has the same STATEFOLD_API_KEY as this one:',
      '',
      exported,
      '',
      'and then, for example:',
    );
  else if (hasDefaultTenant)
    lines.push(
      '',
      'In another terminal:',
      '',
      exported,
      '',
      `Set STATEFOLD_API_KEY there to the key of tenant default that was shown when it was made. Is it lost? ${another.join('\n')}`,
      '',
      'and then, for example:',
    );
  else
    return [
      ...lines,
      '',
      `There is no tenant default. This makes a tenant and its API key${admin}:`,
      '',
      `  ${statefold} tenants create acme`,
      '',
    ].join('\n');
  return lines.join('\n') + '\n' + EXAMPLE;
}

/** What listens on all addresses is reached by loopback from here. */
function localUrl(url: string, host: string): string {
  const { port } = new URL(url);
  return host === '0.0.0.0' || host === '::' ? `http://127.0.0.1:${port === '' ? 80 : port}` : url;
}

/** As a shell reads it as one word. */
const quoted = (text: string): string =>
  /^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
