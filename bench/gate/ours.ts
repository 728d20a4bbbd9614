import { Gate, Lane } from 'spillway';
import { limit, queueMax } from '../gate.ts';

const bare = new Gate({ limit, queueMax });
const full = new Lane({ name: 'bench', limit, queueMax, deadlineMs: 30_000 });

export async function gate(work: () => Promise<void>, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const permit = await bare.enter();
    try {
      await work();
    } finally {
      permit[Symbol.dispose]();
    }
  }
}

export async function lane(work: () => Promise<void>, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const entering = full.enter();
    const permit = entering instanceof Promise ? await entering : entering;
    try {
      await work();
    } finally {
      permit[Symbol.dispose]();
    }
  }
}

export async function awaited(work: () => Promise<void>, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const permit = await full.enter();
    try {
      await work();
    } finally {
      permit[Symbol.dispose]();
    }
  }
}
