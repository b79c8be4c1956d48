import type { IncomingMessage, ServerResponse } from 'node:http';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { parseExactly } from '../core/exact-json.js';
import { ASSISTANT_ANSWER_BYTES } from '../core/reads.js';
import { StatefoldClient } from '../../packages/client/src/index.js';
import { boundedFetch } from './bounded-fetch.js';
import { assistantServer } from './server.js';

export interface AssistantsOptions {
  /** Of the service itself: what an assistant asks goes in by its front door, with the key that it has. */
  readonly url: string;
  readonly version: string;
}

/** One message, of who may send it. */
export interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly message: unknown;
  readonly apiKey: string;
  readonly scopes: readonly string[];
}

/**
 * `/mcp`: the Model Context Protocol over HTTP, without sessions: each message is answered as JSON. With `?allow=deploy`, which a
 * person puts into the address, an assistant may change what runs.
 */
export function assistants({ url, version }: AssistantsOptions): (asked: Asked) => Promise<void> {
  return async ({ request, response, message, apiKey, scopes }) => {
    const mayDeploy = new URL(request.url ?? '', 'http://statefold').searchParams.getAll('allow').includes('deploy');
    const client = new StatefoldClient({
      ...{ url, apiKey, parseJson: parseExactly },
      fetch: boundedFetch(ASSISTANT_ANSWER_BYTES),
    });
    const server = assistantServer({ client, scopes, mayDeploy, version });
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    response.once('close', () => void server.close());
    await server.connect(transport);
    await transport.handleRequest(request, response, message);
  };
}
