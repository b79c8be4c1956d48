import type { Command } from 'commander';
import { SCOPES } from '../core/scopes.js';
import { requireConfirmed, text, type CommandContext } from './context.js';
import { table } from './io.js';
import type { Fields } from './server.js';

interface KeyOptions {
  readonly name?: string;
  readonly scopes?: string;
  readonly expires?: string;
}

const scopesText = (scopes: unknown): string =>
  Array.isArray(scopes) && scopes.length < SCOPES.length ? scopes.join(',') : 'all';

/** API keys of tenants, for the owner of the service. */
export function addKeyCommands(program: Command, { io, server, show, exported }: CommandContext): void {
  const keys = program.command('keys').description('create, list and revoke the API keys of a tenant');
  const keysOf = (tenantId: string): string => `/admin/tenants/${encodeURIComponent(tenantId)}/keys`;
  keys
    .command('create')
    .description('make another API key, which is shown only now')
    .argument('<tenantId>')
    .option('--name <name>', 'what it is for')
    .option('--scopes <scopes>', `what it may be used for, separated by commas: ${SCOPES.join(', ')}; all unless given`)
    .option('--expires <time>', 'it is in force until then, like 2030-01-31T00:00:00Z; for good unless given')
    .action(async (tenantId: string, options: KeyOptions) => {
      const answer = (await server().admin('POST', keysOf(tenantId), {
        name: options.name,
        scopes: options.scopes?.split(',').map((scope) => scope.trim()),
        expiresAt: options.expires,
      })) as Fields;
      show(
        answer,
        () =>
          `keyId   ${text(answer['keyId'])}\napiKey  ${text(answer['apiKey'])}\n\n${exported(text(answer['apiKey']))}`,
      );
    });
  keys
    .command('list')
    .description('list the keys of a tenant, revoked ones too')
    .argument('<tenantId>')
    .action(async (tenantId: string) => {
      const list = await server().list(keysOf(tenantId), 'keys');
      const row = (key: Fields): string[] => [
        text(key['keyId']),
        text(key['prefix']),
        text(key['name']) || '-',
        scopesText(key['scopes']),
        text(key['createdAt']),
        text(key['expiresAt']) || '-',
        text(key['revokedAt']) || '-',
      ];
      const head = ['KEY', 'BEGINS WITH', 'NAME', 'SCOPES', 'CREATED', 'EXPIRES', 'REVOKED'];
      show(list, () => table(head, list.map(row), 'The tenant has no keys.'));
    });
  keys
    .command('revoke')
    .description('revoke a key, at once and for good')
    .argument('<tenantId>')
    .argument('<keyId>')
    .option('--yes', 'do not ask')
    .action(async (tenantId: string, keyId: string, { yes }: { readonly yes?: true }) => {
      await requireConfirmed(
        io,
        yes,
        `This ends the key ${keyId} of the tenant ${tenantId} at once and for good: who uses it is answered 401.`,
      );
      await server().admin('DELETE', `${keysOf(tenantId)}/${encodeURIComponent(keyId)}`);
      show({ tenantId, keyId, revoked: true }, () => `Key ${keyId} is revoked.\n`);
    });
}
