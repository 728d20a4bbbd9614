// Plain Express: every request is admitted, and everything runs on the event loop.
import type { AddressInfo } from 'node:net';
import express from 'express';
import { spin } from '../pool/tasks.ts';

const app = express();
app.get('/quotes', async (_req, res) => {
  const answer = await fetch(process.env.UPSTREAM ?? '');
  res.status(answer.status).send(await answer.text());
});
app.get('/score', (_req, res) => {
  res.json(spin(Number(process.env.ITERATIONS)));
});
const server = app.listen(0, '127.0.0.1', () => {
  process.send?.((server.address() as AddressInfo).port);
});
