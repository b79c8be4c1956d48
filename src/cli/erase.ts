import type { Command } from 'commander';
import { confirmByTyping } from './ask.js';
import { notConfirmed } from './io.js';
import type { CommandContext } from './context.js';
import type { Fields } from './server.js';

/** `statefold erase`: takes an aggregate out for good. */
export function addEraseCommand(program: Command, { io, server, show }: CommandContext): void {
  program
    .command('erase')
    .description('erase an aggregate with its events and its state, for good')
    .argument('<aggregateId>')
    .option('--reason <text>', 'why; it stays in the log, and the feed tells it')
    .option('--yes', 'do not ask')
    .action(async (aggregateId: string, { reason, yes }: { readonly reason?: string; readonly yes?: true }) => {
      const what = `This erases the aggregate ${aggregateId} with its events and its state, for good. Its id can not be used again.`;
      if (yes !== true && !(await confirmByTyping(what, aggregateId, io))) throw notConfirmed();
      const path = `/aggregates/${encodeURIComponent(aggregateId)}`;
      const answer = (await server().tenant('DELETE', path, reason === undefined ? undefined : { reason })) as Fields;
      show(answer, () =>
        answer['status'] === 'erased'
          ? `The aggregate ${aggregateId} is erased.\n`
          : `The aggregate ${aggregateId} is gone; its records are being taken out of the log.\n`,
      );
    });
}
