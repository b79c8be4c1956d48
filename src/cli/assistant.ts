import { PassThrough } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { Command } from 'commander';
import { z } from 'zod';
import { parseExactly } from '../core/exact-json.js';
import type { Tool } from '../mcp/tools.js';
import type { CliIo, ProjectTools } from './io.js';
import type { CommandContext } from './context.js';
import { runFixtures } from './project/test-command.js';

/** What only a program on the machine of the project can do. */
const fixturesTool = (io: CliIo, tools: ProjectTools): Tool => ({
  name: 'run_fixtures',
  title: 'Run fixtures',
  description:
    "Compiles a project's folder on this machine and runs its fixtures (given, when, then) as the service would, without one.",
  scope: undefined,
  changes: false,
  input: z.strictObject({
    folder: z.string().describe('The path of the project.'),
    only: z.string().optional().describe('Those whose name or file has this in it.'),
  }),
  run: async (_client, input) => {
    const { folder, only } = input as { readonly folder: string; readonly only?: string };
    const { host, close } = tools.openCodeHost();
    const stdout = new PassThrough();
    const said: string[] = [];
    stdout.setEncoding('utf8').on('data', (text: string) => said.push(text));
    try {
      await runFixtures(host, { ...io, stdout }, folder, { only, json: true });
      await finished(stdout.end());
      return parseExactly(said.join(''));
    } finally {
      await close();
    }
  },
});

/** Serves an assistant over standard input and output, with the key of the tenant. */
export function addAssistantCommand(program: Command, { io, server }: CommandContext): void {
  program
    .command('mcp')
    .description('serve an assistant by the Model Context Protocol on standard input and output')
    .option(
      '--allow-deploy',
      'the assistant may deploy code and roll it back; without it it may only read, compile and try',
    )
    .addHelpText(
      'after',
      '\nAn assistant starts it by itself: its configuration has the command and STATEFOLD_API_KEY.',
    )
    .action(async ({ allowDeploy }: { readonly allowDeploy?: true }) => {
      const asked = server();
      const { scopes } = (await asked.tenant('GET', '/auth/whoami')) as { readonly scopes: readonly string[] };
      // What it stands on is large, and no other command needs it.
      const { assistantServer } = await import('../mcp/server.js');
      const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
      const assistant = assistantServer({
        client: asked.client({ parseJson: parseExactly }),
        scopes,
        mayDeploy: allowDeploy === true,
        version: io.tools?.version ?? '0.0.0',
        more: io.tools === undefined ? [] : [fixturesTool(io, io.tools)],
      });
      const ended = new Promise<void>((resolve) => {
        assistant.server.onclose = resolve;
        io.stdin.once('end', () => void assistant.close());
      });
      await assistant.connect(new StdioServerTransport(io.stdin, io.stdout));
      await ended;
    });
}
