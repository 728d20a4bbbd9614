// A burst on one lane takes nothing from another: a process with 20 permits, a schedule lane that
// lets 5 run and 4 wait and refuses the rest, and a beat lane with 2 of the 20 to itself.
import { Lane, SpillwayError } from 'spillway';

const deadlineMs = 1_000;
const parent = new Lane({ name: 'process', limit: 20, queueMax: 0, deadlineMs });
const schedule = new Lane({ name: 'schedule', limit: 5, queueMax: 4, deadlineMs, parent });
const beat = new Lane({ name: 'beat', limit: 20, queueMax: 50, guaranteed: 2, deadlineMs, parent });

const work = () => new Promise<void>((resolve) => setTimeout(resolve, 20));
let done = 0;
let refused = 0;

const burst = Array.from({ length: 100 }, async () => {
  try {
    await schedule.run(work);
    done += 1;
  } catch (error) {
    if (!(error instanceof SpillwayError)) throw error;
    refused += 1; // error.status is 503, error.headers has retry-after
  }
});
await beat.run(async () => console.log('a beat got through at once'));
await Promise.all(burst);

const { inside, waiting, serviceMs } = schedule.stats;
console.log(`schedule: ${done} done, ${refused} told to come back later`);
console.log(`now ${inside} inside, ${waiting} waiting, p50 ${Math.round(serviceMs.p50)} ms`);
