import workerpool from 'workerpool';
import { echo, noop, spin } from './tasks.ts';

function bytes(value: Uint8Array): unknown {
  return new workerpool.Transfer(value, [value.buffer]);
}

workerpool.worker({ noop, echo, bytes, spin });
