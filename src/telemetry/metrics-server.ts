import { once } from 'node:events';
import { createServer } from 'node:http';
import { listenFailure } from '../core/startup-error.js';
import type { Metrics } from './metrics.js';

/** Serves `/metrics` without a key, on a port of its own that only the scraper should reach. @throws StartupError */
export async function serveMetrics(
  port: number,
  host: string,
  metrics: Pick<Metrics, 'expose'>,
): Promise<{ close(): Promise<void> }> {
  const server = createServer((request, response) => {
    if (request.url !== '/metrics') return void response.writeHead(404).end();
    metrics.expose().then(
      ({ contentType, text }) => response.writeHead(200, { 'content-type': contentType }).end(text),
      () => response.writeHead(500).end(),
    );
  });
  server.listen(port, host);
  await once(server, 'listening').catch((error: Error) => {
    throw listenFailure(error, 'METRICS_PORT', host, port);
  });
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
