import type { Command } from 'commander';
import { requireConfirmed, text, type CommandContext } from './context.js';
import { table } from './io.js';
import type { Fields } from './server.js';

const ACCOUNTS = '/sql/accounts';

/** Accounts of a tenant on the ClickHouse server. */
export function addSqlAccountCommands(program: Command, { io, server, show }: CommandContext): void {
  const accounts = program
    .command('sql-accounts')
    .description('create, list and delete the accounts with which tools connect to the ClickHouse server');
  accounts
    .command('create')
    .description('make an account that reads the rows of your tenant; its password is shown only now')
    .option('--name <name>', 'what it is for')
    .action(async ({ name }: { readonly name?: string }) => {
      const answer = (await server().tenant('POST', ACCOUNTS, { name })) as Fields;
      const shown = ['accountId', 'url', 'database', 'user', 'password'];
      show(answer, () => shown.map((member) => `${member.padEnd(9)}  ${text(answer[member])}\n`).join(''));
    });
  accounts
    .command('list')
    .description('list the accounts of your tenant')
    .action(async () => {
      const list = await server().tenantList(ACCOUNTS, 'accounts');
      const row = (account: Fields): string[] => [
        text(account['accountId']),
        text(account['name']) || '-',
        text(account['user']),
        text(account['createdAt']),
      ];
      show(list, () => table(['ACCOUNT', 'NAME', 'USER', 'CREATED'], list.map(row), 'The tenant has no accounts.'));
    });
  accounts
    .command('delete')
    .description('delete an account, at once and for good')
    .argument('<accountId>')
    .option('--yes', 'do not ask')
    .action(async (accountId: string, { yes }: { readonly yes?: true }) => {
      await requireConfirmed(
        io,
        yes,
        `This deletes the account ${accountId} at once and for good: the tools that connect with it are refused.`,
      );
      await server().tenant('DELETE', `${ACCOUNTS}/${encodeURIComponent(accountId)}`);
      show({ accountId, deleted: true }, () => `Account ${accountId} is deleted.\n`);
    });
}
