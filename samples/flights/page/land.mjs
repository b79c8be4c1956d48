// Lands flights of the data set, a hundred a second, so that the page has something to draw: node samples/flights/page/land.mjs 2000
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

const { STATEFOLD_URL, STATEFOLD_API_KEY } = process.env;
const [count = '1000'] = process.argv.slice(2);
const data = new URL('../../../node_modules/vega-datasets/data/flights-20k.json', import.meta.url);
const flights = JSON.parse(readFileSync(data, 'utf8')).slice(0, Number(count));
const HUNDRED = 100;

for (let at = 0; at < flights.length; at += HUNDRED) {
  const lines = flights.slice(at, at + HUNDRED).map((flight, i) =>
    JSON.stringify({
      aggregateId: `route-${flight.origin}-${flight.destination}`,
      eventType: 'FlightLanded',
      data: flight,
      idempotencyKey: `flight-${at + i}`,
    }),
  );
  const answer = await fetch(`${STATEFOLD_URL}/events/bulk`, {
    method: 'POST',
    headers: { 'X-API-Key': STATEFOLD_API_KEY, 'Content-Type': 'application/x-ndjson' },
    body: `${lines.join('\n')}\n`,
  });
  const refused = (await answer.text()).split('\n').find((line) => line !== '' && !line.includes('"status":201'));
  if (refused !== undefined) throw new Error(refused);
  if (at + HUNDRED < flights.length) await pause(1000);
}
console.log(`${flights.length} flights have landed`);
