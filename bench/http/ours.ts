import { Lane } from 'spillway';
import { createServer } from 'spillway-http';
import type { Open } from '../http.ts';

/** The whole server with its defaults; its lane for refusals is full. */
export const server: Open = async (declare) => {
  const ours = await createServer();
  const lane = new Lane({ name: 'full', limit: 1, queueMax: 0, deadlineMs: 1_000 });
  await lane.enter();
  ours.app.get('/full', { config: { lane } }, async () => {});
  declare(ours.app);
  await ours.start();
  return ours.app;
};
