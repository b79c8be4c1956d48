import type { Command } from 'commander';
import { addAssistantCommand } from './assistant.js';
import { addAuditCommand } from './audit.js';
import { addBackupCommands } from './backup.js';
import { addProjectCommands } from './project/commands.js';
import { Server } from './server.js';
import { addKeyCommands } from './keys.js';
import { addSqlAccountCommands } from './sql-accounts.js';
import { addSqlCommands } from './sql-commands.js';
import { addTenantCommands } from './tenants.js';
import type { CommandContext } from './context.js';
import { addTopicCommands } from './topics.js';
import { addEraseCommand } from './erase.js';
import { addEventTypeCommands } from './event-types.js';
import { addTransferCommands } from './transfer.js';
import { addTypesCommand } from './types/command.js';
import { addVerifyCommand } from './verify.js';
import { addWebhookCommands } from './webhooks.js';
import { table, type CliIo } from './io.js';

interface Global {
  readonly url?: string;
  readonly json?: true;
}

/** All but `serve`: to a running service, and on a tenant's own project. */
export function addCommands(program: Command, io: CliIo): void {
  const server = (): Server => new Server(io, program.opts<Global>().url);
  const show = (answer: unknown, lines: () => string): void => {
    io.stdout.write(program.opts<Global>().json === true ? `${JSON.stringify(answer)}\n` : lines());
  };

  program
    .command('health')
    .description('tell whether the service and its parts work')
    .action(async () => {
      const answer = (await server().open('/health/ready')) as { readonly checks?: Readonly<Record<string, string>> };
      show(answer, () => table(['PART', 'STATE'], Object.entries(answer.checks ?? {}), 'ready'));
    });

  const context: CommandContext = {
    io,
    server,
    show,
    json: () => program.opts<Global>().json === true,
    exported: (apiKey) => {
      const { url } = program.opts<Global>();
      return `${url === undefined ? '' : `export STATEFOLD_URL=${url}\n`}export STATEFOLD_API_KEY=${apiKey}\n`;
    },
  };
  addTenantCommands(program, context);
  addKeyCommands(program, context);
  addSqlCommands(program, context);
  addSqlAccountCommands(program, context);
  addProjectCommands(program, context);
  addVerifyCommand(program, context);
  addWebhookCommands(program, context);
  addEventTypeCommands(program, context);
  addEraseCommand(program, context);
  addAuditCommand(program, context);
  addTypesCommand(program, context);
  addAssistantCommand(program, context);
  addTopicCommands(program, context);
  addBackupCommands(program, context);
  addTransferCommands(program, context);
}
