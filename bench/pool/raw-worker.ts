import { parentPort } from 'node:worker_threads';
import type { Message, Reply } from './raw.ts';
import { echo, noop, spin } from './tasks.ts';

const tasks = { noop, echo, spin, bytes: (value: Uint8Array) => value };

parentPort?.on('message', (messages: Message[]) => {
  const buffers: ArrayBuffer[] = [];
  const replies = messages.map(({ id, name, input }): Reply => {
    const value = tasks[name](input as never);
    if (value instanceof Uint8Array) buffers.push(value.buffer as ArrayBuffer);
    return { id, value };
  });
  parentPort?.postMessage(replies, buffers);
});
