// Ten services with fifty busy lanes each, below one folder, for a console to show.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Lane } from 'spillway';
import { createServer, operatorSocket } from 'spillway-http';

const [data = ''] = process.argv.slice(2);
const services = 10;
const lanesEach = 50;
const callMs = 200;

process.once('disconnect', () => process.exit());
for (let service = 0; service < services; service += 1) {
  const folder = join(data, `service-${service}`);
  mkdirSync(folder, { recursive: true });
  const server = await createServer({ port: 0, operator: { socket: operatorSocket(folder) } });
  for (let at = 0; at < lanesEach; at += 1) {
    const lane = new Lane({ name: `lane-${at}`, limit: 20, queueMax: 10, deadlineMs: 1_000 });
    server.app.get(`/route-${at}`, { config: { lane } }, async () => 'done');
    setInterval(() => void lane.run(() => sleep(5)).catch(() => {}), callMs);
  }
  await server.start();
}
process.send?.({});
