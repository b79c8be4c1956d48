// The page's own backend: it holds the API key, and gives whoever may look a ticket for one stream.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const { STATEFOLD_URL, STATEFOLD_API_KEY, PROJECTION, PAGE_PORT = '8091' } = process.env;
const page = readFileSync(new URL('index.html', import.meta.url));
const path = `/projections/${PROJECTION}/stream`;

createServer(async (request, response) => {
  if (request.url === '/') return response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' }).end(page);
  if (request.url !== '/ticket') return response.writeHead(404).end();
  // Here your own backend asks who this is, and names the state keys that they may follow: { path, key: [userId] }.
  const answer = await fetch(`${STATEFOLD_URL}/auth/tickets`, {
    method: 'POST',
    headers: { 'X-API-Key': STATEFOLD_API_KEY, 'Content-Type': 'application/json' },
    body: JSON.stringify({ path }),
  }).catch(() => undefined);
  if (answer?.status !== 201) return response.writeHead(503).end();
  const { ticket } = await answer.json();
  response.writeHead(200, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' });
  response.end(JSON.stringify({ url: STATEFOLD_URL + path, ticket }));
}).listen(Number(PAGE_PORT), '127.0.0.1', () => console.log(`Open http://127.0.0.1:${PAGE_PORT}`));
